// Copies between tensors of any number of dimensions with any strides: transpose, slice, broadcast, concatenation.
#ifndef HYC_LIB_INTERPRETER_VALUES_STRIDEDCOPY_H
#define HYC_LIB_INTERPRETER_VALUES_STRIDEDCOPY_H

#include "llvm/ADT/ArrayRef.h"
#include <cstdint>

namespace hyc::interpreter {

/// dst[Σ index·dstStrides] = src[Σ index·srcStrides] for every index below `shape`. A source stride of 0 repeats.
template <typename T>
void copyStrided(llvm::ArrayRef<int64_t> shape, const T *src, llvm::ArrayRef<int64_t> srcStrides, T *dst,
                 llvm::ArrayRef<int64_t> dstStrides) {
  if (shape.empty()) {
    *dst = *src;
    return;
  }
  const int64_t count = shape[0], srcStride = srcStrides[0], dstStride = dstStrides[0];
  if (shape.size() == 1) {
    for (int64_t i = 0; i < count; ++i)
      dst[i * dstStride] = src[i * srcStride];
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    copyStrided(shape.drop_front(), src + i * srcStride, srcStrides.drop_front(), dst + i * dstStride,
                dstStrides.drop_front());
}

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_VALUES_STRIDEDCOPY_H
