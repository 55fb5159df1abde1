// Philox4x32-10 and the normal values drawn from it.
#include "hyc/Interpreter/Philox.h"

#include <cmath>

using namespace hyc::interpreter;

std::array<uint32_t, 4> hyc::interpreter::philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr uint64_t multiplier[2] = {0xD2511F53, 0xCD9E8D57};
  constexpr uint32_t weyl[2] = {0x9E3779B9, 0xBB67AE85};
  for (uint32_t round = 0; round < 10; ++round) {
    uint64_t left = multiplier[0] * counter[0], right = multiplier[1] * counter[2];
    uint32_t roundKey[2] = {key[0] + round * weyl[0], key[1] + round * weyl[1]};
    counter = {static_cast<uint32_t>(right >> 32) ^ counter[1] ^ roundKey[0], static_cast<uint32_t>(right),
               static_cast<uint32_t>(left >> 32) ^ counter[3] ^ roundKey[1], static_cast<uint32_t>(left)};
  }
  return counter;
}

static uint64_t fnv1a(llvm::StringRef text) {
  uint64_t hash = 14695981039346656037u;
  for (unsigned char byte : text.bytes()) {
    hash ^= byte;
    hash *= 1099511628211u;
  }
  return hash;
}

static uint64_t splitmix64(uint64_t state) {
  state ^= state >> 30;
  state *= 0xBF58476D1CE4E5B9u;
  state ^= state >> 27;
  state *= 0x94D049BB133111EBu;
  return state ^ (state >> 31);
}

int64_t hyc::interpreter::randomWord(int64_t key, int64_t n) {
  uint64_t block = static_cast<uint64_t>(n) / 4, bits = static_cast<uint64_t>(key);
  std::array<uint32_t, 4> words = philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                                         {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)});
  return words[static_cast<size_t>(n % 4)];
}

int64_t hyc::interpreter::sampleKey(uint64_t seed, uint64_t sample, llvm::StringRef id) {
  constexpr uint64_t golden = 0x9E3779B97F4A7C15u;
  uint64_t ofSample = splitmix64((seed + 1) * golden + sample);
  return static_cast<int64_t>(splitmix64((ofSample + 1) * golden + fnv1a(id)));
}

/// The words of elements 4 · (index / 4) to 4 · (index / 4) + 3 of the tensor `name`.
static std::array<uint32_t, 4> wordsOf(uint64_t seed, llvm::StringRef name, uint64_t index) {
  constexpr uint64_t golden = 0x9E3779B97F4A7C15u;
  uint64_t key = splitmix64((seed + 1) * golden + fnv1a(name));
  uint64_t block = index / 4;
  return philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
}

float hyc::interpreter::standardUniform(uint64_t seed, llvm::StringRef name, uint64_t index) {
  return static_cast<float>(wordsOf(seed, name, index)[index % 4] / 256) / 16777216.0f;
}

float hyc::interpreter::standardNormal(uint64_t seed, llvm::StringRef name, uint64_t index) {
  std::array<uint32_t, 4> words = wordsOf(seed, name, index);
  bool secondPair = index % 4 >= 2, sine = index % 2 == 1;
  double uniform = (static_cast<double>(words[secondPair ? 2 : 0]) + 0.5) / 4294967296.0;
  double angle = 6.283185307179586 * (static_cast<double>(words[secondPair ? 3 : 1]) / 4294967296.0);
  double radius = std::sqrt(-2.0 * std::log(uniform));
  return static_cast<float>(radius * (sine ? std::sin(angle) : std::cos(angle)));
}
