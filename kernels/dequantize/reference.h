// Dequantisation in plain loops. Whole numbers are i64, as the interpreter keeps all of them.
#ifndef HYC_KERNELS_DEQUANTIZE_REFERENCE_H_
#define HYC_KERNELS_DEQUANTIZE_REFERENCE_H_

#include <vector>

#include "kernels/dequantize/codes.h"
#include "kernels/dequantize/op.h"
#include "kernels/description.h"

namespace hyc::kernels::reference {

// Of each element of the part, in order, its place in the matrix.
inline std::vector<int64_t> dequantizedPlaces(const DequantizeDesc &d) {
  std::vector<int64_t> places{d.start};
  for (int k = 0; k < 6; ++k) {
    std::vector<int64_t> next;
    for (int64_t place : places)
      for (int64_t i = 0; i < d.sizes[k]; ++i) next.push_back(place + i * d.strides[k]);
    places = next;
  }
  return places;
}

template <typename Int, typename T>
void dequantizeInt8(const DequantizeDesc &d, const Int *codes, const T *absmax, T *out) {
  const std::vector<int64_t> places = dequantizedPlaces(d);
  for (size_t i = 0; i < places.size(); ++i) {
    const auto code = static_cast<float>(static_cast<int8_t>(codes[i]));
    out[i] = static_cast<T>(code * static_cast<float>(absmax[places[i] / d.inputs]) * kInt8Step);
  }
}

template <typename Int, typename T>
void dequantizeNf4(const DequantizeDesc &d, const Int *codes, const Int *absmax, const T *scales, const T *mean,
                   T *out) {
  const std::vector<int64_t> places = dequantizedPlaces(d);
  for (size_t i = 0; i < places.size(); ++i) {
    const int64_t block = places[i] / kNf4Block;
    const float most = nf4Absmax(static_cast<uint8_t>(absmax[block]), static_cast<float>(scales[block / kNf4Group]),
                                 static_cast<float>(*mean));
    const auto byte = static_cast<int>(codes[i / 2]);
    out[i] = static_cast<T>(nf4Value(i % 2 == 0 ? byte >> 4 : byte & 15, most));
  }
}

}  // namespace hyc::kernels::reference

namespace hyc::kernels::executed::dequantize {

inline constexpr ReferenceRow kReferences[] = {
    referenceOfFloats("dequantize_int8",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::dequantizeInt8(c.desc<DequantizeDesc>(), c.in<int64_t>("codes"), c.in<T>("absmax"),
                                                  c.out<T>("w"));
                      }),
    referenceOfFloats("dequantize_nf4",
                      [](auto zero, const ExecutedCall &c) {
                        using T = decltype(zero);
                        reference::dequantizeNf4(c.desc<DequantizeDesc>(), c.in<int64_t>("codes"),
                                                 c.in<int64_t>("absmax"), c.in<T>("scales"), c.in<T>("mean"),
                                                 c.out<T>("w"));
                      }),
};

}  // namespace hyc::kernels::executed::dequantize

#endif  // HYC_KERNELS_DEQUANTIZE_REFERENCE_H_
