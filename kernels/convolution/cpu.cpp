// Convolutions on CPUs. Of one group and one sample at a time, or several of few places each, patches become the
// columns of a matrix [channels · kernel, samples · places], and the product with the weights runs on the whole team.
// Groups of few channels: direct.h.
#include <omp.h>

#include "kernels/convolution/direct.h"
#include "kernels/convolution/lines.h"
#include "kernels/convolution/op.h"
#include "kernels/gemm/op.h"
#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/isa/scratch.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {
namespace HYC_ISA {

namespace {

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

// columns[c · kernels + k, p] = x[c, element of p at k], 0 in the padding. x: some of one sample's channels; `pitch`
// floats are between the columns' rows.
void gatherColumns(const ConvolutionDesc &d, int64_t channels, const float *x, float *columns, int64_t pitch) {
  const int64_t rows = channels * d.kernels(), places = d.places(), stride = d.stride[2];
  runTeam(rows * places >= kParallelElements, [&] {
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      const float *from = x + row / d.kernels() * d.sizes();
      float *to = columns + row * pitch;
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
void scatterColumns(const ConvolutionDesc &d, const float *columns, int64_t pitch, float *x) {
  const int64_t channels = d.groupChannels(), places = d.places(), stride = d.stride[2];
  runTeam(channels * d.kernels() * places >= kParallelElements, [&] {
#pragma omp for schedule(static)
    for (int64_t c = 0; c < channels; ++c) {
      float *to = x + c * d.sizes();
      for (int64_t i = 0; i < d.sizes(); ++i) to[i] = 0;
      for (int64_t k = 0; k < d.kernels(); ++k)
        forEachLine(d, k, [&](int64_t place, int64_t element, Inside inner) {
          const float *line = columns + (c * d.kernels() + k) * pitch + place;
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

bool isWorthATeam(const ConvolutionDesc &d) {
  return d.batch * d.outputs * d.places() * d.groupChannels() * d.kernels() >= kParallelElements;
}

// job(0) … job(count − 1) with the planes of the thread that it runs on, each thread's made ready by prepare(planes).
template <typename Prepare, typename Job>
void forEachDirect(const ConvolutionDesc &d, int64_t count, void *workspace, Prepare prepare, Job job) {
  runTeam(isWorthATeam(d), [&] {
    const int64_t floats = directFloats(d);
    DirectPlanes planes(
        d, workspace ? static_cast<float *>(workspace) + omp_get_thread_num() * floats : threadScratch(floats));
    prepare(planes);
#pragma omp for schedule(static)
    for (int64_t i = 0; i < count; ++i) job(planes, i);
  });
}

void directOutputs(const ConvolutionDesc &d, const float *x, const float *w, float *y, void *workspace) {
  forEachDirect(
      d, d.batch * d.groups, workspace, [](DirectPlanes &planes) { planes.prepareByElement(); },
      [&](DirectPlanes &planes, int64_t part) {
        planes.outputs(x + part * d.groupChannels() * d.sizes(),
                       w + part % d.groups * d.groupOutputs() * d.groupChannels() * d.kernels(),
                       y + part * d.groupOutputs() * d.places());
      });
}

void directInputs(const ConvolutionDesc &d, const float *y, const float *w, float *x, void *workspace) {
  forEachDirect(
      d, d.batch * d.groups, workspace, [](DirectPlanes &planes) { planes.prepareByPhase(); },
      [&](DirectPlanes &planes, int64_t part) {
        planes.inputs(y + part * d.groupOutputs() * d.places(),
                      w + part % d.groups * d.groupOutputs() * d.groupChannels() * d.kernels(),
                      x + part * d.groupChannels() * d.sizes());
      });
}

void directWeights(const ConvolutionDesc &d, const float *x, const float *y, float *w, bool accumulates,
                   void *workspace) {
  const int64_t inputs = d.groupChannels() * d.kernels();
  forEachDirect(
      d, d.outputs, workspace, [](DirectPlanes &planes) { planes.prepareByElement(); },
      [&](DirectPlanes &planes, int64_t o) {
        for (int64_t i = 0; i < inputs && !accumulates; ++i) w[o * inputs + i] = 0;
        for (int64_t n = 0; n < d.batch; ++n)
          planes.weights(x + (n * d.channels + o / d.groupOutputs() * d.groupChannels()) * d.sizes(),
                         y + (n * d.outputs + o) * d.places(), w + o * inputs);
      });
}

// Samples whose patches lie side by side in one product, [first, first + count).
struct SampleBlock {
  int64_t first, count;
};
template <typename Body>
void forEachSampleBlock(const ConvolutionDesc &d, Body body) {
  const int64_t atOnce = convolutionSamples(d);
  for (int64_t n = 0; n < d.batch; n += atOnce)
    for (int64_t g = 0; g < d.groups; ++g) body(SampleBlock{n, n + atOnce < d.batch ? atOnce : d.batch - n}, g);
}

// Between y of a block's samples, [sample, outputs, places], and a matrix [outputs, sample · places] of them.
template <typename Copy>
void forEachOutputLine(const ConvolutionDesc &d, const SampleBlock &block, Copy copy) {
  runTeam(block.count * d.groupOutputs() * d.places() >= kParallelElements, [&] {
#pragma omp for schedule(static)
    for (int64_t o = 0; o < d.groupOutputs(); ++o)
      for (int64_t n = 0; n < block.count; ++n)
        copy((n * d.outputs + o) * d.places(), (o * block.count + n) * d.places());
  });
}

}  // namespace

void convolution(const ConvolutionDesc &d, const float *x, const float *w, float *y, float *columns,
                 void *gemmWorkspace) {
  if (d.isDirect()) return directOutputs(d, x, w, y, gemmWorkspace);
  const int64_t inputs = d.groupChannels() * d.kernels(), places = d.places();
  GemmDesc product;
  product.m = d.groupOutputs(), product.k = inputs;
  forEachSampleBlock(d, [&](const SampleBlock &block, int64_t group) {
    const ConvolutionPart at = partOf(d, block.first, group);
    product.n = block.count * places;
    for (int64_t n = 0; n < block.count; ++n)
      gatherColumns(d, d.groupChannels(), x + at.x + n * d.channels * d.sizes(), columns + n * places, product.n);
    float *const result = block.count > 1 ? columns + inputs * product.n : y + at.y;
    gemm(product, w + at.w, columns, nullptr, result, gemmWorkspace);
    if (block.count > 1)
      forEachOutputLine(d, block, [&](int64_t inY, int64_t inResult) {
        for (int64_t i = 0; i < places; ++i) y[at.y + inY + i] = result[inResult + i];
      });
  });
}

void convolutionTranspose(const ConvolutionDesc &d, const float *y, const float *w, float *x, float *columns,
                          void *gemmWorkspace) {
  if (d.isDirect()) return directInputs(d, y, w, x, gemmWorkspace);
  const int64_t inputs = d.groupChannels() * d.kernels(), places = d.places();
  GemmDesc product;
  product.m = inputs, product.k = d.groupOutputs();
  product.transA = true;
  forEachSampleBlock(d, [&](const SampleBlock &block, int64_t group) {
    const ConvolutionPart at = partOf(d, block.first, group);
    product.n = block.count * places;
    float *const beside = columns + inputs * product.n;
    if (block.count > 1)
      forEachOutputLine(d, block, [&](int64_t inY, int64_t inBeside) {
        for (int64_t i = 0; i < places; ++i) beside[inBeside + i] = y[at.y + inY + i];
      });
    gemm(product, w + at.w, block.count > 1 ? beside : y + at.y, nullptr, columns, gemmWorkspace);
    for (int64_t n = 0; n < block.count; ++n)
      scatterColumns(d, columns + n * places, product.n, x + at.x + n * d.channels * d.sizes());
  });
}

void convolutionWeight(const ConvolutionDesc &d, const float *x, const float *y, float *w, float *columns,
                       WriteMode mode, void *gemmWorkspace) {
  const int64_t inputs = d.groupChannels() * d.kernels(), places = d.places();
  const bool accumulates = mode == WriteMode::kAccumulate;
  if (d.batch == 0 && !accumulates)
    for (int64_t i = 0; i < d.outputs * inputs; ++i) w[i] = 0;
  if (d.isDirect()) return directWeights(d, x, y, w, accumulates, gemmWorkspace);
  GemmDesc product;
  product.m = d.groupOutputs(), product.k = places;
  product.transB = true, product.ldc = inputs;
  const int64_t channels = d.groupChannels(), atOnce = channelsAtOnce(d);
  // Weights of a few channels stay in the cache while all samples are added to them.
  for (int64_t group = 0; group < d.groups; ++group)
    for (int64_t first = 0; first < channels; first += atOnce)
      for (int64_t n = 0; n < d.batch; ++n) {
        const ConvolutionPart at = partOf(d, n, group);
        const int64_t some = channels - first < atOnce ? channels - first : atOnce;
        gatherColumns(d, some, x + at.x + first * d.sizes(), columns, places);
        product.n = some * d.kernels();
        product.beta = n > 0 || accumulates ? 1 : 0;
        gemm(product, y + at.y, columns, nullptr, w + at.w + first * d.kernels(), gemmWorkspace);
      }
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
