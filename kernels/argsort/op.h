// The order of the elements of rows.
#ifndef HYC_KERNELS_ARGSORT_OP_H_
#define HYC_KERNELS_ARGSORT_OP_H_

#include <cstdint>

namespace hyc::kernels {

// x, order and workspace: [rows, size].
struct ArgSortDesc {
  int64_t rows = 0, size = 0;
  bool descending = false;
};

// Whether x comes before y in ascending order; NaN is above all numbers.
template <typename T>
constexpr bool sortsBefore(T x, T y) {
  return x < y || (x == x && y != y);
}

// order[row, i] is the number of the element that comes i-th; equal ones keep their order. `workspace` is as large as
// `order`. T: float, double, int64_t or int32_t.
template <typename T>
void argSort(const ArgSortDesc &desc, const T *x, int64_t *order, int64_t *workspace);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_ARGSORT_OP_H_
