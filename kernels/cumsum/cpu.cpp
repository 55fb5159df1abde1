// Running sums on CPUs. Terms are added one by one, so that what runs side by side are lines: the elements beside the
// dimension, and where those are few, several of the outer dimension, which are turned for it.
#include "kernels/cumsum/op.h"
#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/isa/transpose.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {
namespace HYC_ISA {
namespace {

constexpr int64_t kWidth = 64;       // sums side by side, of elements beside the dimension
constexpr int64_t kShortInner = 8;   // fewer elements beside it are turned
constexpr int64_t kLines = 16;       // of the outer dimension, side by side
constexpr int64_t kTurnedLines = 8;  // at once
constexpr int64_t kChunk = 64;       // elements of a line that are turned together

// `count` positions of a dimension, whose elements are `step` apart: adds `width` lines side by side.
template <typename T>
HYC_INLINE void addUp(const CumSumDesc &d, int64_t count, int64_t step, int64_t width, const T *x, T *y, T *sums) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = (d.reverse ? count - 1 - i : i) * step;
    for (int64_t r = 0; r < width; ++r) {
      const T before = sums[r];
      sums[r] = static_cast<T>(before + x[at + r]);
      y[at + r] = d.exclusive ? before : sums[r];
    }
  }
}

// The same in place, of so few positions that they stay in the first cache: the sums of a few lines stay in registers.
template <typename T>
HYC_INLINE void addUpNear(const CumSumDesc &d, int64_t count, int64_t width, T *block, T *sums) {
  typedef T Lanes __attribute__((vector_size(64)));
  constexpr int64_t kSideBySide = sizeof(Lanes) / sizeof(T);
  static_assert(kLines % kSideBySide == 0);
  for (int64_t r = 0; r < width; r += kSideBySide) {
    Lanes sum;
    __builtin_memcpy(&sum, sums + r, sizeof(sum));
    for (int64_t i = 0; i < count; ++i) {
      T *const at = block + (d.reverse ? count - 1 - i : i) * width + r;
      Lanes term;
      __builtin_memcpy(&term, at, sizeof(term));
      const Lanes before = sum;
      sum = sum + term;
      term = d.exclusive ? before : sum;
      __builtin_memcpy(at, &term, sizeof(term));
    }
    __builtin_memcpy(sums + r, &sum, sizeof(sum));
  }
}

// dst[c · ldd + r] = src[r · lds + c]
template <typename T>
HYC_INLINE void turn(const T *src, int64_t lds, int64_t rows, int64_t cols, T *dst, int64_t ldd) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) dst[c * ldd + r] = src[r * lds + c];
}
HYC_INLINE void turn(const float *src, int64_t lds, int64_t rows, int64_t cols, float *dst, int64_t ldd) {
  transposeBlock(src, lds, rows, cols, dst, ldd);
}

// `lines` ≤ kLines of the outer dimension.
template <typename T>
void addLines(const CumSumDesc &d, int64_t lines, const T *x, T *y) {
  const int64_t length = d.size * d.inner, chunk = kChunk / d.inner, chunks = (d.size + chunk - 1) / chunk;
  T block[kChunk * kLines] = {}, sums[kShortInner * kLines] = {};
  for (int64_t i = 0; i < chunks; ++i) {
    const int64_t first = (d.reverse ? chunks - 1 - i : i) * chunk;
    const int64_t count = d.size - first < chunk ? d.size - first : chunk;
    turn(x + first * d.inner, length, lines, count * d.inner, block, kLines);
    addUpNear(d, count, d.inner * kLines, block, sums);
    // A few lines at a time: long ones often lie in the same places of the cache.
    for (int64_t l = 0; l < lines; l += kTurnedLines)
      turn(block + l, kLines, count * d.inner, lines - l < kTurnedLines ? lines - l : kTurnedLines,
           y + l * length + first * d.inner, length);
  }
}

template <typename T>
void cumSumOf(const CumSumDesc &d, const T *x, T *y) {
  const int64_t length = d.size * d.inner;
  if (length == 0) return;
  const bool isWorthATeam = d.outer * length >= kParallelElements;
  if (d.inner < kShortInner) {
    runTeam(isWorthATeam, [&] {
#pragma omp for schedule(static)
      for (int64_t first = 0; first < d.outer; first += kLines)
        addLines(d, d.outer - first < kLines ? d.outer - first : kLines, x + first * length, y + first * length);
    });
    return;
  }
  const int64_t pieces = (d.inner + kWidth - 1) / kWidth;
  runTeam(isWorthATeam, [&] {
#pragma omp for schedule(static)
    for (int64_t job = 0; job < d.outer * pieces; ++job) {
      const int64_t first = job % pieces * kWidth, begin = job / pieces * length + first;
      T sums[kWidth] = {};
      addUp(d, d.size, d.inner, d.inner - first < kWidth ? d.inner - first : kWidth, x + begin, y + begin, sums);
    }
  });
}

}  // namespace

void cumSum(const CumSumDesc &d, const float *x, float *y) { cumSumOf(d, x, y); }
void cumSum(const CumSumDesc &d, const double *x, double *y) { cumSumOf(d, x, y); }
void cumSum(const CumSumDesc &d, const int64_t *x, int64_t *y) { cumSumOf(d, x, y); }
void cumSum(const CumSumDesc &d, const int32_t *x, int32_t *y) { cumSumOf(d, x, y); }

}  // namespace HYC_ISA

HYC_DISPATCH(void, cumSum, (const CumSumDesc &d, const float *x, float *y), (d, x, y))
HYC_DISPATCH(void, cumSum, (const CumSumDesc &d, const double *x, double *y), (d, x, y))
HYC_DISPATCH(void, cumSum, (const CumSumDesc &d, const int64_t *x, int64_t *y), (d, x, y))
HYC_DISPATCH(void, cumSum, (const CumSumDesc &d, const int32_t *x, int32_t *y), (d, x, y))

}  // namespace hyc::kernels
