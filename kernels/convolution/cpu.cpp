// Convolutions on CPUs. One sample and group at a time: its patches become the columns of a matrix
// [channels · kernel, places], and the product with the weights runs on the whole team.
#include "kernels/convolution/op.h"
#include "kernels/gemm/op.h"
#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {
namespace HYC_ISA {

namespace {

// Positions [begin, end) of a dimension at which kernel element `tap` lies inside the input.
struct Inside {
  int64_t begin, end;
};
Inside insideOf(const ConvolutionDesc &d, int dim, int64_t tap) {
  const int64_t shift = tap * d.dilation[dim] - d.low[dim], stride = d.stride[dim];
  int64_t begin = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  int64_t end = shift >= d.size[dim] ? 0 : (d.size[dim] - 1 - shift) / stride + 1;
  if (end > d.positions[dim]) end = d.positions[dim];
  if (begin > end) begin = end;
  return {begin, end};
}

// Calls line(first place of the line, first element of x or -1, inner range) for each line of positions at one tap:
// the innermost positions, `inner` of which are inside from x's element on, `stride[2]` apart.
template <typename Line>
void forEachLine(const ConvolutionDesc &d, int64_t tap, Line line) {
  const int64_t k0 = tap / (d.kernel[1] * d.kernel[2]), k1 = tap / d.kernel[2] % d.kernel[1], k2 = tap % d.kernel[2];
  const Inside a = insideOf(d, 0, k0), b = insideOf(d, 1, k1), c = insideOf(d, 2, k2);
  for (int64_t p0 = 0; p0 < d.positions[0]; ++p0)
    for (int64_t p1 = 0; p1 < d.positions[1]; ++p1) {
      const bool isInside = p0 >= a.begin && p0 < a.end && p1 >= b.begin && p1 < b.end;
      const int64_t s0 = p0 * d.stride[0] + k0 * d.dilation[0] - d.low[0];
      const int64_t s1 = p1 * d.stride[1] + k1 * d.dilation[1] - d.low[1];
      const int64_t s2 = c.begin * d.stride[2] + k2 * d.dilation[2] - d.low[2];
      line((p0 * d.positions[1] + p1) * d.positions[2], (s0 * d.size[1] + s1) * d.size[2] + s2,
           isInside ? c : Inside{0, 0});
    }
}

// Every other of 2 · kLanes − 1 floats.
HYC_INLINE Vector loadEveryOther(const float *source) {
  WordVector even;
  for (int64_t l = 0; l < kLanes; ++l) even[l] = static_cast<uint32_t>(2 * l < kLanes ? 2 * l : 2 * l + 1);
  return __builtin_shuffle(load(source), load(source + kLanes - 1), even);
}

// line[i] = source[i · stride]. Of every other element, lines are short where images are small: the last of a line are
// loaded with some of those before them once more.
HYC_INLINE void loadEvery(const float *source, int64_t stride, int64_t begin, int64_t end, float *line) {
  if (stride == 1) {
    for (int64_t i = begin; i < end; ++i) line[i] = source[i];
  } else if (stride == 2 && end - begin >= kLanes) {
    for (int64_t i = begin; i + kLanes < end; i += kLanes) store(line + i, loadEveryOther(source + 2 * i));
    store(line + end - kLanes, loadEveryOther(source + 2 * (end - kLanes)));
  } else {
    for (int64_t i = begin; i < end; ++i) line[i] = source[i * stride];
  }
}

// target[i · stride] += line[i]. Of every other element whole vectors are added to, with zeros between, which change no
// sum: one that begins at +0 is never −0. The last element of a line is added alone, since what follows it may be
// another thread's.
HYC_INLINE void addEvery(const float *line, int64_t stride, int64_t begin, int64_t end, float *target) {
  constexpr int64_t kBlock = 8;
  int64_t i = begin;
  if (stride == 2)
    for (; i + kBlock < end; i += kBlock) {
      float spread[2 * kBlock] = {};
      for (int64_t l = 0; l < kBlock; ++l) spread[2 * l] = line[i + l];
      for (int64_t l = 0; l < 2 * kBlock; ++l) target[2 * i + l] += spread[l];
    }
  if (stride == 1) {
    for (; i < end; ++i) target[i] += line[i];
  } else {
    for (; i < end; ++i) target[i * stride] += line[i];
  }
}

// columns[c · kernels + k, p] = x[c, element of p at k], 0 in the padding. x: some of one sample's channels.
void gatherColumns(const ConvolutionDesc &d, int64_t channels, const float *x, float *columns) {
  const int64_t rows = channels * d.kernels(), places = d.places(), stride = d.stride[2];
  runTeam(rows * places >= kParallelElements, [&] {
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      const float *from = x + row / d.kernels() * d.sizes();
      float *to = columns + row * places;
      forEachLine(d, row % d.kernels(), [&](int64_t place, int64_t element, Inside inner) {
        float *line = to + place;
        const float *source = from + element - inner.begin * stride;
        for (int64_t i = 0; i < inner.begin; ++i) line[i] = 0;
        loadEvery(source, stride, inner.begin, inner.end, line);
        for (int64_t i = inner.end; i < d.positions[2]; ++i) line[i] = 0;
      });
    }
  });
}

// The transpose: x[c, element of p at k] += columns[c · kernels + k, p], for each channel in the order of k.
void scatterColumns(const ConvolutionDesc &d, const float *columns, float *x) {
  const int64_t channels = d.groupChannels(), places = d.places(), stride = d.stride[2];
  runTeam(channels * d.kernels() * places >= kParallelElements, [&] {
#pragma omp for schedule(static)
    for (int64_t c = 0; c < channels; ++c) {
      float *to = x + c * d.sizes();
      for (int64_t i = 0; i < d.sizes(); ++i) to[i] = 0;
      for (int64_t k = 0; k < d.kernels(); ++k)
        forEachLine(d, k, [&](int64_t place, int64_t element, Inside inner) {
          const float *line = columns + (c * d.kernels() + k) * places + place;
          float *target = to + element - inner.begin * stride;
          addEvery(line, stride, inner.begin, inner.end, target);
        });
    }
  });
}

// Of how many channels columns are made at a time: of as many as the second cache keeps,
// but of enough for a product that reads its other operand anew.
int64_t channelsAtOnce(const ConvolutionDesc &d) {
  constexpr int64_t kNearFloats = 1 << 17, kFewestRows = 128;
  const int64_t kernels = d.kernels(), near = kNearFloats / (kernels * d.places());
  const int64_t fewest = (kFewestRows + kernels - 1) / kernels, count = near > fewest ? near : fewest;
  return count < d.groupChannels() ? count : d.groupChannels();
}

// One output channel of one sample, tap by tap.
void directOutput(const ConvolutionDesc &d, const float *x, const float *w, float *y) {
  const int64_t stride = d.stride[2];
  for (int64_t p = 0; p < d.places(); ++p) y[p] = 0;
  for (int64_t c = 0; c < d.groupChannels(); ++c)
    for (int64_t k = 0; k < d.kernels(); ++k) {
      const float weight = w[c * d.kernels() + k];
      forEachLine(d, k, [&](int64_t place, int64_t element, Inside inner) {
        const float *source = x + c * d.sizes() + element - inner.begin * stride;
        float *line = y + place;
        for (int64_t i = inner.begin; i < inner.end; ++i) line[i] += weight * source[i * stride];
      });
    }
}

// One input channel of one sample: w is of the group's first output, c its place in the group.
void directInput(const ConvolutionDesc &d, const float *y, const float *w, int64_t c, float *x) {
  const int64_t stride = d.stride[2];
  for (int64_t i = 0; i < d.sizes(); ++i) x[i] = 0;
  for (int64_t o = 0; o < d.groupOutputs(); ++o)
    for (int64_t k = 0; k < d.kernels(); ++k) {
      const float weight = w[(o * d.groupChannels() + c) * d.kernels() + k];
      forEachLine(d, k, [&](int64_t place, int64_t element, Inside inner) {
        const float *line = y + o * d.places() + place;
        float *target = x + element - inner.begin * stride;
        for (int64_t i = inner.begin; i < inner.end; ++i) target[i * stride] += weight * line[i];
      });
    }
}

// One weight's part of one sample, summed in 16 lanes along each line.
float directWeight(const ConvolutionDesc &d, const float *x, const float *y, int64_t k) {
  constexpr int64_t kLanes = 16;
  const int64_t stride = d.stride[2];
  float lanes[kLanes] = {};
  forEachLine(d, k, [&](int64_t place, int64_t element, Inside inner) {
    const float *line = y + place, *source = x + element - inner.begin * stride;
    int64_t i = inner.begin;
    for (; i + kLanes <= inner.end; i += kLanes)
      for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += line[i + lane] * source[(i + lane) * stride];
    for (int64_t lane = 0; i < inner.end; ++i, ++lane) lanes[lane] += line[i] * source[i * stride];
  });
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  return lanes[0];
}

bool isWorthATeam(const ConvolutionDesc &d) {
  return d.batch * d.outputs * d.places() * d.groupChannels() * d.kernels() >= kParallelElements;
}

}  // namespace

void convolution(const ConvolutionDesc &d, const float *x, const float *w, float *y, float *columns,
                 void *gemmWorkspace) {
  const int64_t inputs = d.groupChannels() * d.kernels();
  if (d.isDirect()) {
    runTeam(isWorthATeam(d), [&] {
#pragma omp for schedule(static)
      for (int64_t job = 0; job < d.batch * d.outputs; ++job) {
        const int64_t n = job / d.outputs, o = job % d.outputs, group = o / d.groupOutputs();
        directOutput(d, x + (n * d.channels + group * d.groupChannels()) * d.sizes(), w + o * inputs,
                     y + job * d.places());
      }
    });
    return;
  }
  GemmDesc product;
  product.m = d.groupOutputs(), product.n = d.places(), product.k = inputs;
  forEachPart(d, [&](int64_t, ConvolutionPart at) {
    gatherColumns(d, d.groupChannels(), x + at.x, columns);
    gemm(product, w + at.w, columns, nullptr, y + at.y, gemmWorkspace);
  });
}

void convolutionTranspose(const ConvolutionDesc &d, const float *y, const float *w, float *x, float *columns,
                          void *gemmWorkspace) {
  const int64_t inputs = d.groupChannels() * d.kernels();
  if (d.isDirect()) {
    runTeam(isWorthATeam(d), [&] {
#pragma omp for schedule(static)
      for (int64_t job = 0; job < d.batch * d.channels; ++job) {
        const int64_t n = job / d.channels, c = job % d.channels, group = c / d.groupChannels();
        directInput(d, y + (n * d.outputs + group * d.groupOutputs()) * d.places(),
                    w + group * d.groupOutputs() * inputs, c % d.groupChannels(), x + job * d.sizes());
      }
    });
    return;
  }
  GemmDesc product;
  product.m = inputs, product.n = d.places(), product.k = d.groupOutputs();
  product.transA = true;
  forEachPart(d, [&](int64_t, ConvolutionPart at) {
    gemm(product, w + at.w, y + at.y, nullptr, columns, gemmWorkspace);
    scatterColumns(d, columns, x + at.x);
  });
}

void convolutionWeight(const ConvolutionDesc &d, const float *x, const float *y, float *w, float *columns,
                       WriteMode mode, void *gemmWorkspace) {
  const int64_t inputs = d.groupChannels() * d.kernels();
  const bool accumulates = mode == WriteMode::kAccumulate;
  if (d.batch == 0 && !accumulates)
    for (int64_t i = 0; i < d.outputs * inputs; ++i) w[i] = 0;
  if (d.isDirect()) {
    runTeam(isWorthATeam(d), [&] {
#pragma omp for schedule(static)
      for (int64_t job = 0; job < d.outputs * inputs; ++job) {
        const int64_t o = job / inputs, c = o / d.groupOutputs() * d.groupChannels() + job % inputs / d.kernels();
        float sum = accumulates ? w[job] : 0;
        for (int64_t n = 0; n < d.batch; ++n)
          sum += directWeight(d, x + (n * d.channels + c) * d.sizes(), y + (n * d.outputs + o) * d.places(),
                              job % d.kernels());
        w[job] = sum;
      }
    });
    return;
  }
  GemmDesc product;
  product.m = d.groupOutputs(), product.k = d.places();
  product.transB = true, product.ldc = inputs;
  const int64_t channels = d.groupChannels(), atOnce = channelsAtOnce(d);
  forEachPart(d, [&](int64_t n, ConvolutionPart at) {
    product.beta = n > 0 || accumulates ? 1 : 0;
    for (int64_t first = 0; first < channels; first += atOnce) {
      const int64_t some = channels - first < atOnce ? channels - first : atOnce;
      gatherColumns(d, some, x + at.x + first * d.sizes(), columns);
      product.n = some * d.kernels();
      gemm(product, y + at.y, columns, nullptr, w + at.w + first * d.kernels(), gemmWorkspace);
    }
  });
}

}  // namespace HYC_ISA

HYC_DISPATCH(void, convolution,
             (const ConvolutionDesc &d, const float *x, const float *w, float *y, float *columns, void *gemmWorkspace),
             (d, x, w, y, columns, gemmWorkspace))
HYC_DISPATCH(void, convolutionTranspose,
             (const ConvolutionDesc &d, const float *y, const float *w, float *x, float *columns, void *gemmWorkspace),
             (d, y, w, x, columns, gemmWorkspace))
HYC_DISPATCH(void, convolutionWeight,
             (const ConvolutionDesc &d, const float *x, const float *y, float *w, float *columns, WriteMode mode,
              void *gemmWorkspace),
             (d, x, y, w, columns, mode, gemmWorkspace))

}  // namespace hyc::kernels
