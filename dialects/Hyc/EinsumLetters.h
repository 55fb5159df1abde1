// The letters by which the specs of einsums call dimensions.
#ifndef HYC_DIALECTS_HYC_EINSUMLETTERS_H
#define HYC_DIALECTS_HYC_EINSUMLETTERS_H

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace hyc {

inline constexpr llvm::StringLiteral kEinsumLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The first one that is not among `used`; none where all are.
inline std::optional<char> unusedLetter(llvm::StringRef used) {
  for (char letter : kEinsumLetters)
    if (!used.contains(letter))
      return letter;
  return std::nullopt;
}

} // namespace hyc

#endif // HYC_DIALECTS_HYC_EINSUMLETTERS_H
