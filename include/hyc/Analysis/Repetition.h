// Which ops may be executed a second time, and which cost nothing when they are.
//
// Backward can have a forward value again by executing its op again. That is exact only for ops whose result is a
// function of operands that are still the same: effects (accumulations, writes, running statistics) happen once, and
// what they change is not read twice. A random op may be repeated, since its numbers are a function of (seed, step, op
// id, element) alone; it then has to keep the id that its numbers come from.
#ifndef HYC_ANALYSIS_REPETITION_H
#define HYC_ANALYSIS_REPETITION_H

#include "dialects/Hyc/HycDialect.h"
#include "llvm/ADT/DenseSet.h"

namespace hyc {

/// Reads, constants and the like: ops that compute nothing worth keeping, repeated wherever their results are used.
bool isFree(mlir::Operation *op);

/// Answers for the ops of one function.
class Repetition {
public:
  explicit Repetition(FuncOp func);

  /// Whether executing `op` again later in the same call gives the same results and changes nothing.
  bool isExact(mlir::Operation *op) const;

private:
  llvm::DenseSet<mlir::StringAttr> changed; // states that an op of the function writes
};

} // namespace hyc

#endif // HYC_ANALYSIS_REPETITION_H
