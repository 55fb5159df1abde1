// Philox4x32-10: random bits as a pure function of (key, counter), so that the element at a global position has the
// same value on whatever rank it lies and in whatever order it is made.
//
// Streams. The value of element i of the tensor with key t under run seed s comes from
//   key     = (low, high) words of mix64(s, t)
//   counter = (low, high) words of i / 4, then (0, 0)        lane i % 4 of the four outputs
// Normal values pair lanes (0, 1) and (2, 3) by Box-Muller: the first of a pair is the cosine branch, the second the
// sine branch.
//
// Dropout. Sample n over all steps (step · global batch + place in the step's global batch) has, for the op with id d,
//   key = mix64(mix64(s, n), stableKey(d))
// and element i of the sample word i % 4 at counter i / 4 as above (kernels/philox/op.h; hyc.dropout_mask tells what i
// counts). A tensor's key mixes the seed with a name, a sample's mixes it twice: the streams do not meet.
#ifndef HYCRT_PHILOX_H_
#define HYCRT_PHILOX_H_

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

#include "kernels/philox/op.h"

namespace hycrt {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
  const hyc::kernels::PhiloxWords words =
      hyc::kernels::philox4x32({{counter[0], counter[1], counter[2], counter[3]}}, key[0], key[1]);
  return {words.word[0], words.word[1], words.word[2], words.word[3]};
}

// A key that depends on the spelling alone (FNV-1a, 64 bits): for Initializer::key.
constexpr uint64_t stableKey(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return hash;
}

// Two words into one, each bit depending on all (the finaliser of splitmix64 over their combination).
constexpr uint64_t mix64(uint64_t a, uint64_t b) {
  uint64_t z = a * 0x9E3779B97F4A7C15u + b + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

class PhiloxStream {
 public:
  constexpr PhiloxStream(uint64_t seed, uint64_t tensorKey) : word_(mix64(seed, tensorKey)) {}

  // The four words that elements [4 * block, 4 * block + 4) draw from.
  constexpr PhiloxCounter block(uint64_t index) const {
    return philox4x32({static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0, 0},
                      {static_cast<uint32_t>(word_), static_cast<uint32_t>(word_ >> 32)});
  }

  // In [0, 1), 24 bits; of elements [4 * block, 4 * block + 4).
  std::array<float, 4> uniforms(uint64_t index) const {
    const PhiloxCounter words = block(index);
    std::array<float, 4> values;
    for (int i = 0; i < 4; ++i) values[i] = static_cast<float>(words[i] >> 8) * 0x1p-24f;
    return values;
  }

  // Standard normal, computed in f64 and rounded once; of elements [4 * block, 4 * block + 4).
  std::array<float, 4> normals(uint64_t index) const {
    const PhiloxCounter words = block(index);
    std::array<float, 4> values;
    for (int pair = 0; pair < 4; pair += 2) {
      const double u = (words[pair] + 0.5) * 0x1p-32;  // in (0, 1): its logarithm is finite
      const double angle = 6.283185307179586 * (words[pair + 1] * 0x1p-32);
      const double radius = std::sqrt(-2.0 * std::log(u));
      values[pair] = static_cast<float>(radius * std::cos(angle));
      values[pair + 1] = static_cast<float>(radius * std::sin(angle));
    }
    return values;
  }

  float uniform(uint64_t element) const { return uniforms(element / 4)[element % 4]; }
  float normal(uint64_t element) const { return normals(element / 4)[element % 4]; }

 private:
  uint64_t word_;
};

}  // namespace hycrt

#endif  // HYCRT_PHILOX_H_
