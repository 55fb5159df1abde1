// The order of rows on GPUs by counting what comes before each element: a thread an element, the row in tiles of shared
// memory.
#include "kernels/argsort/cuda.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/launch.h"

namespace hyc::kernels::cuda {
namespace {

constexpr int kThreads = 256;

template <typename T>
__global__ void argSortKernel(ArgSortDesc d, const T *x, int64_t *order) {
  __shared__ T tile[kThreads];
  const int64_t row = blockIdx.y, i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const T *values = x + row * d.size;
  const T mine = i < d.size ? values[i] : T(0);
  int64_t place = 0;
  for (int64_t begin = 0; begin < d.size; begin += kThreads) {
    __syncthreads();  // the tile before has been read
    if (begin + threadIdx.x < d.size) tile[threadIdx.x] = values[begin + threadIdx.x];
    __syncthreads();
    for (int64_t k = 0; k < kThreads && begin + k < d.size; ++k) {
      const T other = tile[k];
      const bool isBefore = d.descending ? sortsBefore(mine, other) : sortsBefore(other, mine);
      const bool isAfter = d.descending ? sortsBefore(other, mine) : sortsBefore(mine, other);
      place += isBefore || (!isAfter && begin + k < i);
    }
  }
  if (i < d.size && place < d.count) order[row * d.count + place] = i;
}

}  // namespace

template <typename T>
void argSort(Stream stream, const ArgSortDesc &d, const T *x, int64_t *order) {
  constexpr int64_t kMostRows = 65535;  // of a grid
  const int64_t blocks = (d.size + kThreads - 1) / kThreads;
  for (int64_t first = 0; first < d.rows; first += kMostRows) {
    const int64_t rows = d.rows - first < kMostRows ? d.rows - first : kMostRows;
    const Grid grid{dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(rows)), dim3(kThreads)};
    kernel(argSortKernel<T>).launch(stream, grid, d, x + first * d.size, order + first * d.count);
  }
}
template void argSort<float>(Stream, const ArgSortDesc &, const float *, int64_t *);
template void argSort<double>(Stream, const ArgSortDesc &, const double *, int64_t *);
template void argSort<int64_t>(Stream, const ArgSortDesc &, const int64_t *, int64_t *);
template void argSort<int32_t>(Stream, const ArgSortDesc &, const int32_t *, int64_t *);

}  // namespace hyc::kernels::cuda
