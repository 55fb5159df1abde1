// Rotary positions (Su et al. 2021), with the pairs as GPT-NeoX has them, and the tables of cosines and sines.
//
//   of a head's first 2R elements, i and R + i are one pair (x, y):  (x cos − y sin, y cos + x sin)
//   inverse, which is the gradient:                                  (x cos + y sin, y cos − x sin)
//
// Elements from 2R on are copied. No element depends on another position, head or sample than its own.
#ifndef HYC_KERNELS_ROPE_OP_H_
#define HYC_KERNELS_ROPE_OP_H_

#include <cstdint>

#include "kernels/narrow_float.h"

namespace hyc::kernels {

// x, y: [batch, length, heads, headDim], of T: float, Bf16 or F16; cos, sin: [length, pairs], or [batch, length, pairs]
// with tablePerSample.
struct RopeDesc {
  int64_t batch = 0, length = 0, heads = 0, headDim = 0, pairs = 0;
  bool tablePerSample = false, inverse = false;
};

// y may be x.
template <typename T>
void rope(const RopeDesc &desc, const T *x, const float *cos, const float *sin, T *y);

// cos[p, i] = factor · cos(p · frequencies[i]), and so sin. The angle is rounded to f32 first, as models compute it.
// frequencies: [pairs]; cos, sin: [positions, pairs].
struct RotaryTableDesc {
  int64_t positions = 0, pairs = 0;
  double factor = 1;
};

void rotaryTable(const RotaryTableDesc &desc, const float *frequencies, float *cos, float *sin);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_ROPE_OP_H_
