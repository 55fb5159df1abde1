// The contraction behind hyc.einsum, apart from MLIR so that it compiles with its own optimisation.
#ifndef HYC_LIB_INTERPRETER_CONTRACTION_H
#define HYC_LIB_INTERPRETER_CONTRACTION_H

#include "hyc/Interpreter/Tensor.h"
#include "llvm/ADT/StringRef.h"

namespace hyc::interpreter {

/// Σ over the letters that `resultLetters` lacks of lhs · rhs: a valid spec over operands of one kind. Terms are added
/// in ascending order of the contracted indices, in the arithmetic of the kind.
Tensor contract(llvm::StringRef lhsLetters, const Tensor &lhs, llvm::StringRef rhsLetters, const Tensor &rhs,
                llvm::StringRef resultLetters);

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_CONTRACTION_H
