// What the codes of quantised weights mean, and how weights become codes: the numbers and formulas of bitsandbytes
// (Dettmers et al. 2022: LLM.int8; 2023: QLoRA's NF4 with double quantisation), computed in f32 in its order.
#ifndef HYC_KERNELS_DEQUANTIZE_CODES_H_
#define HYC_KERNELS_DEQUANTIZE_CODES_H_

#include <cmath>
#include <cstdint>

#include "kernels/host_device.h"

namespace hyc::kernels {

inline constexpr int64_t kNf4Block = 64;                   // weights that have one absmax
inline constexpr int64_t kNf4Group = 256;                  // blocks whose absmax have one scale
inline constexpr float kInt8Step = 7.874015718698502e-3f;  // 1 / 127

inline constexpr int64_t nf4Blocks(int64_t weights) { return (weights + kNf4Block - 1) / kNf4Block; }
inline constexpr int64_t nf4Groups(int64_t blocks) { return (blocks + kNf4Group - 1) / kNf4Group; }

// Both tables are of each file that includes them: what is inline would be shared by objects of several instruction
// sets.
//
// Quantiles of the normal distribution, scaled to [-1, 1], with 0 among them.
constexpr float kNf4Values[16] = {-1.0f,
                                  -0.6961928009986877f,
                                  -0.5250730514526367f,
                                  -0.39491748809814453f,
                                  -0.28444138169288635f,
                                  -0.18477343022823334f,
                                  -0.09105003625154495f,
                                  0.0f,
                                  0.07958029955625534f,
                                  0.16093020141124725f,
                                  0.24611230194568634f,
                                  0.33791524171829224f,
                                  0.44070982933044434f,
                                  0.5626170039176941f,
                                  0.7229568362236023f,
                                  1.0f};

// The positive numbers of the 8-bit dynamic map (Dettmers 2016) below 1: seven decades, each with twice as many numbers
// as the one below it. The others are their negatives, 0 and 1.
constexpr float kDynamicMapValues[127] = {
    5.5000004e-07f, 3.2500002e-06f, 7.75e-06f,      2.1249998e-05f, 4.375e-05f,    6.625e-05f,     8.875e-05f,
    1.5625001e-04f, 2.6875004e-04f, 3.8125002e-04f, 4.9375003e-04f, 6.062501e-04f, 7.1875006e-04f, 8.3125e-04f,
    9.437501e-04f,  0.0012812499f,  0.00184375f,    0.00240625f,    0.00296875f,   0.0035312497f,  0.00409375f,
    0.0046562497f,  0.0052187503f,  0.00578125f,    0.00634375f,    0.00690625f,   0.00746875f,    0.00803125f,
    0.00859375f,    0.009156249f,   0.00971875f,    0.01140625f,    0.01421875f,   0.01703125f,    0.019843752f,
    0.02265625f,    0.02546875f,    0.028281251f,   0.03109375f,    0.03390625f,   0.036718752f,   0.03953125f,
    0.042343747f,   0.04515625f,    0.04796875f,    0.05078125f,    0.05359375f,   0.05640625f,    0.059218753f,
    0.06203125f,    0.06484375f,    0.067656256f,   0.070468746f,   0.07328125f,   0.07609375f,    0.07890625f,
    0.08171876f,    0.08453125f,    0.08734375f,    0.09015625f,    0.092968754f,  0.09578126f,    0.09859375f,
    0.107031256f,   0.12109375f,    0.13515624f,    0.14921875f,    0.16328125f,   0.17734376f,    0.19140625f,
    0.20546874f,    0.21953125f,    0.23359375f,    0.24765624f,    0.26171875f,   0.27578127f,    0.28984374f,
    0.30390626f,    0.31796873f,    0.33203125f,    0.34609374f,    0.36015624f,   0.37421876f,    0.38828123f,
    0.40234375f,    0.41640624f,    0.43046874f,    0.44453126f,    0.45859373f,   0.47265625f,    0.4867187f,
    0.50078124f,    0.5148437f,     0.5289062f,     0.54296875f,    0.5570313f,    0.5710938f,     0.58515626f,
    0.5992187f,     0.61328125f,    0.6273438f,     0.6414063f,     0.65546876f,   0.6695312f,     0.68359375f,
    0.6976563f,     0.7117188f,     0.72578126f,    0.7398437f,     0.75390625f,   0.7679688f,     0.78203124f,
    0.79609376f,    0.8101562f,     0.82421875f,    0.8382813f,     0.85234374f,   0.86640626f,    0.8804687f,
    0.89453125f,    0.9085938f,     0.92265624f,    0.93671876f,    0.9507812f,    0.96484375f,    0.9789063f,
    0.99296874f};

// Number `code` of the 256, in ascending order.
inline HYC_HOST_DEVICE float dynamicValue(const float *positive, int code) {
  if (code == 127) return 0;
  if (code == 255) return 1;
  return code > 127 ? positive[code - 128] : -positive[126 - code];
}
inline float dynamicValue(int code) { return dynamicValue(kDynamicMapValues, code); }

//===-- Codes of weights ----------------------------------------------------------------------------------------===//

// A row of zeros has codes of zero, and what is not finite stays so by its absmax.
inline int8_t int8Code(float weight, float absmax) {
  const float code = std::nearbyint(weight * (127.0f / absmax));
  if (!(absmax > 0) || std::isnan(code)) return 0;
  return static_cast<int8_t>(code > 127 ? 127 : code < -127 ? -127 : code);
}
inline float int8Value(int8_t code, float absmax) { return static_cast<float>(code) * absmax * kInt8Step; }

// How many of the bounds between neighbours lie below `value`.
template <typename Value>
inline int countBelow(int count, Value &&valueOf, float value) {
  int first = 0, last = count - 1;  // bounds [first, last) are undecided
  while (first < last) {
    const int middle = (first + last) / 2;
    const bool isBelow = (valueOf(middle) + valueOf(middle + 1)) / 2 < value;
    isBelow ? first = middle + 1 : last = middle;
  }
  return first;
}

// absmax as where a block is scaled to [-1, 1].
inline float blockScale(float absmax) { return 1.0f / (absmax < 1e-38f ? 1e-38f : absmax); }

inline uint8_t nf4Code(float weight, float absmax) {
  return static_cast<uint8_t>(countBelow(16, [](int i) { return kNf4Values[i]; }, weight * blockScale(absmax)));
}
inline float nf4Value(int code, float absmax) { return kNf4Values[code] * absmax; }

//===-- Codes of absmax -----------------------------------------------------------------------------------------===//

inline float nf4Absmax(uint8_t code, float scale, float mean) { return dynamicValue(code) * scale + mean; }

// Of `blocks` numbers: a byte each, nf4Groups(blocks) scales, and what was subtracted before.
inline void quantizeAbsmax(const float *absmax, int64_t blocks, uint8_t *codes, float *scales, float *mean) {
  double sum = 0;
  for (int64_t i = 0; i < blocks; ++i) sum += static_cast<double>(absmax[i]);
  *mean = static_cast<float>(sum / static_cast<double>(blocks));
  for (int64_t begin = 0; begin < blocks; begin += kNf4Group) {
    const int64_t end = begin + kNf4Group < blocks ? begin + kNf4Group : blocks;
    float greatest = 0;
    for (int64_t i = begin; i < end; ++i) greatest = std::fmax(greatest, std::fabs(absmax[i] - *mean));
    scales[begin / kNf4Group] = greatest;
    for (int64_t i = begin; i < end; ++i)
      codes[i] = static_cast<uint8_t>(
          countBelow(256, [](int code) { return dynamicValue(code); }, (absmax[i] - *mean) * blockScale(greatest)));
  }
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_DEQUANTIZE_CODES_H_
