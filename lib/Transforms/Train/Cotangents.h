// Cotangents: what arrives at each value as the ops that read it are walked backwards, and the step from the cotangents
// of an op's results to those of its operands. Of a function, or of the body of a scan.
#ifndef HYC_LIB_TRANSFORMS_TRAIN_COTANGENTS_H
#define HYC_LIB_TRANSFORMS_TRAIN_COTANGENTS_H

#include "SliceGradients.h"

namespace hyc::train {

/// One value may be the cotangent of several, of which no use tells before they ask for it: who holds one neither
/// erases nor moves the op that makes it. What nobody reads in the end goes with all that is dead.
class Cotangents {
public:
  /// Gradients are built at `builder`, behind all that they read.
  explicit Cotangents(mlir::OpBuilder &builder) : builder(builder) {}

  void add(mlir::Value value, mlir::Value cotangent);
  /// The sum of what has arrived; null where that is nothing.
  mlir::Value of(mlir::Value value);

  /// Has what arrives at `value` kept one by one, and not be added up.
  void keepApart(mlir::Value value) { apart[value]; }
  /// What has arrived at a value of which that is so.
  llvm::ArrayRef<mlir::Value> partsOf(mlir::Value value) { return apart.find(value)->second; }

  /// Asks `op` for its operands' cotangents, of those that are `active`; false where nothing was needed.
  mlir::FailureOr<bool> differentiate(mlir::Operation *op, const llvm::DenseSet<mlir::Value> &active);

private:
  void sum(mlir::Value value, mlir::Value cotangent);

  mlir::OpBuilder &builder;
  llvm::DenseMap<mlir::Value, mlir::Value> sums;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> apart;
  SliceGradients slices;
};

} // namespace hyc::train

#endif // HYC_LIB_TRANSFORMS_TRAIN_COTANGENTS_H
