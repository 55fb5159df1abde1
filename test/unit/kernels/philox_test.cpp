// Philox4x32-10 against the known answers of the Random123 distribution (Salmon et al. 2011, kat_vectors), and
// dropout's decisions against the probabilities that they claim.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "kernels/philox/op.h"

namespace hyc::kernels {
namespace {

using Words = std::array<uint32_t, 4>;

Words philox(const Words &counter, uint32_t key0, uint32_t key1) {
  const PhiloxWords words = philox4x32({{counter[0], counter[1], counter[2], counter[3]}}, key0, key1);
  return {words.word[0], words.word[1], words.word[2], words.word[3]};
}

TEST(Philox, GivesThePublishedAnswers) {
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox({0, 0, 0, 0}, 0, 0), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({kOnes, kOnes, kOnes, kOnes}, kOnes, kOnes),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  // The digits of pi.
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, WordsOfElementsAreThoseOfTheirBlock) {
  const Words first{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  for (int64_t n = 0; n < 4; ++n) EXPECT_EQ(randomWord(0, n), int64_t{first[static_cast<size_t>(n)]});
  // Both halves of key and counter take part.
  const int64_t key = (int64_t{0x299f31d0} << 32) | 0x24093822, block = (int64_t{5} << 32) | 7;
  const Words words = philox({7, 5, 0, 0}, 0x24093822, 0x299f31d0);
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(randomWord(key, 4 * block + i), int64_t{words[static_cast<size_t>(i)]});
}

// Of n independent decisions the share that is kept lies within four standard deviations of 1 − rate, for whole streams
// and for neighbours, rows of any length and keys that differ in one bit.
TEST(Dropout, KeepsTheShareThatItSays) {
  constexpr int64_t kCount = 1 << 18;
  for (double rate : {0.0, 0.1, 0.5, 0.9}) {
    const int64_t threshold = dropoutThreshold(rate);
    int64_t kept = 0, bothKept = 0, keptUnderTwoKeys = 0;
    for (int64_t n = 0; n < kCount; ++n) {
      const bool isKept = randomWord(12345, n) >= threshold;
      kept += isKept;
      bothKept += isKept && randomWord(12345, n + 1) >= threshold;
      keptUnderTwoKeys += isKept && randomWord(12344, n) >= threshold;
    }
    const double share = 1 - rate;
    auto expectShare = [&](int64_t count, double expected) {
      const double deviation = std::sqrt(expected * (1 - expected) / kCount);
      EXPECT_NEAR(static_cast<double>(count) / kCount, expected, 4 * deviation) << "rate " << rate;
    };
    expectShare(kept, share);
    expectShare(bothKept, share * share);
    expectShare(keptUnderTwoKeys, share * share);
  }
}

TEST(Dropout, KeepsTheExpectedValue) {
  for (double rate : {0.0, 0.1, 0.5, 0.9}) EXPECT_NEAR((1 - rate) * static_cast<double>(dropoutScale(rate)), 1, 1e-7);
}

}  // namespace
}  // namespace hyc::kernels
