// Products of rows with their experts' matrices on CPUs: the rows of an expert are brought together, and multiplied by
// the matrix product that everything else uses.
#include "kernels/expert_matmul/op.h"
#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {
namespace HYC_ISA {

// The parts of the scratch memory.
template <typename T>
struct ExpertScratch {
  int64_t *ends;  // [experts]: rows of expert e are sorted[ends[e - 1]] … sorted[ends[e] - 1]
  int64_t *sorted;
  T *inputs, *outputs;
  void *product;

  ExpertScratch(const ExpertMatmulDesc &d, bool isGradient, void *workspace) {
    const ExpertWorkspace<T> sizes(d, omp_get_max_threads(), isGradient);
    char *at = static_cast<char *>(workspace);
    ends = reinterpret_cast<int64_t *>(at);
    sorted = ends + d.experts;
    inputs = reinterpret_cast<T *>(at += sizes.sorted);
    outputs = reinterpret_cast<T *>(at += sizes.inputs);
    product = at + sizes.outputs;
  }
};

// Whether the row's expert is held here. Written so that no number overflows.
static bool isHeld(const ExpertMatmulDesc &d, int64_t id) { return id >= d.start && id - d.start < d.experts; }

template <typename T>
static void sortRows(const ExpertMatmulDesc &d, const int64_t *ids, const ExpertScratch<T> &scratch) {
  for (int64_t e = 0; e < d.experts; ++e) scratch.ends[e] = 0;
  for (int64_t n = 0; n < d.rows; ++n)
    if (isHeld(d, ids[n])) ++scratch.ends[ids[n] - d.start];
  int64_t begin = 0;
  for (int64_t e = 0; e < d.experts; ++e) {
    const int64_t count = scratch.ends[e];
    scratch.ends[e] = begin;
    begin += count;
  }
  for (int64_t n = 0; n < d.rows; ++n)
    if (isHeld(d, ids[n])) scratch.sorted[scratch.ends[ids[n] - d.start]++] = n;
}

// Rows of `from` at sorted[0 … count), one after the other; or, back, these rows to where they belong.
template <typename T>
static void gatherRows(const int64_t *sorted, int64_t count, int64_t width, const T *from, T *to) {
  runTeam(count * width >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t i = 0; i < count; ++i) {
      const T *__restrict source = from + sorted[i] * width;
      T *__restrict target = to + i * width;
      for (int64_t c = 0; c < width; ++c) target[c] = source[c];
    }
  });
}
template <typename T>
static void scatterRows(const int64_t *sorted, int64_t count, int64_t width, const T *from, T *to) {
  runTeam(count * width >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t i = 0; i < count; ++i) {
      const T *__restrict source = from + i * width;
      T *__restrict target = to + sorted[i] * width;
      for (int64_t c = 0; c < width; ++c) target[c] = source[c];
    }
  });
}

// piece(expert, sorted rows, how many, whether it is the expert's first), at most kExpertRows at a time.
template <typename T, typename Piece>
static void forEachPiece(const ExpertMatmulDesc &d, const ExpertScratch<T> &scratch, const Piece &piece) {
  int64_t begin = 0;
  for (int64_t e = 0; e < d.experts; ++e) {
    for (int64_t at = begin; at < scratch.ends[e]; at += kExpertRows) {
      const int64_t left = scratch.ends[e] - at;
      piece(e, scratch.sorted + at, left < kExpertRows ? left : kExpertRows, at == begin);
    }
    begin = scratch.ends[e];
  }
}

template <typename T>
void expertMatmul(const ExpertMatmulDesc &d, const int64_t *ids, const T *x, const T *w, T *y, void *workspace) {
  const ExpertScratch<T> scratch(d, false, workspace);
  sortRows(d, ids, scratch);
  for (int64_t n = 0; n < d.rows; ++n)
    if (!isHeld(d, ids[n]))
      for (int64_t c = 0; c < d.outputs; ++c) y[n * d.outputs + c] = 0.0f;
  forEachPiece(d, scratch, [&](int64_t e, const int64_t *rows, int64_t count, bool) {
    gatherRows(rows, count, d.inputs, x, scratch.inputs);
    gemm(ExpertWorkspace<T>::forward(d, count), scratch.inputs, w + e * d.inputs * d.outputs,
         static_cast<const T *>(nullptr), scratch.outputs, scratch.product);
    scatterRows(rows, count, d.outputs, scratch.outputs, y);
  });
}

template <typename T>
void expertMatmulGrad(const ExpertMatmulDesc &d, const int64_t *ids, const T *x, const T *dy, float *dw, WriteMode mode,
                      void *workspace) {
  const ExpertScratch<T> scratch(d, true, workspace);
  sortRows(d, ids, scratch);
  const int64_t matrix = d.inputs * d.outputs;
  for (int64_t e = 0; e < d.experts && mode == WriteMode::kOverwrite; ++e)
    if (scratch.ends[e] == (e ? scratch.ends[e - 1] : 0))
      for (int64_t i = 0; i < matrix; ++i) dw[e * matrix + i] = 0.0f;
  forEachPiece(d, scratch, [&](int64_t e, const int64_t *rows, int64_t count, bool isFirst) {
    gatherRows(rows, count, d.inputs, x, scratch.inputs);
    gatherRows(rows, count, d.outputs, dy, scratch.outputs);
    GemmDesc product = ExpertWorkspace<T>::gradient(d, count);
    if (isFirst && mode == WriteMode::kOverwrite) product.beta = 0;
    const T *a = d.transposed ? scratch.outputs : scratch.inputs, *b = d.transposed ? scratch.inputs : scratch.outputs;
    gemm(product, a, b, static_cast<const T *>(nullptr), dw + e * matrix, scratch.product);
  });
}

HYC_INSTANTIATE(expertMatmul)
HYC_INSTANTIATE(expertMatmulGrad)

}  // namespace HYC_ISA

HYC_DISPATCH_TEMPLATE(void, expertMatmul,
                      (const ExpertMatmulDesc &d, const int64_t *ids, const T *x, const T *w, T *y, void *workspace),
                      (d, ids, x, w, y, workspace))
HYC_DISPATCH_TEMPLATE(void, expertMatmulGrad,
                      (const ExpertMatmulDesc &d, const int64_t *ids, const T *x, const T *dy, float *dw,
                       WriteMode mode, void *workspace),
                      (d, ids, x, dy, dw, mode, workspace))

}  // namespace hyc::kernels
