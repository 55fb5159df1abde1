// Copies and fills in plain loops, for any element type.
#ifndef HYC_KERNELS_COPY_REFERENCE_H_
#define HYC_KERNELS_COPY_REFERENCE_H_

#include <cstdint>

#include "kernels/copy/op.h"
#include "kernels/description.h"

namespace hyc::kernels::reference {

template <typename T>
void fill(T *dst, int64_t n, T value) {
  for (int64_t i = 0; i < n; ++i) dst[i] = value;
}

template <typename T>
void copyRows(T *dst, int64_t ldd, const T *src, int64_t lds, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) dst[r * ldd + c] = src[r * lds + c];
}

template <typename T>
void copy(T *dst, const T *src, int64_t n) {
  copyRows(dst, n, src, n, 1, n);
}

template <typename T>
void accumulate(T *dst, const T *src, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dst[i] += src[i];
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::copy {

// None: programs' statements, which the interpreter executes itself.
inline constexpr View<ReferenceRow> kReferences;

}  // namespace hyc::kernels::executed::copy

#endif  // HYC_KERNELS_COPY_REFERENCE_H_
