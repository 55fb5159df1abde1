// The contraction behind hyc.einsum, apart from MLIR so that it compiles with its own optimisation.
#ifndef HYC_LIB_INTERPRETER_VALUES_CONTRACTION_H
#define HYC_LIB_INTERPRETER_VALUES_CONTRACTION_H

#include "hyc/Interpreter/Tensor.h"
#include "llvm/ADT/StringRef.h"

namespace hyc::interpreter {

/// Σ over the letters that `resultLetters` lacks of lhs · rhs: a valid spec over operands of one kind. Terms are added
/// in ascending order of the contracted indices, in the arithmetic of the kind's storage. The result is of
/// `resultKind`, stored alike, and not yet rounded to it.
Tensor contract(llvm::StringRef lhsLetters, const Tensor &lhs, llvm::StringRef rhsLetters, const Tensor &rhs,
                llvm::StringRef resultLetters, ElementKind resultKind);

/// c += a · b for dense row-major c: [rows, columns], a: [rows, depth], b: [depth, columns].
void multiplyInto(int64_t rows, int64_t columns, int64_t depth, const float *a, const float *b, float *c);
void multiplyInto(int64_t rows, int64_t columns, int64_t depth, const double *a, const double *b, double *c);
void multiplyInto(int64_t rows, int64_t columns, int64_t depth, const int64_t *a, const int64_t *b, int64_t *c);

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_VALUES_CONTRACTION_H
