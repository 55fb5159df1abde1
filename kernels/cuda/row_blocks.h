// Into how many blocks of rows normalizations on GPUs cut their input, to sum over rows: depends on the shape alone.
#ifndef HYC_KERNELS_CUDA_ROW_BLOCKS_H_
#define HYC_KERNELS_CUDA_ROW_BLOCKS_H_

#include <cstdint>

namespace hyc::kernels::cuda {

// Enough for several on each multiprocessor while rows are short. Each leaves a sum for every column, which is little
// beside the rows: some 4 MiB in all.
struct NormRowBlocks {
  static constexpr int64_t kMost = 1024, kLeast = 128, kSums = int64_t{1} << 20, kLeastRows = 8;

  constexpr NormRowBlocks(int64_t rows, int64_t cols) {
    const int64_t room = kSums / (cols < 1 ? 1 : cols), most = room > kMost ? kMost : room < kLeast ? kLeast : room;
    rowsPerBlock = rows <= most * kLeastRows ? kLeastRows : (rows + most - 1) / most;
    count = (rows + rowsPerBlock - 1) / rowsPerBlock;
  }

  int64_t rowsPerBlock = 0, count = 0;
};

// Of a gradient that makes `vectors` sums over rows: f32.
constexpr int64_t rowSumsBytes(int64_t rows, int64_t cols, int64_t vectors) {
  return NormRowBlocks(rows, cols).count * vectors * cols * int64_t{sizeof(float)};
}

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_CUDA_ROW_BLOCKS_H_
