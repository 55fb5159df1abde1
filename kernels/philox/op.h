// Random bits by counter, and what dropout makes of them. Philox4x32-10 (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", 2011): ten rounds of two 32 × 32 bit products turn a counter into four words that look random,
// under a key of two words. The bits are a function of (key, counter) alone: whoever needs element n computes it, on
// whatever rank, in whatever order, as often as needed.
//
// The surprise: everything is inlined and without branches, so that loops over elements become vector code.
#ifndef HYC_KERNELS_PHILOX_OP_H_
#define HYC_KERNELS_PHILOX_OP_H_

#include <cstdint>

namespace hyc::kernels {

struct PhiloxWords {
  uint32_t word[4];
};

[[gnu::always_inline]] constexpr inline PhiloxWords philox4x32(PhiloxWords counter, uint32_t key0, uint32_t key1) {
  uint32_t c0 = counter.word[0], c1 = counter.word[1], c2 = counter.word[2], c3 = counter.word[3];
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53u} * c0, product1 = uint64_t{0xCD9E8D57u} * c2;
    const uint32_t high0 = static_cast<uint32_t>(product0 >> 32), high1 = static_cast<uint32_t>(product1 >> 32);
    c0 = high1 ^ c1 ^ key0;
    c1 = static_cast<uint32_t>(product1);
    c2 = high0 ^ c3 ^ key1;
    c3 = static_cast<uint32_t>(product0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

// The words of elements 4 · block … 4 · block + 3 of the stream of `key`.
[[gnu::always_inline]] constexpr inline PhiloxWords randomWords(uint64_t key, uint64_t block) {
  return philox4x32({{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0}},
                    static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32));
}

// The word of element n: 32 bits, as a signed number so that all of them compare as they are.
[[gnu::always_inline]] constexpr inline int64_t randomWord(int64_t key, int64_t n) {
  const PhiloxWords words = randomWords(static_cast<uint64_t>(key), static_cast<uint64_t>(n) / 4);
  const uint32_t even = n & 2 ? words.word[2] : words.word[0], odd = n & 2 ? words.word[3] : words.word[1];
  return static_cast<int64_t>(n & 1 ? odd : even);
}

// Dropout at `rate`, 0 ≤ rate < 1, keeps the elements whose word is at least this: a share of 1 − rate, to 2^-32.
[[gnu::always_inline]] constexpr inline int64_t dropoutThreshold(double rate) {
  return static_cast<int64_t>(rate * 4294967296.0);
}
// What is kept is multiplied by this, so that the expected value stays.
[[gnu::always_inline]] constexpr inline float dropoutScale(double rate) { return static_cast<float>(1 / (1 - rate)); }

// Elements from one row of a sample to the next: rows are filled up to whole blocks of four.
[[gnu::always_inline]] constexpr inline int64_t dropoutRow(int64_t elements) { return (elements + 3) / 4 * 4; }

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_PHILOX_OP_H_
