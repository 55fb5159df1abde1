// SliceGradients: the cotangents that come to one value from slices of it.
//
// Each is zero but for its slice, so that adding them up one by one takes as many passes over the whole value as there
// are slices: a sequence that a recurrent layer reads step by step would cost the square of its length. Those of slices
// that lie beside one another are one concatenation instead.
#ifndef HYC_LIB_TRANSFORMS_TRAIN_SLICEGRADIENTS_H
#define HYC_LIB_TRANSFORMS_TRAIN_SLICEGRADIENTS_H

#include "dialects/Hyc/HycDialect.h"
#include "mlir/IR/Builders.h"

namespace hyc::train {

class SliceGradients {
public:
  /// Takes the cotangent of `value` if it is that of a slice along one dimension, nothing else's, and tells so.
  bool collect(mlir::Value value, mlir::Value cotangent);

  /// What has been collected for `value`, to be added up: one tensor for each set of slices of which none overlap.
  /// Forgets them. Pads that nobody reads then stay, since they may be another value's cotangent, too.
  llvm::SmallVector<mlir::Value> join(mlir::Value value, mlir::OpBuilder &builder);

private:
  llvm::DenseMap<mlir::Value, llvm::SmallVector<PadOp>> pieces;
};

} // namespace hyc::train

#endif // HYC_LIB_TRANSFORMS_TRAIN_SLICEGRADIENTS_H
