// Copies between tensors of up to six dimensions with any strides: transpose, slice, broadcast, concatenation.
//
// The surprise: elements are moved as bytes of 2, 4 or 8, so that f32 and i64 tensors share the code, and NaNs keep
// their payload.
#ifndef HYC_KERNELS_PERMUTE_OP_H_
#define HYC_KERNELS_PERMUTE_OP_H_

#include <cstdint>

namespace hyc::kernels {

constexpr int kPermuteMaxRank = 6;

// Strides are in elements. A source stride of 0 broadcasts. Destination elements must not overlap.
struct StridedCopyDesc {
  int tensorRank = 0;  // 0 copies one element
  int64_t shape[kPermuteMaxRank] = {};
  int64_t srcStrides[kPermuteMaxRank] = {};
  int64_t dstStrides[kPermuteMaxRank] = {};
  int elementBytes = 4;  // 2, 4 or 8
};

// src and dst do not overlap.
void stridedCopy(const StridedCopyDesc &desc, const void *src, void *dst);

// Dimension i of the dense result is dimension perm[i] of the dense source, whose shape is srcShape.
inline StridedCopyDesc permuteDesc(int tensorRank, const int64_t *srcShape, const int *perm, int elementBytes = 4) {
  StridedCopyDesc desc;
  desc.tensorRank = tensorRank;
  desc.elementBytes = elementBytes;
  int64_t srcStrides[kPermuteMaxRank] = {};
  for (int64_t stride = 1, i = tensorRank - 1; i >= 0; stride *= srcShape[i--]) srcStrides[i] = stride;
  for (int64_t stride = 1, i = tensorRank - 1; i >= 0; stride *= desc.shape[i--]) {
    desc.shape[i] = srcShape[perm[i]];
    desc.srcStrides[i] = srcStrides[perm[i]];
    desc.dstStrides[i] = stride;
  }
  return desc;
}

inline void permute(int tensorRank, const int64_t *srcShape, const int *perm, const float *src, float *dst) {
  stridedCopy(permuteDesc(tensorRank, srcShape, perm), src, dst);
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_PERMUTE_OP_H_
