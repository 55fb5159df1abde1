// Weights of their codes (codes.h), of the part of a matrix that one rank holds.
//
// The surprise: a rank's codes are its part alone, while the numbers that they are multiplied with are those of the
// whole matrix, and are found by an element's place in it. So a block may lie on two ranks, and no split of the matrix
// changes a bit.
#ifndef HYC_KERNELS_DEQUANTIZE_OP_H_
#define HYC_KERNELS_DEQUANTIZE_OP_H_

#include <cstdint>

#include "kernels/narrow_float.h"

namespace hyc::kernels {

// What is made is dense, row-major, of sizes[0] × … × sizes[5]. Its element (i0, …, i5) is number
// start + Σ ik · strides[k] of the whole matrix of outputs × inputs, counted row-major.
struct DequantizeDesc {
  int64_t sizes[6] = {1, 1, 1, 1, 1, 1};
  int64_t strides[6] = {0, 0, 0, 0, 0, 1};
  int64_t start = 0;
  int64_t inputs = 1;
};

// Each rounds its results once, to T: float, Bf16 or F16.

// codes: a byte an element, in two's complement. absmax: [outputs].
template <typename T>
void dequantizeInt8(const DequantizeDesc &desc, const uint8_t *codes, const float *absmax, T *out);

// codes: two elements a byte, the even one in its upper half; sizes[5] is even. absmax: [blocks of 64 elements of the
// matrix], as codes of the dynamic map; scales: [blocks / 256, rounded up]; mean: one number.
template <typename T>
void dequantizeNf4(const DequantizeDesc &desc, const uint8_t *codes, const uint8_t *absmax, const float *scales,
                   const float *mean, T *out);

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_DEQUANTIZE_OP_H_
