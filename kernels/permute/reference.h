// Strided copy in plain loops, for any element type; desc.elementBytes is not looked at.
#ifndef HYC_KERNELS_PERMUTE_REFERENCE_H_
#define HYC_KERNELS_PERMUTE_REFERENCE_H_

#include "kernels/permute/op.h"

namespace hyc::kernels::reference {

template <typename T>
void stridedCopy(const StridedCopyDesc &d, const T *src, T *dst) {
  int64_t elements = 1;
  for (int i = 0; i < d.tensorRank; ++i) elements *= d.shape[i];
  for (int64_t flat = 0; flat < elements; ++flat) {
    int64_t rest = flat, from = 0, to = 0;
    for (int i = d.tensorRank - 1; i >= 0; --i) {
      from += rest % d.shape[i] * d.srcStrides[i];
      to += rest % d.shape[i] * d.dstStrides[i];
      rest /= d.shape[i];
    }
    dst[to] = src[from];
  }
}

template <typename T>
void permute(int tensorRank, const int64_t *srcShape, const int *perm, const T *src, T *dst) {
  stridedCopy(permuteDesc(tensorRank, srcShape, perm), src, dst);
}

}  // namespace hyc::kernels::reference

#endif  // HYC_KERNELS_PERMUTE_REFERENCE_H_
