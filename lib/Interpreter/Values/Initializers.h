// First values of params and states.
#ifndef HYC_LIB_INTERPRETER_VALUES_INITIALIZERS_H
#define HYC_LIB_INTERPRETER_VALUES_INITIALIZERS_H

#include "dialects/Hyc/HycDialect.h"
#include "hyc/Interpreter/Device.h"
#include "mlir/IR/Operation.h"
#include "llvm/Support/LogicalResult.h"

namespace hyc::interpreter {

/// The whole first value of a hyc.param or hyc.state, whatever part of it one rank holds, as its `init` says.
llvm::FailureOr<Tensor> initialValue(mlir::Operation *symbol, const Options &options);

/// The value of `type` that `init` describes; `name` keys random values, diagnostics are at `op`.
llvm::FailureOr<Tensor> initialValue(mlir::Operation *op, llvm::StringRef name, mlir::RankedTensorType type,
                                     mlir::Attribute init, const Options &options);

/// The same for a copy of `parameter`, whose values `init` describes in f32: rounded to the copy's type.
llvm::FailureOr<Tensor> initialCopy(mlir::Operation *op, llvm::StringRef parameter, mlir::RankedTensorType type,
                                    mlir::Attribute init, const Options &options);

/// What `init` makes of a weight, as `type`.
llvm::FailureOr<Tensor> partOfWeight(mlir::Operation *op, OfWeightAttr init, mlir::RankedTensorType type,
                                     const Options &options);

/// The elements of a constant. Fails after a diagnostic at `op` where they are not dense.
llvm::FailureOr<Tensor> denseValue(mlir::Operation *op, mlir::Attribute elements, Arithmetic arithmetic);

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_VALUES_INITIALIZERS_H
