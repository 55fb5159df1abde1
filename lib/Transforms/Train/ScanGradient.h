// The gradient of a scan: a scan that goes the other way, over the cotangents of what the steps gave and over the
// values that they computed.
#ifndef HYC_LIB_TRANSFORMS_TRAIN_SCANGRADIENT_H
#define HYC_LIB_TRANSFORMS_TRAIN_SCANGRADIENT_H

#include "dialects/Hyc/HycDialect.h"
#include "mlir/IR/Builders.h"

namespace hyc::train {

/// Has every scan of the function stack each value that its steps compute or carry, for gradients to read.
void keepStepValues(FuncOp function);
/// Takes away the stacks that nobody reads, and scans of which nobody reads anything.
void dropUnusedStacks(FuncOp function);

/// As DifferentiableOpInterface::buildGradient, of a scan that keeps its steps' values. What a step adds to the
/// cotangent of an invariant as a product or a sum is one product or sum over all steps behind the scan; anything else
/// is added up from step to step.
llvm::LogicalResult buildScanGradient(ScanOp scan, mlir::OpBuilder &builder, llvm::ArrayRef<mlir::Value> results,
                                      llvm::ArrayRef<bool> wanted, llvm::SmallVectorImpl<mlir::Value> &operands);

} // namespace hyc::train

#endif // HYC_LIB_TRANSFORMS_TRAIN_SCANGRADIENT_H
