// Dequantisation on CPUs, row by row of the part: a row's elements lie side by side in the matrix, or, where the weight
// is stored [inputs, outputs], one below the other.
#include <omp.h>

#include "kernels/dequantize/codes.h"
#include "kernels/dequantize/op.h"
#include "kernels/isa/dispatch.h"
#include "kernels/isa/lanes.h"
#include "kernels/parallel/team.h"

namespace hyc::kernels {
namespace HYC_ISA {

// Calls row(first element of the part, its place in the matrix) for each row, shared out over threads.
template <typename Row>
static void forEachRow(const DequantizeDesc &d, Row &&row) {
  int64_t rows = 1;
  for (int k = 0; k < 5; ++k) rows *= d.sizes[k];
  runTeam(rows * d.sizes[5] >= kParallelElements, [&] {
#pragma omp for schedule(static) nowait
    for (int64_t r = 0; r < rows; ++r) {
      int64_t place = d.start, rest = r;
      for (int k = 4; k >= 0; --k) {
        place += rest % d.sizes[k] * d.strides[k];
        rest /= d.sizes[k];
      }
      row(r * d.sizes[5], place);
    }
  });
}

// Cuts `count` elements from `place` on where blocks begin: piece(first, last, block).
template <typename Piece>
static void forEachBlock(int64_t count, int64_t place, int64_t block, Piece &&piece) {
  for (int64_t i = 0; i < count;) {
    const int64_t at = (place + i) / block, left = (at + 1) * block - (place + i);
    const int64_t end = left < count - i ? i + left : count;
    piece(i, end, at);
    i = end;
  }
}

template <typename T>
static void int8Piece(const uint8_t *__restrict codes, float absmax, int64_t count, T *__restrict out) {
  for (int64_t i = 0; i < count; ++i)
    out[i] = T(static_cast<float>(static_cast<int8_t>(codes[i])) * absmax * kInt8Step);
}

template <typename T>
void dequantizeInt8(const DequantizeDesc &d, const uint8_t *codes, const float *absmax, T *out) {
  const int64_t count = d.sizes[5], stride = d.strides[5];
  forEachRow(d, [&](int64_t first, int64_t place) {
    const uint8_t *from = codes + first;
    T *to = out + first;
    if (stride == 1)
      return forEachBlock(count, place, d.inputs, [&](int64_t i, int64_t end, int64_t row) {
        int8Piece(from + i, absmax[row], end - i, to + i);
      });
    for (int64_t i = 0; i < count; ++i)
      to[i] = T(int8Value(static_cast<int8_t>(from[i]), absmax[(place + i * stride) / d.inputs]));
  });
}

// Pairs of elements whose absmax are one number. An odd place begins in the middle of a byte's block.
template <typename T>
static void nf4Pairs(const uint8_t *__restrict codes, float absmax, int64_t pairs, T *__restrict out) {
  float values[16];
  for (int i = 0; i < 16; ++i) values[i] = kNf4Values[i] * absmax;
  for (int64_t i = 0; i < pairs; ++i) {
    out[2 * i] = T(values[codes[i] >> 4]);
    out[2 * i + 1] = T(values[codes[i] & 15]);
  }
}

template <typename T>
void dequantizeNf4(const DequantizeDesc &d, const uint8_t *codes, const uint8_t *absmax, const float *scales,
                   const float *mean, T *out) {
  const int64_t count = d.sizes[5], stride = d.strides[5];
  const auto absmaxAt = [&](int64_t block) { return nf4Absmax(absmax[block], scales[block / kNf4Group], *mean); };
  forEachRow(d, [&](int64_t first, int64_t place) {
    const uint8_t *from = codes + first / 2;
    T *to = out + first;
    if (stride == 1 && place % 2 == 0)
      return forEachBlock(count, place, kNf4Block, [&](int64_t i, int64_t end, int64_t block) {
        nf4Pairs(from + i / 2, absmaxAt(block), (end - i) / 2, to + i);
      });
    for (int64_t i = 0; i < count; ++i) {
      const int code = i % 2 == 0 ? from[i / 2] >> 4 : from[i / 2] & 15;
      to[i] = T(nf4Value(code, absmaxAt((place + i * stride) / kNf4Block)));
    }
  });
}

HYC_INSTANTIATE(dequantizeInt8)
HYC_INSTANTIATE(dequantizeNf4)

}  // namespace HYC_ISA

HYC_DISPATCH_TEMPLATE(void, dequantizeInt8,
                      (const DequantizeDesc &d, const uint8_t *codes, const float *absmax, T *out),
                      (d, codes, absmax, out))
HYC_DISPATCH_TEMPLATE(void, dequantizeNf4,
                      (const DequantizeDesc &d, const uint8_t *codes, const uint8_t *absmax, const float *scales,
                       const float *mean, T *out),
                      (d, codes, absmax, scales, mean, out))

}  // namespace hyc::kernels
