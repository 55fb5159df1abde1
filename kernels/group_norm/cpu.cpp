// Normalisation of groups of channels on CPUs. A group stays in the cache between the passes over it; where there are
// fewer groups than keep all threads busy, they do each pass over a group together, with the same bits.
#include "kernels/group_norm/op.h"
#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {
namespace HYC_ISA {
namespace {

constexpr int64_t kBlock = 16384;  // elements of one sum, and of one chunk of a channel
constexpr int64_t kBatch = 256;    // blocks of one sum under way at once

constexpr int64_t blockCount(int64_t size) { return (size + kBlock - 1) / kBlock; }
constexpr int64_t endOfBlock(int64_t block, int64_t size) {
  return (block + 1) * kBlock < size ? (block + 1) * kBlock : size;
}

struct Pair {
  float first = 0, second = 0;
};

// Two sums over elements first … end − 1: term(i) is a Pair. A few elements are added one by one.
template <typename Term>
HYC_INLINE Pair sumOfPairs(int64_t first, int64_t end, const Term &term) {
  if (end - first < kRowLanes) {
    Pair sum;
    for (int64_t i = first; i < end; ++i) {
      const Pair one = term(i);
      sum = {sum.first + one.first, sum.second + one.second};
    }
    return sum;
  }
  LaneSum sums[2];
  float terms[2][kRowLanes];
  int64_t i = first;
  for (; i + kRowLanes <= end; i += kRowLanes) {
    for (int64_t l = 0; l < kRowLanes; ++l) {
      const Pair one = term(i + l);
      terms[0][l] = one.first, terms[1][l] = one.second;
    }
    sums[0].add(terms[0]), sums[1].add(terms[1]);
  }
  for (int64_t l = 0; i + l < end; ++l) {
    const Pair one = term(i + l);
    terms[0][l] = one.first, terms[1][l] = one.second;
  }
  sums[0].addTail(terms[0], end - i), sums[1].addTail(terms[1], end - i);
  return {sums[0].total(), sums[1].total()};
}

// The same of one sum.
template <typename Term>
HYC_INLINE float sumOfBlock(int64_t first, int64_t end, const Term &term) {
  return sumOfTerms(end - first, [&](int64_t i) { return term(first + i); });
}

// The passes over a group are one thread's of several that have a group each (Alone), or all threads'.
struct Together {
  template <typename Job>
  static HYC_INLINE void forEach(int64_t count, const Job &job) {
    runTeam(count > 1, [&] {
#pragma omp for schedule(static) nowait
      for (int64_t i = 0; i < count; ++i) job(i);
    });
  }
};

// Blocks' sums, sum(first, end), in their order.
template <typename Who, typename Sum>
HYC_INLINE Pair sumInBlocks(int64_t size, const Sum &sum) {
  Pair total, partial[kBatch];
  for (int64_t batch = 0; batch < blockCount(size); batch += kBatch) {
    const int64_t left = blockCount(size) - batch, count = left < kBatch ? left : kBatch;
    Who::forEach(count, [&](int64_t b) { partial[b] = sum((batch + b) * kBlock, endOfBlock(batch + b, size)); });
    for (int64_t b = 0; b < count; ++b) total = {total.first + partial[b].first, total.second + partial[b].second};
  }
  return total;
}

// job(channel, first, end) over chunks of all channels.
template <typename Who, typename Job>
HYC_INLINE void forEachChunk(const GroupNormDesc &d, const Job &job) {
  const int64_t chunks = blockCount(d.positions);
  Who::forEach(d.channels * chunks, [&](int64_t i) {
    const int64_t c = i / chunks, chunk = i % chunks;
    job(c, c * d.positions + chunk * kBlock, c * d.positions + endOfBlock(chunk, d.positions));
  });
}

// Whether there is a group for every thread, or so little to do that one does it all.
bool areShared(int64_t jobs, int64_t elements) {
  return elements < kParallelElements || jobs >= 2 * int64_t{omp_get_max_threads()};
}

//===-- Forward -------------------------------------------------------------------------------------------------===//

template <typename Who, typename T>
void normaliseGroup(const GroupNormDesc &d, const T *x, const float *scale, const float *bias, T *y, float *mean,
                    float *rstd) {
  const int64_t size = d.channels * d.positions;
  const float count = static_cast<float>(size);
  const Pair sum =
      sumInBlocks<Who>(size, [&](int64_t first, int64_t end) { return Pair{sumOfRow(x + first, end - first)}; });
  const float groupMean = sum.first / count;
  const Pair squares = sumInBlocks<Who>(size, [&](int64_t first, int64_t end) {
    return Pair{sumOfBlock(first, end, [&](int64_t i) { return (x[i] - groupMean) * (x[i] - groupMean); })};
  });
  const float variance = squares.first / count + static_cast<float>(d.epsilon);
  const float groupRstd = 1.0f / __builtin_sqrtf(variance);
  forEachChunk<Who>(d, [&](int64_t c, int64_t first, int64_t end) {
    const float factor = groupRstd * scale[c], shift = bias[c];
#pragma omp simd
    for (int64_t i = first; i < end; ++i) y[i] = (x[i] - groupMean) * factor + shift;
  });
  *mean = groupMean;
  *rstd = groupRstd;
}

//===-- Gradient ------------------------------------------------------------------------------------------------===//

struct Statistics {
  float mean, rstd;
};

// Of each channel the sums of dy and dy · x̂.
template <typename Who, typename T>
void sumChannels(const GroupNormDesc &d, const T *x, Statistics s, const T *dy, float *sums, float *products) {
  const auto sumOfChannel = [&](auto who, int64_t c) {
    const T *const xs = x + c * d.positions, *const dys = dy + c * d.positions;
    const Pair sum = sumInBlocks<decltype(who)>(d.positions, [&](int64_t first, int64_t end) {
      return sumOfPairs(first, end, [&](int64_t i) {
        const float g = dys[i];
        return Pair{g, g * ((xs[i] - s.mean) * s.rstd)};
      });
    });
    sums[c] = sum.first, products[c] = sum.second;
  };
  if (blockCount(d.positions) > d.channels) {
    for (int64_t c = 0; c < d.channels; ++c) sumOfChannel(Who(), c);
  } else {
    Who::forEach(d.channels, [&](int64_t c) { sumOfChannel(Alone(), c); });
  }
}

// `sums` and `products` are those of sumChannels.
template <typename Who, typename T>
void differentiateGroup(const GroupNormDesc &d, const T *x, const float *scale, Statistics s, const float *sums,
                        const float *products, const T *dy, T *dx) {
  const float count = static_cast<float>(d.channels * d.positions);
  float sumG = 0, sumGx = 0;
  for (int64_t c = 0; c < d.channels; ++c) {
    sumG += sums[c] * scale[c];
    sumGx += products[c] * scale[c];
  }
  const float shift = s.rstd * (sumG / count), slope = s.rstd * (s.rstd * (sumGx / count));
  forEachChunk<Who>(d, [&](int64_t c, int64_t first, int64_t end) {
    const float factor = s.rstd * scale[c];
#pragma omp simd
    for (int64_t i = first; i < end; ++i) dx[i] = dy[i] * factor - shift - (x[i] - s.mean) * slope;
  });
}

// One group of a block of samples. `vectors`: the block's part of the workspace, [kGroupNormVectors, groups, channels].
template <typename Who, typename T>
void differentiateBlock(const GroupNormDesc &d, int64_t block, int64_t group, const T *x, const float *scale,
                        const float *mean, const float *rstd, const T *dy, T *dx, float *vectors) {
  const int64_t width = d.groups * d.channels, from = group * d.channels, size = d.channels * d.positions;
  float *const sums = vectors + from, *const products = sums + width;
  float *const allSums = products + width, *const allProducts = allSums + width;
  for (int64_t c = 0; c < d.channels; ++c) allSums[c] = allProducts[c] = 0;
  const int64_t each = groupNormSamplesPerBlock(d),
                end = (block + 1) * each < d.samples ? (block + 1) * each : d.samples;
  for (int64_t sample = block * each; sample < end; ++sample) {
    const int64_t row = sample * d.groups + group, first = row * size;
    const Statistics s = {mean[row], rstd[row]};
    sumChannels<Who>(d, x + first, s, dy + first, sums, products);
    for (int64_t c = 0; c < d.channels; ++c) {
      allSums[c] += sums[c];
      allProducts[c] += products[c];
    }
    differentiateGroup<Who>(d, x + first, scale + from, s, sums, products, dy + first, dx + first);
  }
}

// One channel's sum over the blocks of samples, in their order.
void combineBlocks(const float *partial, int64_t blocks, int64_t stride, WriteMode mode, float *out) {
  float sum = 0;
  for (int64_t block = 0; block < blocks; ++block) sum += partial[block * stride];
  *out = mode == WriteMode::kAccumulate ? *out + sum : sum;
}

}  // namespace

template <typename T>
void groupNormForward(const GroupNormDesc &d, const T *x, const float *scale, const float *bias, T *y, float *mean,
                      float *rstd) {
  const int64_t rows = d.samples * d.groups, size = d.channels * d.positions;
  const auto normalise = [&](auto who, int64_t row) {
    const int64_t first = row * size, c = row % d.groups * d.channels;
    normaliseGroup<decltype(who)>(d, x + first, scale + c, bias + c, y + first, mean + row, rstd + row);
  };
  if (!areShared(rows, rows * size)) {
    for (int64_t row = 0; row < rows; ++row) normalise(Together(), row);
    return;
  }
  runTeam(rows * size >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t row = 0; row < rows; ++row) normalise(Alone(), row);
  });
}

template <typename T>
void groupNormBackward(const GroupNormDesc &d, const T *x, const float *scale, const float *mean, const float *rstd,
                       const T *dy, T *dx, float *dscale, float *dbias, WriteMode mode, void *workspace) {
  const int64_t width = d.groups * d.channels, stride = kGroupNormVectors * width, blocks = groupNormBlocks(d);
  const int64_t jobs = blocks * d.groups, elements = d.samples * width * d.positions;
  float *const vectors = static_cast<float *>(workspace);
  const auto differentiate = [&](auto who, int64_t job) {
    const int64_t block = job / d.groups;
    differentiateBlock<decltype(who)>(d, block, job % d.groups, x, scale, mean, rstd, dy, dx, vectors + block * stride);
  };
  if (areShared(jobs, elements)) {
    runTeam(elements >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
      for (int64_t job = 0; job < jobs; ++job) differentiate(Alone(), job);
    });
  } else {
    for (int64_t job = 0; job < jobs; ++job) differentiate(Together(), job);
  }
  runTeam(blocks * width >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t c = 0; c < width; ++c) {
      combineBlocks(vectors + 2 * width + c, blocks, stride, mode, dbias + c);
      combineBlocks(vectors + 3 * width + c, blocks, stride, mode, dscale + c);
    }
  });
}

HYC_INSTANTIATE(groupNormForward)
HYC_INSTANTIATE(groupNormBackward)

}  // namespace HYC_ISA

HYC_DISPATCH_TEMPLATE(void, groupNormForward,
                      (const GroupNormDesc &d, const T *x, const float *scale, const float *bias, T *y, float *mean,
                       float *rstd),
                      (d, x, scale, bias, y, mean, rstd))
HYC_DISPATCH_TEMPLATE(void, groupNormBackward,
                      (const GroupNormDesc &d, const T *x, const float *scale, const float *mean, const float *rstd,
                       const T *dy, T *dx, float *dscale, float *dbias, WriteMode mode, void *workspace),
                      (d, x, scale, mean, rstd, dy, dx, dscale, dbias, mode, workspace))

}  // namespace hyc::kernels
