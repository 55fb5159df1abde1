// Gather and scatter on CPUs. A scatter is split by what lies apart (batch, lead) and by columns, so that each thread
// walks the rows in their order.
#include <omp.h>

#include "kernels/gather/op.h"
#include "kernels/gather/reference.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {

namespace {
constexpr int64_t kParallelElements = 32768;
}

// Rows of one element: nothing is divided, or looped over, for each of them.
template <typename Word>
static void gatherElements(const GatherDesc &d, const Word *data, const int64_t *indices, Word *rows) {
  constexpr int64_t kChunk = 8192;  // elements of one job
  const int64_t outer = d.batch * d.lead, chunks = (d.picked + kChunk - 1) / kChunk;
  runTeam(outer * d.picked >= kParallelElements, [&] {
#pragma omp for schedule(static)
    for (int64_t job = 0; job < outer * chunks; ++job) {
      const int64_t o = job / chunks, first = job % chunks * kChunk;
      const int64_t end = first + kChunk < d.picked ? first + kChunk : d.picked;
      const int64_t *__restrict at = indices + o / d.lead * d.picked;
      const Word *__restrict from = data + o * d.size;
      Word *__restrict to = rows + o * d.picked;
      for (int64_t i = first; i < end; ++i) {
        const int64_t v = at[i];
        to[i] = v >= 0 && v < d.size ? from[v] : Word{0};
      }
    }
  });
}

template <typename Word>
static void gatherWords(const GatherDesc &d, const Word *data, const int64_t *indices, Word *rows) {
  if (d.inner == 1) return gatherElements(d, data, indices, rows);
  const int64_t count = d.batch * d.lead * d.picked;
  runTeam(count * d.inner >= kParallelElements, [&] {
#pragma omp for schedule(static)
    for (int64_t row = 0; row < count; ++row) {
      const int64_t outer = row / d.picked;
      const int64_t v = indices[outer / d.lead * d.picked + row % d.picked];
      Word *__restrict to = rows + row * d.inner;
      if (v < 0 || v >= d.size) {
        for (int64_t r = 0; r < d.inner; ++r) to[r] = 0;
        continue;
      }
      const Word *__restrict from = data + (outer * d.size + v) * d.inner;
      for (int64_t r = 0; r < d.inner; ++r) to[r] = from[r];
    }
  });
}

void gather(const GatherDesc &d, int64_t elementBytes, const void *data, const int64_t *indices, void *rows) {
  switch (elementBytes) {
    case 1:
      return gatherWords(d, static_cast<const uint8_t *>(data), indices, static_cast<uint8_t *>(rows));
    case 2:
      return gatherWords(d, static_cast<const uint16_t *>(data), indices, static_cast<uint16_t *>(rows));
    case 4:
      return gatherWords(d, static_cast<const uint32_t *>(data), indices, static_cast<uint32_t *>(rows));
    default:
      return gatherWords(d, static_cast<const uint64_t *>(data), indices, static_cast<uint64_t *>(rows));
  }
}

template <ScatterKind kKind, typename T>
static void combineRow(const T *__restrict from, int64_t count, T *__restrict to) {
  for (int64_t r = 0; r < count; ++r) to[r] = reference::scatterCombine(kKind, to[r], from[r]);
}

template <ScatterKind kKind, typename T>
static void scatterBy(const GatherDesc &d, const int64_t *indices, const T *rows, T *data) {
  const int64_t outer = d.batch * d.lead;
  runTeam(outer * (d.size + d.picked) * d.inner >= kParallelElements, [&] {
    // Enough pieces for all threads, of whole cache lines.
    const int64_t threads = omp_get_num_threads(), lines = (d.inner + 15) / 16;
    const int64_t pieces = outer >= threads || lines < 2 ? 1 : lines < threads ? lines : threads;
#pragma omp for schedule(static)
    for (int64_t job = 0; job < outer * pieces; ++job) {
      const int64_t o = job / pieces, piece = job % pieces;
      const int64_t begin = lines * piece / pieces * 16, last = lines * (piece + 1) / pieces * 16;
      const int64_t count = (last < d.inner ? last : d.inner) - begin;
      const int64_t *at = indices + o / d.lead * d.picked;
      T *to = data + o * d.size * d.inner + begin;
      const T *from = rows + o * d.picked * d.inner + begin;
      if (pieces == 1) {
        for (int64_t i = 0; i < d.size * d.inner; ++i) to[i] = reference::scatterIdentity<T>(kKind);
      } else {
        for (int64_t v = 0; v < d.size; ++v)
          for (int64_t r = 0; r < count; ++r) to[v * d.inner + r] = reference::scatterIdentity<T>(kKind);
      }
      if (d.inner == 1) {
        for (int64_t i = 0; i < d.picked; ++i)
          if (at[i] >= 0 && at[i] < d.size) to[at[i]] = reference::scatterCombine(kKind, to[at[i]], from[i]);
      } else {
        for (int64_t i = 0; i < d.picked; ++i)
          if (at[i] >= 0 && at[i] < d.size) combineRow<kKind>(from + i * d.inner, count, to + at[i] * d.inner);
      }
    }
  });
}

template <typename T>
void scatter(const GatherDesc &d, ScatterKind kind, const int64_t *indices, const T *rows, T *data) {
  switch (kind) {
    case ScatterKind::kSum:
      return scatterBy<ScatterKind::kSum>(d, indices, rows, data);
    case ScatterKind::kMax:
      return scatterBy<ScatterKind::kMax>(d, indices, rows, data);
    case ScatterKind::kMin:
      return scatterBy<ScatterKind::kMin>(d, indices, rows, data);
    case ScatterKind::kProd:
      return scatterBy<ScatterKind::kProd>(d, indices, rows, data);
  }
}
template void scatter(const GatherDesc &, ScatterKind, const int64_t *, const float *, float *);
template void scatter(const GatherDesc &, ScatterKind, const int64_t *, const double *, double *);
template void scatter(const GatherDesc &, ScatterKind, const int64_t *, const int64_t *, int64_t *);
template void scatter(const GatherDesc &, ScatterKind, const int64_t *, const int32_t *, int32_t *);

}  // namespace hyc::kernels
