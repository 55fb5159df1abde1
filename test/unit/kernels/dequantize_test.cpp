// Codes of weights against bitsandbytes' own, and dequantisation against the reference, in parts and in any order.
#include <algorithm>

#include "kernel_test.h"
#include "kernels/dequantize/reference.h"

namespace hyc::kernels {
namespace {

#include "dequantize_values.inc"

constexpr int64_t kRows = 300, kColumns = 66, kCount = kRows * kColumns;

// As dequantize_values.py makes them.
Floats weights() {
  Floats values;
  uint32_t word = 1;
  for (int64_t i = 0; i < kCount; ++i) {
    word = word * 1664525u + 1013904223u;
    values.push_back(
        std::ldexp(static_cast<float>(word >> 8) / 0x1p24f - 0.5f, static_cast<int>(i / kColumns % 5) - 4));
  }
  return values;
}

Floats absmaxOf(const Floats &values, int64_t block) {
  Floats most((values.size() + block - 1) / block, 0);
  for (size_t i = 0; i < values.size(); ++i) most[i / block] = std::fmax(most[i / block], std::fabs(values[i]));
  return most;
}

// A matrix in both kinds of codes.
struct Coded {
  Floats absmax = absmaxOf(weights(), kColumns);
  std::vector<uint8_t> int8, nf4, nf4Absmax;
  Floats scales;
  float mean = 0;

  Coded() {
    const Floats w = weights(), blocks = absmaxOf(w, kNf4Block);
    for (int64_t i = 0; i < kCount; ++i) int8.push_back(static_cast<uint8_t>(int8Code(w[i], absmax[i / kColumns])));
    for (int64_t i = 0; i < kCount; i += 2)
      nf4.push_back(static_cast<uint8_t>(nf4Code(w[i], blocks[i / kNf4Block]) << 4 |
                                         nf4Code(w[i + 1], blocks[(i + 1) / kNf4Block])));
    nf4Absmax.resize(blocks.size());
    scales.resize(nf4Groups(static_cast<int64_t>(blocks.size())));
    quantizeAbsmax(blocks.data(), static_cast<int64_t>(blocks.size()), nf4Absmax.data(), scales.data(), &mean);
  }

  template <typename T = float>
  std::vector<T> meant(bool isNf4, const DequantizeDesc &desc, const std::vector<uint8_t> &codes) const {
    int64_t count = 1;
    for (int64_t size : desc.sizes) count *= size;
    std::vector<T> out(count);
    if (isNf4)
      dequantizeNf4(desc, codes.data(), nf4Absmax.data(), scales.data(), &mean, out.data());
    else
      dequantizeInt8(desc, codes.data(), absmax.data(), out.data());
    return out;
  }
  Floats reference(bool isNf4, const DequantizeDesc &desc, const std::vector<uint8_t> &codes) const {
    Floats out(reference::dequantizedPlaces(desc).size());
    if (isNf4)
      reference::dequantizeNf4(desc, codes.data(), nf4Absmax.data(), scales.data(), &mean, out.data());
    else
      reference::dequantizeInt8(desc, codes.data(), absmax.data(), out.data());
    return out;
  }
  const std::vector<uint8_t> &codes(bool isNf4) const { return isNf4 ? nf4 : int8; }
};

DequantizeDesc wholeMatrix() {
  DequantizeDesc desc;
  desc.sizes[4] = kRows, desc.sizes[5] = kColumns;
  desc.strides[4] = kColumns;
  desc.inputs = kColumns;
  return desc;
}

TEST(Dequantize, Int8IsBitsandbytes) {
  const Coded coded;
  for (size_t i = 0; i < std::size(kInt8Codes); ++i) EXPECT_EQ(static_cast<int8_t>(coded.int8[i]), kInt8Codes[i]) << i;
  for (size_t i = 0; i < std::size(kInt8Absmax); ++i) EXPECT_EQ(coded.absmax[i], kInt8Absmax[i]) << i;
  const Floats meant = coded.meant(false, wholeMatrix(), coded.int8);
  for (size_t i = 0; i < std::size(kInt8Meant); ++i) EXPECT_EQ(meant[i], kInt8Meant[i]) << i;
}

// Blocks' absmax are a mean and what is left: sums in another order than torch's differ in the mean's last bit.
TEST(Dequantize, Nf4IsBitsandbytes) {
  const Coded coded;
  ASSERT_EQ(coded.nf4Absmax.size(), std::size(kNf4Absmax));
  for (size_t i = 0; i < std::size(kNf4Packed); ++i) EXPECT_EQ(coded.nf4[i], kNf4Packed[i]) << i;
  for (size_t i = 0; i < std::size(kNf4Absmax); ++i) EXPECT_EQ(coded.nf4Absmax[i], kNf4Absmax[i]) << i;
  for (size_t i = 0; i < std::size(kNf4Scales); ++i) EXPECT_NEAR(coded.scales[i], kNf4Scales[i], 1e-8) << i;
  EXPECT_NEAR(coded.mean, kNf4Mean[0], 1e-8);
  const Floats meant = coded.meant(true, wholeMatrix(), coded.nf4);
  for (int64_t i = 0; i < 128; ++i) {
    EXPECT_NEAR(meant[i], kNf4Meant[i], 1e-7) << i;
    EXPECT_NEAR(meant[kCount - 128 + i], kNf4Meant[128 + i], 1e-7) << i;
  }
}

TEST(Dequantize, AWeightOfZerosOrWhatIsNotFiniteIsNoOther) {
  EXPECT_EQ(int8Value(int8Code(0, 0), 0), 0);
  EXPECT_EQ(nf4Value(nf4Code(0, 0), 0), 0);
  EXPECT_EQ(int8Code(1e-45f, 1e-45f), 127);
  EXPECT_TRUE(std::isnan(int8Value(int8Code(NAN, NAN), NAN)));
  EXPECT_FALSE(std::isfinite(int8Value(int8Code(INFINITY, INFINITY), INFINITY)));
}

// A part that begins inside of a block, the transpose, and dimensions with others between them.
TEST(Dequantize, PartsAndOrdersAreThoseOfTheWhole) {
  const Coded coded;
  for (bool isNf4 : {false, true}) {
    const Floats whole = coded.reference(isNf4, wholeMatrix(), coded.codes(isNf4));
    EXPECT_TRUE(sameBits(coded.meant(isNf4, wholeMatrix(), coded.codes(isNf4)), whole));
    for (int order = 0; order < 3; ++order) {
      DequantizeDesc desc = wholeMatrix();
      if (order == 0) desc.sizes[4] = 7, desc.sizes[5] = 34, desc.start = 5 * kColumns + 32;
      if (order == 1)
        desc.sizes[4] = 10, desc.strides[4] = 1, desc.sizes[5] = 30, desc.strides[5] = kColumns, desc.start = 3;
      if (order == 2) {
        desc.sizes[3] = 3, desc.strides[3] = 100 * kColumns;
        desc.sizes[4] = 4, desc.sizes[5] = 10, desc.start = kColumns + 21;
      }
      const std::vector<int64_t> places = reference::dequantizedPlaces(desc);
      std::vector<uint8_t> codes;
      const auto nibble = [&](int64_t place) { return coded.nf4[place / 2] >> (place % 2 == 0 ? 4 : 0) & 15; };
      for (size_t i = 0; i < places.size(); i += isNf4 ? 2 : 1)
        codes.push_back(isNf4 ? static_cast<uint8_t>(nibble(places[i]) << 4 | nibble(places[i + 1]))
                              : coded.int8[places[i]]);
      const Floats part = coded.meant(isNf4, desc, codes);
      EXPECT_TRUE(sameBits(part, coded.reference(isNf4, desc, codes))) << order;
      for (size_t i = 0; i < places.size(); ++i) EXPECT_EQ(part[i], whole[places[i]]) << order << " " << i;
      const std::vector<Bf16> narrow = coded.meant<Bf16>(isNf4, desc, codes);
      for (size_t i = 0; i < places.size(); ++i)
        EXPECT_EQ(static_cast<float>(narrow[i]), static_cast<float>(Bf16(part[i])));
    }
  }
}

TEST(Dequantize, BitsDoNotDependOnThreads) {
  const Coded coded;
  DequantizeDesc desc = wholeMatrix();
  desc.sizes[3] = 4, desc.strides[3] = 0;
  for (bool isNf4 : {false, true}) {
    std::vector<uint8_t> codes;
    for (int i = 0; i < 4; ++i) codes.insert(codes.end(), coded.codes(isNf4).begin(), coded.codes(isNf4).end());
    expectBitsIndependentOfThreads([&] { return coded.meant(isNf4, desc, codes); });
  }
}

}  // namespace
}  // namespace hyc::kernels
