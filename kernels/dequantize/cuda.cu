// Dequantisation on GPUs: two elements a thread, which of NF4 are those of one byte.
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"
#include "kernels/dequantize/codes.h"
#include "kernels/dequantize/cuda.h"

namespace hyc::kernels::cuda {
namespace {

// Arguments of a kernel lie in memory that all threads read fast.
struct Nf4Tables {
  float values[16], positive[127];
};

Nf4Tables makeTables() {
  Nf4Tables tables;
  for (int i = 0; i < 16; ++i) tables.values[i] = kNf4Values[i];
  for (int i = 0; i < 127; ++i) tables.positive[i] = kDynamicMapValues[i];
  return tables;
}

int64_t elementsOf(const DequantizeDesc &d) {
  int64_t count = 1;
  for (int64_t size : d.sizes) count *= size;
  return count;
}

// The place in the matrix of an element of the part.
__device__ inline int64_t placeOf(const DequantizeDesc &d, int64_t start, int64_t element) {
  for (int k = 5; k >= 0; --k) {
    if (d.sizes[k] == 1) continue;
    start += element % d.sizes[k] * d.strides[k];
    element /= d.sizes[k];
  }
  return start;
}

template <typename T>
__global__ void int8Kernel(DequantizeDesc d, int64_t count, const int64_t *start, const uint8_t *codes,
                           const float *absmax, T *out) {
  const int64_t first = start ? *start : d.start;
  forEach(count, [&](int64_t i) {
    const float code = static_cast<float>(static_cast<int8_t>(codes[i]));
    out[i] = T(code * absmax[placeOf(d, first, i) / d.inputs] * kInt8Step);
  });
}

template <typename T>
__global__ void nf4Kernel(DequantizeDesc d, int64_t pairs, Nf4Tables tables, const int64_t *start, const uint8_t *codes,
                          const uint8_t *absmax, const float *scales, const float *mean, T *out) {
  const int64_t first = start ? *start : d.start;
  const auto absmaxAt = [&](int64_t place) {
    const int64_t block = place / kNf4Block;
    return dynamicValue(tables.positive, absmax[block]) * scales[block / kNf4Group] + *mean;
  };
  forEach(pairs, [&](int64_t i) {
    const int64_t place = placeOf(d, first, 2 * i);
    out[2 * i] = T(tables.values[codes[i] >> 4] * absmaxAt(place));
    out[2 * i + 1] = T(tables.values[codes[i] & 15] * absmaxAt(place + d.strides[5]));
  });
}

}  // namespace

template <typename T>
void dequantizeInt8(Stream stream, const DequantizeDesc &d, const int64_t *start, const uint8_t *codes,
                    const float *absmax, T *out) {
  const int64_t count = elementsOf(d);
  kernel(int8Kernel<T>).launch(stream, gridOver(count), d, count, start, codes, absmax, out);
}

template <typename T>
void dequantizeNf4(Stream stream, const DequantizeDesc &d, const int64_t *start, const uint8_t *codes,
                   const uint8_t *absmax, const float *scales, const float *mean, T *out) {
  static const Nf4Tables tables = makeTables();
  const int64_t pairs = elementsOf(d) / 2;
  kernel(nf4Kernel<T>).launch(stream, gridOver(pairs), d, pairs, tables, start, codes, absmax, scales, mean, out);
}

#define HYC_INSTANTIATE(T)                                                                                          \
  template void dequantizeInt8<T>(Stream, const DequantizeDesc &, const int64_t *, const uint8_t *, const float *,  \
                                  T *);                                                                             \
  template void dequantizeNf4<T>(Stream, const DequantizeDesc &, const int64_t *, const uint8_t *, const uint8_t *, \
                                 const float *, const float *, T *);
HYC_INSTANTIATE(float)
HYC_INSTANTIATE(Bf16)
HYC_INSTANTIATE(F16)

}  // namespace hyc::kernels::cuda
