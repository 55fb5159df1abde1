// The order of the elements of rows, or the beginning of it.
#ifndef HYC_KERNELS_ARGSORT_OP_H_
#define HYC_KERNELS_ARGSORT_OP_H_

#include <cstdint>

namespace hyc::kernels {

// x: [rows, size]; order: [rows, count], count ≤ size.
struct ArgSortDesc {
  int64_t rows = 0, size = 0, count = 0;
  bool descending = false;
};

// Whether x comes before y in ascending order; NaN is above all numbers.
template <typename T>
constexpr bool sortsBefore(T x, T y) {
  return x < y || (x == x && y != y);
}

// What a thread keeps of an element: its key and its number, in 8 bytes where both have 4.
constexpr int64_t argSortRecordBytes(int64_t size, int64_t elementBytes) {
  return elementBytes <= 4 && size <= INT64_C(0xffffffff) ? 8 : 16;
}
// Each thread has the records of a row, twice.
constexpr int64_t argSortWorkspaceBytes(int64_t size, int64_t elementBytes, int64_t threads) {
  return threads * 2 * size * argSortRecordBytes(size, elementBytes);
}

// order[row, i] is the number of the element that comes i-th; equal ones keep their order. The surprise: -0 equals 0.
// `workspace` holds argSortWorkspaceBytes of omp_get_max_threads(), or is null: threads then have scratch memory of
// their own.
void argSort(const ArgSortDesc &desc, const float *x, int64_t *order, void *workspace = nullptr);
void argSort(const ArgSortDesc &desc, const double *x, int64_t *order, void *workspace = nullptr);
void argSort(const ArgSortDesc &desc, const int64_t *x, int64_t *order, void *workspace = nullptr);
void argSort(const ArgSortDesc &desc, const int32_t *x, int64_t *order, void *workspace = nullptr);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_ARGSORT_OP_H_
