// Shuffle: a permutation of [0, n) as a function, without a table. A Feistel network of eight rounds, whose round
// function is Philox, permutes the smallest even-bit range that holds n; a value that falls outside walks on along its
// cycle until it is inside (under four steps on average).
#ifndef HYCRT_SRC_IO_SHUFFLE_H_
#define HYCRT_SRC_IO_SHUFFLE_H_

#include <cstdint>

#include "hycrt/philox.h"

namespace hycrt {

class Shuffle {
 public:
  Shuffle(uint64_t seed, uint64_t epoch, uint64_t size) : key_(mix64(seed, epoch)), size_(size) {
    while (halfBits_ < 32 && (uint64_t{1} << (2 * halfBits_)) < size) ++halfBits_;
  }

  // index < size
  uint64_t operator()(uint64_t index) const {
    do {
      index = permuteRange(index);
    } while (index >= size_);
    return index;
  }

 private:
  static constexpr uint32_t kRounds = 8;

  uint64_t permuteRange(uint64_t index) const {
    const uint64_t mask = (uint64_t{1} << halfBits_) - 1;
    uint64_t left = index >> halfBits_, right = index & mask;
    for (uint32_t round = 0; round < kRounds; ++round) {
      const PhiloxCounter words = philox4x32({static_cast<uint32_t>(right), round, 0, 0},
                                             {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
      const uint64_t next = left ^ (words[0] & mask);
      left = right;
      right = next;
    }
    return left << halfBits_ | right;
  }

  uint64_t key_;
  uint64_t size_;
  int halfBits_ = 1;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_SHUFFLE_H_
