// Products of rows with their experts' matrices on GPUs: the contract of op.h. Sums are made element by element, in
// f32. `start`, where it is not null, takes the place of ExpertMatmulDesc::start: where a shard begins is a number in
// device memory.
#ifndef HYC_KERNELS_EXPERT_MATMUL_CUDA_H_
#define HYC_KERNELS_EXPERT_MATMUL_CUDA_H_

#include <cstddef>

#include "kernels/cuda/stream.h"
#include "kernels/expert_matmul/op.h"

namespace hyc::kernels::cuda {

// Rows and columns of a result that a block computes.
constexpr int kExpertTile = 64;

// How many rows each expert has, where they end, where its tiles of rows end, and the sorted numbers of rows; less than
// 2^31 of each.
constexpr size_t expertWorkspaceBytes(const ExpertMatmulDesc &d) {
  return static_cast<size_t>(3 * d.experts + d.rows) * 4;
}

// workspace: expertWorkspaceBytes.
template <typename T>
void expertMatmul(Stream stream, const ExpertMatmulDesc &desc, const int64_t *start, const int64_t *ids, const T *x,
                  const T *w, T *y, void *workspace);
template <typename T>
void expertMatmulGrad(Stream stream, const ExpertMatmulDesc &desc, const int64_t *start, const int64_t *ids, const T *x,
                      const T *dy, float *dw, WriteMode mode, void *workspace);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_EXPERT_MATMUL_CUDA_H_
