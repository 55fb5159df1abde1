// Copies and fills on CPUs.
#include <cstring>

#include "kernels/copy/op.h"
#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {
namespace HYC_ISA {

constexpr int64_t kChunk = 16384;             // elements of one job
constexpr int64_t kStreamElements = 4 << 20;  // 16 MiB: from here on the destination would push out the cache

#if HYC_ISA_ID == 2
HYC_INLINE void stream(float *p, Vector v) { _mm512_stream_ps(p, v); }
HYC_INLINE void finishStreaming() { _mm_sfence(); }
#elif HYC_ISA_ID == 1
HYC_INLINE void stream(float *p, Vector v) { _mm256_stream_ps(p, v); }
HYC_INLINE void finishStreaming() { _mm_sfence(); }
#else
HYC_INLINE void stream(float *p, Vector v) { store(p, v); }
HYC_INLINE void finishStreaming() {}
#endif

// dst[i] = value(i), past the cache. `vector` gives the same for kLanes elements from i on.
template <typename Scalar, typename Wide>
HYC_INLINE void streamRange(float *dst, int64_t n, Scalar value, Wide vector) {
  int64_t i = 0;
  for (; i < n && reinterpret_cast<uintptr_t>(dst + i) % sizeof(Vector) != 0; ++i) dst[i] = value(i);
  for (; i + kLanes <= n; i += kLanes) stream(dst + i, vector(i));
  for (; i < n; ++i) dst[i] = value(i);
}

void copy(float *dst, const float *src, int64_t n) {
  const bool streaming = n >= kStreamElements;
  runTeam(n >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t start = 0; start < n; start += kChunk) {
      const int64_t length = n - start < kChunk ? n - start : kChunk;
      const float *from = src + start;
      if (streaming)
        streamRange(dst + start, length, [=](int64_t i) { return from[i]; }, [=](int64_t i) { return load(from + i); });
      else
        std::memcpy(dst + start, from, length * sizeof(float));
    }
    if (streaming) finishStreaming();
  });
}

void fill(float *dst, int64_t n, float value) {
  const bool streaming = n >= kStreamElements;
  runTeam(n >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t start = 0; start < n; start += kChunk) {
      const int64_t length = n - start < kChunk ? n - start : kChunk;
      if (streaming)
        streamRange(dst + start, length, [=](int64_t) { return value; }, [=](int64_t) { return broadcast(value); });
      else
        for (int64_t i = start; i < start + length; ++i) dst[i] = value;
    }
    if (streaming) finishStreaming();
  });
}

void zero(float *dst, int64_t n) { fill(dst, n, 0.0f); }

void copyRows(float *dst, int64_t ldd, const float *src, int64_t lds, int64_t rows, int64_t cols) {
  if (ldd == cols && lds == cols) return copy(dst, src, rows * cols);
  runTeam(rows * cols >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t r = 0; r < rows; ++r) std::memcpy(dst + r * ldd, src + r * lds, cols * sizeof(float));
  });
}

template <typename T>
void accumulate(T *dst, const T *src, int64_t n) {
  runTeam(n >= kParallelElements, [&] {
#pragma omp for simd schedule(static) nowait
    for (int64_t i = 0; i < n; ++i) dst[i] = dst[i] + src[i];
  });
}

template <typename T>
void roundElements(T *dst, const float *src, int64_t n) {
  runTeam(n >= kParallelElements, [&] {
#pragma omp for simd schedule(static) nowait
    for (int64_t i = 0; i < n; ++i) dst[i] = src[i];
  });
}

template <typename T>
void widenRows(float *dst, int64_t ldd, const T *src, int64_t lds, int64_t rows, int64_t cols) {
  runTeam(rows * cols >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) dst[r * ldd + c] = src[r * lds + c];
  });
}

template <typename T>
void roundRows(T *dst, int64_t ldd, const float *src, int64_t lds, int64_t rows, int64_t cols) {
  runTeam(rows * cols >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) dst[r * ldd + c] = src[r * lds + c];
  });
}

HYC_INSTANTIATE(accumulate)
HYC_INSTANTIATE(roundElements)
HYC_INSTANTIATE(widenRows)
HYC_INSTANTIATE(roundRows)

}  // namespace HYC_ISA

HYC_DISPATCH(void, copy, (float *dst, const float *src, int64_t n), (dst, src, n))
HYC_DISPATCH(void, fill, (float *dst, int64_t n, float value), (dst, n, value))
HYC_DISPATCH(void, zero, (float *dst, int64_t n), (dst, n))
HYC_DISPATCH(void, copyRows, (float *dst, int64_t ldd, const float *src, int64_t lds, int64_t rows, int64_t cols),
             (dst, ldd, src, lds, rows, cols))
HYC_DISPATCH_TEMPLATE(void, accumulate, (T * dst, const T *src, int64_t n), (dst, src, n))
HYC_DISPATCH_TEMPLATE(void, roundElements, (T * dst, const float *src, int64_t n), (dst, src, n))
HYC_DISPATCH_TEMPLATE(void, widenRows, (float *dst, int64_t ldd, const T *src, int64_t lds, int64_t rows, int64_t cols),
                      (dst, ldd, src, lds, rows, cols))
HYC_DISPATCH_TEMPLATE(void, roundRows,
                      (T * dst, int64_t ldd, const float *src, int64_t lds, int64_t rows, int64_t cols),
                      (dst, ldd, src, lds, rows, cols))

#if HYC_ISA_ID == 0
// Moving bytes needs no instruction set.
template <typename T>
static void moveRows(T *dst, int64_t ldd, const T *src, int64_t lds, int64_t rows, int64_t cols) {
  runTeam(rows * cols >= generic::kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t r = 0; r < rows; ++r) std::memcpy(dst + r * ldd, src + r * lds, cols * sizeof(T));
  });
}
template <typename T>
static void moveAll(T *dst, const T *src, int64_t n) {
  constexpr int64_t kRow = 32768;
  moveRows(dst, kRow, src, kRow, n / kRow, kRow);
  std::memcpy(dst + n / kRow * kRow, src + n / kRow * kRow, n % kRow * sizeof(T));
}
void copy(Bf16 *dst, const Bf16 *src, int64_t n) { moveAll(dst, src, n); }
void copy(F16 *dst, const F16 *src, int64_t n) { moveAll(dst, src, n); }
void copyRows(Bf16 *dst, int64_t ldd, const Bf16 *src, int64_t lds, int64_t rows, int64_t cols) {
  moveRows(dst, ldd, src, lds, rows, cols);
}
void copyRows(F16 *dst, int64_t ldd, const F16 *src, int64_t lds, int64_t rows, int64_t cols) {
  moveRows(dst, ldd, src, lds, rows, cols);
}
#endif

}  // namespace hyc::kernels
