// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), written from the paper and not
// from the runtime's, which it has to agree with: the tests hold both against the published vectors and each other.
//
// Stream of a tensor: key = splitmix64's output for the seed and the FNV-1a hash of the tensor's name, low word first;
// counter = (element / 4, low word first, 0, 0); element i takes output word i % 4.
#ifndef HYC_INTERPRETER_PHILOX_H
#define HYC_INTERPRETER_PHILOX_H

#include "llvm/ADT/StringRef.h"
#include <array>
#include <cstdint>

namespace hyc::interpreter {

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// The word of element `n`, at least 0, of the stream of a key (its low half first): output n % 4 at counter n / 4.
int64_t randomWord(int64_t key, int64_t n);

/// The key of what the op `id` draws for sample number `sample` over all steps: splitmix64's output twice, for the seed
/// and the sample, then for that and the hash of the id.
int64_t sampleKey(uint64_t seed, uint64_t sample, llvm::StringRef id);

/// Standard normal element `index` of the tensor `name` under `seed`, by Box and Muller: words 0 and 1 give elements 0
/// (cosine) and 1 (sine) of each four, words 2 and 3 the other two. Computed in f64, rounded to f32.
float standardNormal(uint64_t seed, llvm::StringRef name, uint64_t index);

/// Element `index` of the same stream, uniform in [0, 1): the upper 24 bits of its word.
float standardUniform(uint64_t seed, llvm::StringRef name, uint64_t index);

} // namespace hyc::interpreter

#endif // HYC_INTERPRETER_PHILOX_H
