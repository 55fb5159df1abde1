// What normalizations on GPUs share: a block a row, and sums over rows by blocks of rows whose number depends on the
// shape alone.
#ifndef HYC_KERNELS_CUDA_ROWS_H_
#define HYC_KERNELS_CUDA_ROWS_H_

#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"

namespace hyc::kernels::cuda {

// Threads of a block that sums over rows: columns by rows.
constexpr int kColumnTile = 32, kRowTile = 8;

// Calls use(c) for the first of each n columns that lie side by side and are this thread's.
template <int n, typename Use>
__device__ void forColumns(int64_t cols, Use use) {
  for (int64_t c = int64_t{threadIdx.x} * n; c < cols; c += int64_t{blockDim.x} * n) use(c);
}

inline Grid gridOfRows(int64_t rows, int64_t cols) {
  return {dim3(static_cast<unsigned>(rows)), dim3(cols <= 1024 ? 128u : 256u)};
}
// For kernels that sum over rows: tiles of columns by blocks of rows, kRowTile threads a column.
inline Grid gridOfColumnSums(int64_t cols, int64_t blocks) {
  return {dim3(static_cast<unsigned>((cols + kColumnTile - 1) / kColumnTile), static_cast<unsigned>(blocks)),
          dim3(kColumnTile, kRowTile)};
}

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_CUDA_ROWS_H_
