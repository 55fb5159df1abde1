// Convolutions on GPUs, as on CPUs: one sample and group at a time as a product with its patches, or directly, a thread
// an element (a block a weight), where groups have few channels. No atomics: what is added to an element is added by
// its own thread, in the order of the kernel's elements.
#include "kernels/convolution/cuda.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"
#include "kernels/gemm/cuda.h"

namespace hyc::kernels::cuda {
namespace {

constexpr int kWeightThreads = 128;

// Three numbers of one: the outermost first.
struct Index {
  int64_t at[3];
  __device__ Index(const int64_t (&sizes)[3], int64_t flat)
      : at{flat / (sizes[1] * sizes[2]), flat / sizes[2] % sizes[1], flat % sizes[2]} {}
};

// The element of x under kernel element `tap` at position `place`; −1: in the padding.
__device__ inline int64_t elementUnder(const ConvolutionDesc &d, const Index &place, const Index &tap) {
  int64_t element = 0;
  for (int i = 0; i < 3; ++i) {
    const int64_t s = place.at[i] * d.stride[i] + tap.at[i] * d.dilation[i] - d.low[i];
    if (s < 0 || s >= d.size[i]) return -1;
    element = element * d.size[i] + s;
  }
  return element;
}

// The position that has element `s` of x under `tap`; −1: none has.
__device__ inline int64_t placeOver(const ConvolutionDesc &d, const Index &s, const Index &tap) {
  int64_t place = 0;
  for (int i = 0; i < 3; ++i) {
    const int64_t from = s.at[i] + d.low[i] - tap.at[i] * d.dilation[i];
    if (from < 0 || from % d.stride[i] != 0 || from / d.stride[i] >= d.positions[i]) return -1;
    place = place * d.positions[i] + from / d.stride[i];
  }
  return place;
}

// columns[c · kernels + k, p] = x[c, element of p at k], 0 in the padding. x: one sample's channels of one group.
__global__ void gatherColumnsKernel(ConvolutionDesc d, const float *x, float *columns) {
  forEach(d.groupChannels() * d.kernels() * d.places(), [&](int64_t i) {
    const int64_t row = i / d.places();
    const int64_t element = elementUnder(d, Index(d.positions, i % d.places()), Index(d.kernel, row % d.kernels()));
    columns[i] = element < 0 ? 0.0f : x[row / d.kernels() * d.sizes() + element];
  });
}

// The transpose: x[c, s] = Σ columns[c · kernels + k, the position that has s under k], in the order of k.
__global__ void sumColumnsKernel(ConvolutionDesc d, const float *columns, float *x) {
  forEach(d.groupChannels() * d.sizes(), [&](int64_t i) {
    const Index s(d.size, i % d.sizes());
    const float *rows = columns + i / d.sizes() * d.kernels() * d.places();
    float sum = 0;
    for (int64_t k = 0; k < d.kernels(); ++k) {
      const int64_t place = placeOver(d, s, Index(d.kernel, k));
      if (place >= 0) sum += rows[k * d.places() + place];
    }
    x[i] = sum;
  });
}

__global__ void directOutputKernel(ConvolutionDesc d, const float *x, const float *w, float *y) {
  const int64_t inputs = d.groupChannels() * d.kernels();
  forEach(d.batch * d.outputs * d.places(), [&](int64_t i) {
    const int64_t n = i / d.places() / d.outputs, o = i / d.places() % d.outputs, group = o / d.groupOutputs();
    const Index place(d.positions, i % d.places());
    const float *from = x + (n * d.channels + group * d.groupChannels()) * d.sizes();
    float sum = 0;
    for (int64_t row = 0; row < inputs; ++row) {
      const int64_t element = elementUnder(d, place, Index(d.kernel, row % d.kernels()));
      if (element >= 0) sum += w[o * inputs + row] * from[row / d.kernels() * d.sizes() + element];
    }
    y[i] = sum;
  });
}

__global__ void directInputKernel(ConvolutionDesc d, const float *y, const float *w, float *x) {
  forEach(d.batch * d.channels * d.sizes(), [&](int64_t i) {
    const int64_t n = i / d.sizes() / d.channels, c = i / d.sizes() % d.channels, group = c / d.groupChannels();
    const Index s(d.size, i % d.sizes());
    float sum = 0;
    for (int64_t o = group * d.groupOutputs(); o < (group + 1) * d.groupOutputs(); ++o)
      for (int64_t k = 0; k < d.kernels(); ++k) {
        const int64_t place = placeOver(d, s, Index(d.kernel, k));
        if (place >= 0)
          sum += w[(o * d.groupChannels() + c % d.groupChannels()) * d.kernels() + k] *
                 y[(n * d.outputs + o) * d.places() + place];
      }
    x[i] = sum;
  });
}

// A block a weight.
__global__ void directWeightKernel(ConvolutionDesc d, const float *x, const float *y, WriteMode mode, float *w) {
  __shared__ float scratch[kMostWarps];
  const int64_t inputs = d.groupChannels() * d.kernels(), weight = blockIdx.x, o = weight / inputs;
  const int64_t c = o / d.groupOutputs() * d.groupChannels() + weight % inputs / d.kernels();
  const Index tap(d.kernel, weight % d.kernels());
  float total = mode == WriteMode::kAccumulate ? w[weight] : 0.0f;
  for (int64_t n = 0; n < d.batch; ++n) {
    const float *from = x + (n * d.channels + c) * d.sizes(), *by = y + (n * d.outputs + o) * d.places();
    float sum = 0;
    for (int64_t p = threadIdx.x; p < d.places(); p += kWeightThreads) {
      const int64_t element = elementUnder(d, Index(d.positions, p), tap);
      if (element >= 0) sum += from[element] * by[p];
    }
    total += blockSum(sum, scratch);
  }
  if (threadIdx.x == 0) w[weight] = total;
}

void gatherColumns(Stream stream, const ConvolutionDesc &d, const float *x, float *columns) {
  kernel(gatherColumnsKernel).launch(stream, gridOver(convolutionPatches(d)), d, x, columns);
}

}  // namespace

void convolution(Stream stream, const ConvolutionDesc &d, const float *x, const float *w, float *y, float *columns,
                 void *gemmWorkspace) {
  if (d.isDirect()) {
    kernel(directOutputKernel).launch(stream, gridOver(d.batch * d.outputs * d.places()), d, x, w, y);
    return;
  }
  GemmDesc product;
  product.m = d.groupOutputs(), product.n = d.places(), product.k = d.groupChannels() * d.kernels();
  forEachPart(d, [&](int64_t, ConvolutionPart at) {
    gatherColumns(stream, d, x + at.x, columns);
    gemm(stream, product, w + at.w, columns, nullptr, y + at.y, gemmWorkspace);
  });
}

void convolutionTranspose(Stream stream, const ConvolutionDesc &d, const float *y, const float *w, float *x,
                          float *columns, void *gemmWorkspace) {
  if (d.isDirect()) {
    kernel(directInputKernel).launch(stream, gridOver(d.batch * d.channels * d.sizes()), d, y, w, x);
    return;
  }
  GemmDesc product;
  product.m = d.groupChannels() * d.kernels(), product.n = d.places(), product.k = d.groupOutputs();
  product.transA = true;
  forEachPart(d, [&](int64_t, ConvolutionPart at) {
    gemm(stream, product, w + at.w, y + at.y, nullptr, columns, gemmWorkspace);
    kernel(sumColumnsKernel).launch(stream, gridOver(d.groupChannels() * d.sizes()), d, columns, x + at.x);
  });
}

void convolutionWeight(Stream stream, const ConvolutionDesc &d, const float *x, const float *y, float *w,
                       float *columns, WriteMode mode, void *gemmWorkspace) {
  const int64_t inputs = d.groupChannels() * d.kernels();
  if (d.batch == 0 && mode == WriteMode::kOverwrite)
    cudaMemsetAsync(w, 0, static_cast<size_t>(d.outputs * inputs) * sizeof(float), stream);
  if (d.isDirect()) {
    const Grid grid{dim3(static_cast<unsigned>(d.outputs * inputs)), dim3(kWeightThreads)};
    kernel(directWeightKernel).launch(stream, grid, d, x, y, mode, w);
    return;
  }
  GemmDesc product;
  product.m = d.groupOutputs(), product.n = inputs, product.k = d.places();
  product.transB = true;
  forEachPart(d, [&](int64_t n, ConvolutionPart at) {
    gatherColumns(stream, d, x + at.x, columns);
    product.beta = n > 0 || mode == WriteMode::kAccumulate ? 1 : 0;
    gemm(stream, product, y + at.y, columns, nullptr, w + at.w, gemmWorkspace);
  });
}

}  // namespace hyc::kernels::cuda
