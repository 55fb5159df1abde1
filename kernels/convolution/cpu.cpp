// Convolutions on CPUs. Of one group and one sample at a time, or several of few places each, patches become the
// columns of a matrix [channels · kernel, samples · places], as many at a time as the caches keep, and the product with
// the weights runs on the whole team. Of planes that are not small they are read where they lie instead: gathered.h,
// gathered_weights.h. Groups of few channels: direct.h.
#include <omp.h>

#include "kernels/convolution/direct.h"
#include "kernels/convolution/gathered.h"
#include "kernels/convolution/gathered_weights.h"
#include "kernels/convolution/lines.h"
#include "kernels/convolution/op.h"
#include "kernels/gemm/op.h"
#include "kernels/gemm/panels.h"
#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/isa/scratch.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {
namespace HYC_ISA {

namespace {

// Calls line(first place of the line, first element of x or -1, inner range) for each of some lines of positions at one
// tap: the innermost positions, `inner` of which are inside from x's element on, `stride[2]` apart.
struct Lines {
  int64_t first, end;
};
Lines allLines(const ConvolutionDesc &d) { return {0, d.positions[0] * d.positions[1]}; }
template <typename Line>
void forEachLine(const ConvolutionDesc &d, int64_t tap, const Lines &lines, Line line) {
  const int64_t k0 = tap / (d.kernel[1] * d.kernel[2]), k1 = tap / d.kernel[2] % d.kernel[1], k2 = tap % d.kernel[2];
  const Inside a = insideOf(d, 0, k0), b = insideOf(d, 1, k1), c = insideOf(d, 2, k2);
  int64_t p0 = lines.first / d.positions[1], p1 = lines.first % d.positions[1] - 1;
  for (int64_t l = lines.first; l < lines.end; ++l) {
    if (++p1 == d.positions[1]) ++p0, p1 = 0;
    const bool isInside = p0 >= a.begin && p0 < a.end && p1 >= b.begin && p1 < b.end;
    const int64_t s0 = p0 * d.stride[0] + k0 * d.dilation[0] - d.low[0];
    const int64_t s1 = p1 * d.stride[1] + k1 * d.dilation[1] - d.low[1];
    const int64_t s2 = c.begin * d.stride[2] + k2 * d.dilation[2] - d.low[2];
    line(l * d.positions[2], (s0 * d.size[1] + s1) * d.size[2] + s2, isInside ? c : Inside{0, 0});
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

// Some of a sample's places, [first, first + count).
struct Places {
  int64_t first, count;
};

int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// to[p − first] = x[element of p at k] for some places p of one channel, 0 in the padding.
void gatherRow(const ConvolutionDesc &d, int64_t k, const float *x, const Places &places, float *to) {
  const int64_t stride = d.stride[2], length = d.positions[2], last = places.first + places.count;
  forEachLine(d, k, {places.first / length, ceilDiv(last, length)}, [&](int64_t place, int64_t element, Inside inner) {
    float *line = to + (place - places.first);
    const float *source = x + element - inner.begin * stride;
    // Of the first and the last line maybe not all.
    const int64_t begin = larger(places.first - place, 0), end = smaller(last - place, length);
    const int64_t from = smaller(larger(inner.begin, begin), end), until = larger(smaller(inner.end, end), from);
    for (int64_t i = begin; i < from; ++i) line[i] = 0;
    if (from < until) loadEvery(source, stride, from, until, line);
    for (int64_t i = until; i < end; ++i) line[i] = 0;
  });
}

// columns[c · kernels + k, p − first] is that of channel c. x: some of one sample's channels; `pitch` floats are
// between the columns' rows.
void gatherColumns(const ConvolutionDesc &d, int64_t channels, const float *x, const Places &places, float *columns,
                   int64_t pitch) {
  const int64_t rows = channels * d.kernels();
  runTeam(rows * places.count >= kParallelElements, [&] {
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row)
      gatherRow(d, row % d.kernels(), x + row / d.kernels() * d.sizes(), places, columns + row * pitch);
  });
}

// The same, packed as the product reads them: no more places than one of its column blocks has.
void gatherPanels(const ConvolutionDesc &d, const float *x, const Places &places, float *packed) {
  const int64_t rows = d.groupChannels() * d.kernels(), padded = gemmPaddedColumns(places.count);
  const PackedB panels = {packed, 0, 0, places.count, padded};
  runTeam(rows * places.count >= kParallelElements, [&] {
#pragma omp for schedule(static)
    for (int64_t row = 0; row < rows; ++row) {
      alignas(64) float line[kGemmColumnBlock];
      gatherRow(d, row % d.kernels(), x + row / d.kernels() * d.sizes(), places, line);
      for (int64_t i = places.count; i < padded; ++i) line[i] = 0;
      const int64_t run = row / kGemmRun * kGemmRun, steps = smaller(kGemmRun, rows - run);
      for (int64_t panel = 0; panel < panels.panels(); ++panel) {
        float *to = panels.panel(run, steps, panel) + (row - run) * kPanelColumns;
        for (int i = 0; i < kPanelColumns; i += kLanes) store(to + i, load(line + panel * kPanelColumns + i));
      }
    }
  });
}

// The transpose, of some lines' places: x[c, element of p at k] += columns[c · kernels + k, p − first place], for each
// channel in the order of k. The first lines find nothing in x.
void scatterColumns(const ConvolutionDesc &d, const float *columns, int64_t pitch, const Lines &lines, float *x) {
  const int64_t channels = d.groupChannels(), stride = d.stride[2], first = lines.first * d.positions[2];
  runTeam(channels * d.kernels() * (lines.end - lines.first) * d.positions[2] >= kParallelElements, [&] {
#pragma omp for schedule(static)
    for (int64_t c = 0; c < channels; ++c) {
      float *to = x + c * d.sizes();
      for (int64_t i = 0; i < d.sizes() && first == 0; ++i) to[i] = 0;
      for (int64_t k = 0; k < d.kernels(); ++k)
        forEachLine(d, k, lines, [&](int64_t place, int64_t element, Inside inner) {
          const float *line = columns + (c * d.kernels() + k) * pitch + place - first;
          float *target = to + element - inner.begin * stride;
          addEvery(line, stride, inner.begin, inner.end, target);
        });
    }
  });
}

// What a thread's second cache keeps beside what else is there; places of a product that are worth packing its other
// operand anew.
constexpr int64_t kNearFloats = 1 << 17, kFewestOutputs = 6;

// `count` in equal parts of about `size`, which are multiples of `step`.
int64_t partOfCount(int64_t count, int64_t size, int64_t step) {
  const int64_t parts = larger(count / larger(size, 1), 1);
  return ceilDiv(ceilDiv(count, parts), step) * step;
}

// Of how many places columns are made at a time: of as many as the caches keep until a product has read them, but of
// enough for one that packs all weights anew; packed, there is room for `most`.
int64_t placesAtOnce(const ConvolutionDesc &d, int64_t most) {
  const int64_t near = kNearFloats * omp_get_max_threads() / (d.groupChannels() * d.kernels());
  const int64_t part = partOfCount(d.places(), larger(near, kFewestPlaces), kGemmPanelPadding);
  return smaller(smaller(part, kGemmColumnBlock), most / kGemmPanelPadding * kGemmPanelPadding);
}

// The same for products along the places: whole runs of theirs, so that sums are the same in parts.
int64_t depthAtOnce(const ConvolutionDesc &d) {
  return larger(partOfCount(d.places(), 2 * kGemmRun * omp_get_max_threads(), kGemmRun), kGemmRun);
}

// Of how many channels columns are made at a time: of as many as the second cache keeps,
// but of enough for a product that reads its other operand anew.
int64_t channelsAtOnce(const ConvolutionDesc &d) {
  constexpr int64_t kFewestRows = 128;
  const int64_t kernels = d.kernels(),
                near = kNearFloats * omp_get_max_threads() / (kernels * smaller(depthAtOnce(d), larger(d.places(), 1)));
  const int64_t fewest = (kFewestRows + kernels - 1) / kernels, channels = larger(d.groupChannels(), 1);
  const int64_t parts = (channels + larger(near, fewest) - 1) / larger(near, fewest);
  return (channels + parts - 1) / parts;
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

// Whether y is made on planes, in so many floats of workspace: the bits are those of the product over patches.
bool isGathered(const ConvolutionDesc &d, int64_t room) {
  return GatheredProduct::isDense(d) && GatheredProduct::floats(d) <= room;
}

// y of one sample and group, so many places at a time, of `most` of which there is room for patches. Of few places, or
// for few outputs, they are not packed.
void correlatePlaces(const ConvolutionDesc &d, const float *x, const float *w, float *y, int64_t most, float *columns,
                     void *gemmWorkspace) {
  GemmDesc product;
  product.m = d.groupOutputs(), product.k = d.groupChannels() * d.kernels(), product.ldc = d.places();
  const int64_t atOnce = placesAtOnce(d, most);
  for (int64_t first = 0; first < d.places(); first += product.n) {
    product.n = smaller(larger(atOnce, smaller(kGemmPanelPadding, most)), d.places() - first);
    const Places places = {first, product.n};
    if (gemmPaddedColumns(product.n) > most || product.m < kFewestOutputs) {
      gatherColumns(d, d.groupChannels(), x, places, columns, product.n);
      gemm(product, w, columns, nullptr, y + first, gemmWorkspace);
    } else {
      gatherPanels(d, x, places, columns);
      gemmPacked(product, w, columns, nullptr, y + first, gemmWorkspace);
    }
  }
}

// y of all samples; weight(group, output, row) tells the weights.
template <typename Weight>
void gatheredOutputs(const ConvolutionDesc &d, const float *x, float *y, float *scratch, Weight weight) {
  GatheredProduct product(d, scratch);
  for (int64_t group = 0; group < d.groups; ++group) {
    product.setWeights([&](int64_t o, int64_t row) { return weight(group, o, row); });
    for (int64_t n = 0; n < d.batch; ++n) product.multiply(x + partOf(d, n, group).x, y + partOf(d, n, group).y);
  }
}

// x of y where strides are 1: a convolution of y, whose weights are those from the last to the first, channels and
// outputs exchanged.
ConvolutionDesc turned(const ConvolutionDesc &d) {
  ConvolutionDesc back = d;
  back.channels = d.outputs, back.outputs = d.channels;
  for (int i = 0; i < 3; ++i) {
    back.size[i] = d.positions[i], back.positions[i] = d.size[i];
    back.low[i] = (d.kernel[i] - 1) * d.dilation[i] - d.low[i];
  }
  return back;
}
void correlateBack(const ConvolutionDesc &d, const float *y, const float *w, float *x, float *columns,
                   void *gemmWorkspace) {
  const ConvolutionDesc back = turned(d);
  const int64_t inputs = d.groupOutputs() * d.kernels(), room = convolutionColumns(d);
  auto weight = [&](int64_t group, int64_t c, int64_t row) {
    const int64_t o = row / d.kernels(), k = d.kernels() - 1 - row % d.kernels();
    return w[partOf(d, 0, group).w + (o * d.groupChannels() + c) * d.kernels() + k];
  };
  if (isGathered(back, room)) return gatheredOutputs(back, y, x, columns, weight);
  float *const patches = columns + d.groupChannels() * inputs;
  const int64_t most = (room - d.groupChannels() * inputs) / inputs;
  for (int64_t group = 0; group < d.groups; ++group) {
    for (int64_t c = 0; c < d.groupChannels(); ++c)
      for (int64_t row = 0; row < inputs; ++row) columns[c * inputs + row] = weight(group, c, row);
    for (int64_t n = 0; n < d.batch; ++n)
      correlatePlaces(back, y + partOf(d, n, group).y, columns, x + partOf(d, n, group).x, most, patches,
                      gemmWorkspace);
  }
}

// x of one sample and group, of so many lines' places at a time: of the same whatever channels there are, since an
// element of x is added up line by line.
void spreadPlaces(const ConvolutionDesc &d, const float *y, const float *w, float *x, float *columns,
                  void *gemmWorkspace) {
  const int64_t length = larger(d.positions[2], 1), all = allLines(d).end;
  const int64_t atOnce = partOfCount(all, kFewestPlaces / length, 1);
  GemmDesc product;
  product.m = d.groupChannels() * d.kernels(), product.k = d.groupOutputs();
  product.transA = true, product.ldb = d.places();
  for (int64_t first = 0; first < all; first += atOnce) {
    const Lines lines = {first, smaller(first + atOnce, all)};
    product.n = (lines.end - first) * length;
    gemm(product, w, y + first * length, nullptr, columns, gemmWorkspace);
    scatterColumns(d, columns, product.n, lines, x);
  }
}

// w += … of all samples, or what they give.
void gatheredWeights(const ConvolutionDesc &d, const float *x, const float *y, float *w, bool accumulates,
                     float *scratch) {
  GatheredWeights weights(d, scratch);
  for (int64_t group = 0; group < d.groups; ++group) {
    float *const own = w + partOf(d, 0, group).w;
    if (accumulates) weights.begin(own);
    for (int64_t n = 0; n < d.batch; ++n)
      weights.add(x + partOf(d, n, group).x, y + partOf(d, n, group).y, n == 0 && !accumulates);
    weights.end(own);
  }
}

}  // namespace

void convolution(const ConvolutionDesc &d, const float *x, const float *w, float *y, float *columns,
                 void *gemmWorkspace) {
  if (d.isDirect()) return directOutputs(d, x, w, y, gemmWorkspace);
  const int64_t inputs = d.groupChannels() * d.kernels(), places = d.places();
  if (isGathered(d, convolutionColumns(d)))
    return gatheredOutputs(d, x, y, columns, [&](int64_t group, int64_t o, int64_t row) {
      return w[partOf(d, 0, group).w + o * inputs + row];
    });
  GemmDesc product;
  product.m = d.groupOutputs(), product.k = inputs;
  forEachSampleBlock(d, [&](const SampleBlock &block, int64_t group) {
    const ConvolutionPart at = partOf(d, block.first, group);
    if (block.count == 1) return correlatePlaces(d, x + at.x, w + at.w, y + at.y, places, columns, gemmWorkspace);
    product.n = block.count * places;
    for (int64_t n = 0; n < block.count; ++n)
      gatherColumns(d, d.groupChannels(), x + at.x + n * d.channels * d.sizes(), {0, places}, columns + n * places,
                    product.n);
    float *const result = columns + inputs * product.n;
    gemm(product, w + at.w, columns, nullptr, result, gemmWorkspace);
    forEachOutputLine(d, block, [&](int64_t inY, int64_t inResult) {
      for (int64_t i = 0; i < places; ++i) y[at.y + inY + i] = result[inResult + i];
    });
  });
}

void convolutionTranspose(const ConvolutionDesc &d, const float *y, const float *w, float *x, float *columns,
                          void *gemmWorkspace) {
  if (d.isDirect()) return directInputs(d, y, w, x, gemmWorkspace);
  if (d.isTurned()) return correlateBack(d, y, w, x, columns, gemmWorkspace);
  const int64_t inputs = d.groupChannels() * d.kernels(), places = d.places();
  GemmDesc product;
  product.m = inputs, product.k = d.groupOutputs();
  product.transA = true;
  forEachSampleBlock(d, [&](const SampleBlock &block, int64_t group) {
    const ConvolutionPart at = partOf(d, block.first, group);
    if (block.count == 1) return spreadPlaces(d, y + at.y, w + at.w, x + at.x, columns, gemmWorkspace);
    product.n = block.count * places;
    float *const beside = columns + inputs * product.n;
    forEachOutputLine(d, block, [&](int64_t inY, int64_t inBeside) {
      for (int64_t i = 0; i < places; ++i) beside[inBeside + i] = y[at.y + inY + i];
    });
    gemm(product, w + at.w, beside, nullptr, columns, gemmWorkspace);
    for (int64_t n = 0; n < block.count; ++n)
      scatterColumns(d, columns + n * places, product.n, allLines(d), x + at.x + n * d.channels * d.sizes());
  });
}

void convolutionWeight(const ConvolutionDesc &d, const float *x, const float *y, float *w, float *columns,
                       WriteMode mode, void *gemmWorkspace) {
  const int64_t inputs = d.groupChannels() * d.kernels(), places = d.places();
  const bool accumulates = mode == WriteMode::kAccumulate;
  if (d.batch == 0 && !accumulates)
    for (int64_t i = 0; i < d.outputs * inputs; ++i) w[i] = 0;
  if (d.isDirect()) return directWeights(d, x, y, w, accumulates, gemmWorkspace);
  if (d.batch > 0 && GatheredWeights::isDense(d) && GatheredWeights::floats(d) <= convolutionColumns(d))
    return gatheredWeights(d, x, y, w, accumulates, columns);
  GemmDesc product;
  product.m = d.groupOutputs(), product.lda = places;
  product.transB = true, product.ldc = inputs;
  const int64_t channels = d.groupChannels(), atOnce = channelsAtOnce(d), depth = depthAtOnce(d);
  // Weights of a few channels stay in the cache while all samples are added to them.
  for (int64_t group = 0; group < d.groups; ++group)
    for (int64_t first = 0; first < channels; first += atOnce)
      for (int64_t n = 0; n < d.batch; ++n) {
        const ConvolutionPart at = partOf(d, n, group);
        const int64_t some = smaller(atOnce, channels - first);
        product.n = some * d.kernels();
        for (int64_t place = 0; place < places; place += depth) {
          product.k = smaller(depth, places - place);
          product.beta = n > 0 || place > 0 || accumulates ? 1 : 0;
          gatherColumns(d, some, x + at.x + first * d.sizes(), {place, product.k}, columns, product.k);
          gemm(product, y + at.y + place, columns, nullptr, w + at.w + first * d.kernels(), gemmWorkspace);
        }
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
