// The losses that are attached to a model's output, as sums over what a micro-batch counts: the mean is taken over the
// whole step, whatever it is split into.
#ifndef HYC_LIB_TRANSFORMS_TRAIN_LOSSSUMS_H
#define HYC_LIB_TRANSFORMS_TRAIN_LOSSSUMS_H

#include "dialects/Hyc/HycDialect.h"
#include "mlir/IR/Builders.h"

namespace hyc::train {

/// Scalars; all ops that make them have ids under "loss".
struct LossSums {
  mlir::Value lossSum; ///< f32
  mlir::Value count;   ///< i64: what the mean is over
  mlir::Value correct; ///< i64: how many of `count` were predicted right; null where nobody asked
};

/// i64.
mlir::Value countOf(mlir::OpBuilder &builder, mlir::Location loc, int64_t number);

/// Of scores (…, classes) against classes (…), as hyc.cross_entropy has it. A position is right where no class has a
/// higher score than its label.
LossSums sumCrossEntropy(mlir::OpBuilder &builder, mlir::Value scores, mlir::Value labels, int64_t ignoreIndex,
                         bool countsCorrect);

/// Σ (x - y)² over the elements of two tensors of one shape, in f32 whatever the precision.
LossSums sumSquaredError(mlir::OpBuilder &builder, mlir::Value predictions, mlir::Value targets);

/// Σ log(1 + e^x) - x y over the elements, in f32 whatever the precision: the cross entropy between the probability
/// sigmoid(x) and y in [0, 1] (PyTorch's BCEWithLogitsLoss). An element is right where both are on one side of one
/// half.
LossSums sumBinaryCrossEntropy(mlir::OpBuilder &builder, mlir::Value scores, mlir::Value targets, bool countsCorrect);

} // namespace hyc::train

#endif // HYC_LIB_TRANSFORMS_TRAIN_LOSSSUMS_H
