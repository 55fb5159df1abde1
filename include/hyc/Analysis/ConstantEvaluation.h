// Evaluates what does not depend on any input: a mask is recognised by what it is, not by how it was written.
#ifndef HYC_ANALYSIS_CONSTANTEVALUATION_H
#define HYC_ANALYSIS_CONSTANTEVALUATION_H

#include "hyc/Analysis/HostTensor.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

namespace hyc {

/// Evaluates what follows from constants by plain arithmetic and rearrangement. Remembers what it found, so that a mask
/// that all layers share is evaluated once; no op that a result follows from may be erased while it is in use.
class ConstantEvaluator {
public:
  /// The value of `value`, or nothing if it depends on anything but constants.
  std::optional<HostTensor> evaluate(mlir::Value value);
  /// From here on takes `value` for a constant: what follows is what would be computed of it.
  void assume(mlir::Value value, HostTensor constant) { known.insert_or_assign(value, std::move(constant)); }

private:
  std::optional<HostTensor> evaluateOp(mlir::Operation *op);
  std::optional<HostTensor> evaluateView(mlir::Operation *op);
  std::optional<HostTensor> evaluateElementwise(mlir::Operation *op);

  llvm::DenseMap<mlir::Value, HostTensor> known;
  int depth = 0;
};

/// The number that every element of `value` is, if it is one floating-point number known when compiling.
std::optional<double> evaluateSplat(mlir::Value value);

} // namespace hyc

#endif // HYC_ANALYSIS_CONSTANTEVALUATION_H
