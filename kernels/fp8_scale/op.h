// Delayed scaling of tensors that are quantised to 8-bit floats: the next step's scale follows from the greatest
// magnitudes ("amax") of the last steps, this one included.
//
//   a = max(history, with this step's amax in the place of its oldest entry)
//   scale = 2^⌊log2(largest / a)⌋, within 2^±63; where a is 0, or this step's amax not finite, the scale stays
//
// The recipe is that of NVIDIA's Transformer Engine (amax_compute_algo "max", margin 0), with powers of two only: what
// is multiplied by one and divided again is what it was. The bounds keep two reciprocals' product a normal f32. An amax
// that is not finite enters the history as 0, so that one overflow does not freeze the scale for as long as the history
// is. The surprise: the quotient is not computed, whose rounding could pass a power of two; exponents are compared.
#ifndef HYC_KERNELS_FP8_SCALE_OP_H_
#define HYC_KERNELS_FP8_SCALE_OP_H_

#include <cstdint>

#include "kernels/host_device.h"

namespace hyc::kernels {

constexpr int kFp8ScaleExponent = 63;  // the greatest of a scale, and the negated least

namespace fp8_detail {

// x = fraction · 2^exponent, 1 ≤ fraction < 2, of a positive finite f32; the fraction's bits are those behind the one.
struct Parts {
  int exponent;
  uint32_t fraction;
};
HYC_HOST_DEVICE inline Parts partsOf(float x) {
  uint32_t bits = __builtin_bit_cast(uint32_t, x);
  int exponent = static_cast<int>(bits >> 23) - 127;
  uint32_t fraction = bits & 0x7fffffu;
  if (exponent == -127)  // subnormal: moved up until a one stands in front
    for (exponent = -126; fraction < 0x800000u; --exponent) fraction <<= 1;
  return {exponent, fraction & 0x7fffffu};
}

}  // namespace fp8_detail

// 2^⌊log2(largest / amax)⌋ of positive finite numbers, within the bounds.
HYC_HOST_DEVICE inline float fp8ScaleFor(float largest, float amax) {
  const fp8_detail::Parts top = fp8_detail::partsOf(largest), bottom = fp8_detail::partsOf(amax);
  int exponent = top.exponent - bottom.exponent - (top.fraction < bottom.fraction ? 1 : 0);
  if (exponent > kFp8ScaleExponent) exponent = kFp8ScaleExponent;
  if (exponent < -kFp8ScaleExponent) exponent = -kFp8ScaleExponent;
  return __builtin_bit_cast(float, static_cast<uint32_t>(exponent + 127) << 23);
}

// One step of a tensor's states: `history` has `steps` entries, the newest first; inverse = 1 / scale.
HYC_HOST_DEVICE inline void updateFp8Scale(float largest, int64_t steps, float amax, float *scale, float *inverse,
                                           float *history) {
  const bool isFinite = amax - amax == 0;
  float greatest = isFinite ? amax : 0;
  for (int64_t i = steps - 1; i > 0; --i) {
    history[i] = history[i - 1];
    if (history[i] > greatest) greatest = history[i];
  }
  history[0] = isFinite ? amax : 0;
  if (!isFinite || !(greatest > 0)) return;
  *scale = fp8ScaleFor(largest, greatest);
  *inverse = 1.0f / *scale;
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_FP8_SCALE_OP_H_
