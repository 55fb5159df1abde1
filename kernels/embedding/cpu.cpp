// Embedding on CPUs. The gradient is split by columns, so that each thread walks all tokens in their order.
#include <omp.h>

#include "kernels/embedding/op.h"
#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {
namespace HYC_ISA {

template <typename T>
static void copyRow(const T *__restrict src, int64_t n, T *__restrict dst) {
  for (int64_t c = 0; c < n; ++c) dst[c] = src[c];
}
template <typename T>
static void clearRow(int64_t n, T *dst) {
  for (int64_t c = 0; c < n; ++c) dst[c] = 0.0f;
}
template <typename T>
static void addRow(const T *__restrict src, int64_t n, float *__restrict dst) {
  for (int64_t c = 0; c < n; ++c) dst[c] += src[c];
}

// The table's row of an id, or −1 if it is not held here. Written so that no id overflows.
static int64_t localRow(const EmbeddingDesc &d, int64_t id) {
  return id >= d.start && id - d.start < d.rows ? id - d.start : -1;
}

template <typename T>
void embedding(const EmbeddingDesc &d, const int64_t *ids, const T *table, T *out) {
  runTeam(d.tokens * d.width >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t t = 0; t < d.tokens; ++t) {
      const int64_t row = localRow(d, ids[t]);
      if (row >= 0)
        copyRow(table + row * d.width, d.width, out + t * d.width);
      else
        clearRow(d.width, out + t * d.width);
    }
  });
}

template <typename T>
void embeddingGrad(const EmbeddingDesc &d, const int64_t *ids, const T *dout, float *dtable, WriteMode mode) {
  const int64_t cleared = mode == WriteMode::kOverwrite ? d.rows : 0;
  runTeam((d.tokens + cleared) * d.width >= kParallelElements, [&] {
#pragma omp for schedule(static)
    for (int64_t row = 0; row < cleared; ++row) clearRow(d.width, dtable + row * d.width);
    // Whole cache lines for each thread; which thread adds a column does not change its sum.
    const int64_t lines = (d.width + 15) / 16, threads = omp_get_num_threads(), thread = omp_get_thread_num();
    const int64_t begin = lines * thread / threads * 16, lineEnd = lines * (thread + 1) / threads * 16;
    const int64_t end = lineEnd < d.width ? lineEnd : d.width;
    for (int64_t t = 0; t < d.tokens && begin < end; ++t) {
      const int64_t row = localRow(d, ids[t]);
      if (row >= 0) addRow(dout + t * d.width + begin, end - begin, dtable + row * d.width + begin);
    }
  });
}

HYC_INSTANTIATE(embedding)
HYC_INSTANTIATE(embeddingGrad)

}  // namespace HYC_ISA

HYC_DISPATCH_TEMPLATE(void, embedding, (const EmbeddingDesc &d, const int64_t *ids, const T *table, T *out),
                      (d, ids, table, out))
HYC_DISPATCH_TEMPLATE(void, embeddingGrad,
                      (const EmbeddingDesc &d, const int64_t *ids, const T *dout, float *dtable, WriteMode mode),
                      (d, ids, dout, dtable, mode))

}  // namespace hyc::kernels
