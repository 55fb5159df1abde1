// Pooling by maximum over up to three spatial dimensions, with the place of each maximum.
#ifndef HYC_KERNELS_POOLING_OP_H_
#define HYC_KERNELS_POOLING_OP_H_

#include <cstdint>

#include "kernels/narrow_float.h"

namespace hyc::kernels {

// x: [planes, size…]; y and indices: [planes, positions…]. Fewer than three dimensions: the first ones have size 1.
struct PoolingDesc {
  int64_t planes = 0;
  int64_t size[3] = {1, 1, 1}, window[3] = {1, 1, 1}, positions[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, low[3] = {0, 0, 0};

  constexpr int64_t sizes() const { return size[0] * size[1] * size[2]; }
  constexpr int64_t places() const { return positions[0] * positions[1] * positions[2]; }
};

// y[plane, p] is the maximum over the window at p, the first of equal ones, NaN above all; indices tells where it is in
// the plane. A window of padding alone: -infinity and -1. T: float, Bf16 or F16.
template <typename T>
void maxPool(const PoolingDesc &desc, const T *x, T *y, int64_t *indices);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_POOLING_OP_H_
