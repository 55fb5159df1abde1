// Products of rows with the matrix of the expert that each row goes to, and the gradient of these matrices.
//
// The surprise: rows come in any order. A kernel sorts their numbers by expert, copies up to kExpertRows rows of one
// expert at a time into scratch memory, and multiplies these: so a result row has the bits that the product of its row
// alone would have, wherever it stands and whatever the others are.
#ifndef HYC_KERNELS_EXPERT_MATMUL_OP_H_
#define HYC_KERNELS_EXPERT_MATMUL_OP_H_

#include <cstdint>

#include "kernels/gemm/op.h"
#include "kernels/gemm/workspace.h"
#include "kernels/narrow_float.h"
#include "kernels/write_mode.h"

namespace hyc::kernels {

// x: [rows, inputs]; y: [rows, outputs]; w: [experts, inputs, outputs], or [experts, outputs, inputs] when transposed,
// its matrix e being that of expert start + e; ids: [rows].
struct ExpertMatmulDesc {
  int64_t rows = 0, experts = 0, inputs = 0, outputs = 0;
  bool transposed = false;
  int64_t start = 0;
};

// Rows that are multiplied at a time. The sum over more rows of one expert is made in pieces of so many.
constexpr int64_t kExpertRows = 256;

// Where rows of each expert stand among the sorted ones, and their numbers; then rows of x, of y, and the product's
// own. Every part begins at a whole line of the cache.
template <typename T>
struct ExpertWorkspace {
  int64_t sorted = 0, inputs = 0, outputs = 0, product = 0, bytes = 0;

  static constexpr int64_t lines(int64_t bytes) { return (bytes + 63) / 64 * 64; }
  static constexpr int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

  static constexpr int64_t productBytes(const GemmDesc &d, bool intoF32, int threads) {
    if (sizeof(T) == 4) return static_cast<int64_t>(gemmWorkspaceBytes(d, threads));
    return static_cast<int64_t>(intoF32 ? gemmNarrowWorkspaceBytes<T, float>(d, threads)
                                        : gemmNarrowWorkspaceBytes<T, T>(d, threads));
  }
  static constexpr GemmDesc forward(const ExpertMatmulDesc &d, int64_t rows) {
    GemmDesc product;
    product.m = rows, product.n = d.outputs, product.k = d.inputs, product.transB = d.transposed;
    return product;
  }
  static constexpr GemmDesc gradient(const ExpertMatmulDesc &d, int64_t rows) {
    GemmDesc product;
    product.m = d.transposed ? d.outputs : d.inputs, product.n = d.transposed ? d.inputs : d.outputs, product.k = rows;
    product.transA = true, product.beta = 1;
    return product;
  }

  // For every number of rows that one expert may have, of which each gives another product.
  constexpr ExpertWorkspace(const ExpertMatmulDesc &d, int threads, bool isGradient) {
    const int64_t rows = d.rows < kExpertRows ? d.rows : kExpertRows;
    sorted = lines((d.experts + 1 + d.rows) * int64_t{sizeof(int64_t)});
    inputs = lines(rows * d.inputs * int64_t{sizeof(T)});
    outputs = lines(rows * d.outputs * int64_t{sizeof(T)});
    for (int64_t count = 1; count <= rows; ++count)
      product = most(product, productBytes(isGradient ? gradient(d, count) : forward(d, count), isGradient, threads));
    bytes = sorted + inputs + outputs + lines(product);
  }
};

// y[n, :] = x[n, :] · w[ids[n] - start], or 0 where ids[n] is outside [start, start + experts). T: float, Bf16 or F16.
// `workspace`: ExpertWorkspace<T>(desc, omp_get_max_threads(), false).bytes.
template <typename T>
void expertMatmul(const ExpertMatmulDesc &desc, const int64_t *ids, const T *x, const T *w, T *y, void *workspace);

// dw[e] = (or +=) Σ x[n, :]ᵀ · dy[n, :] over the rows n with ids[n] = start + e, in ascending order in pieces of
// kExpertRows; dw is f32. `workspace`: the same with `true`.
template <typename T>
void expertMatmulGrad(const ExpertMatmulDesc &desc, const int64_t *ids, const T *x, const T *dy, float *dw,
                      WriteMode mode, void *workspace);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_EXPERT_MATMUL_OP_H_
