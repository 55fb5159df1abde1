// PrecisionRule: which float type each operand and result of an op has where the model computes in a narrow one.
#ifndef HYC_DIALECTS_HYC_PRECISIONRULE_H
#define HYC_DIALECTS_HYC_PRECISIONRULE_H

#include "llvm/ADT/StringRef.h"

#include <algorithm>

namespace hyc {

/// One letter an operand, one a result; the last one stands for all that follow. What is no float takes any letter.
///   n  narrow: the compute type
///   w  wide: f32
///   f  as the operands are
///   s  a sum: wide if it is only added to wide state, else narrow
///   u  of no type of its own: whatever each user wants
struct PrecisionRule {
  llvm::StringRef operands, results;

  static PrecisionRule wide() { return {"w", "w"}; }
  static PrecisionRule following() { return {"f", "f"}; }
  static PrecisionRule asUsersWant() { return {"", "u"}; }

  char ofOperand(size_t index) const { return letterAt(operands, index); }
  char ofResult(size_t index) const { return letterAt(results, index); }
  /// Whether nothing but operands and users decides the type of the results.
  bool isFree() const { return results == "f" || results == "u"; }

private:
  static char letterAt(llvm::StringRef letters, size_t index) {
    return letters.empty() ? '-' : letters[std::min(index, letters.size() - 1)];
  }
};

} // namespace hyc

#endif // HYC_DIALECTS_HYC_PRECISIONRULE_H
