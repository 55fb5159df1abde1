// The functions that rank.compute names, and how C++ and CUDA spell them: the elementwise ops of hyc, by the same
// names. One row a function, in ScalarFunctions.cpp.
#ifndef HYC_DIALECTS_RANK_SCALARFUNCTIONS_H
#define HYC_DIALECTS_RANK_SCALARFUNCTIONS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace hyc::rank {

struct ScalarFunction {
  llvm::StringLiteral name;
  unsigned operands;
  /// {0} {1} {2} stand for the operands. Empty: whoever prints bodies knows how.
  llvm::StringLiteral text;
  llvm::StringLiteral f64 = "";        ///< of f64, where it differs
  llvm::StringLiteral narrow = "";     ///< of results of 16 bits on GPUs, where it differs (kernels/math/narrow.h)
  llvm::StringLiteral definition = ""; ///< of a function that `text` calls; `inline` at the beginning of a line
};

llvm::ArrayRef<ScalarFunction> getScalarFunctions();
const ScalarFunction *findScalarFunction(llvm::StringRef name);

} // namespace hyc::rank

#endif // HYC_DIALECTS_RANK_SCALARFUNCTIONS_H
