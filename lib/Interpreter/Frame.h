// Frame: one activation of a hyc.func. It executes one op at a time, so that many ranks can take turns.
#ifndef HYC_LIB_INTERPRETER_FRAME_H
#define HYC_LIB_INTERPRETER_FRAME_H

#include "Ops/OpTable.h"
#include "dialects/Hyc/HycDialect.h"

namespace hyc::interpreter {

class Frame {
public:
  /// `device` outlives the frame.
  Frame(FuncOp function, Device &device)
      : function(function), device(&device), op(&function.getBody().front().front()) {}

  /// Checks shapes, converts floats to the device's arithmetic, and binds; a diagnostic at the function otherwise.
  llvm::LogicalResult bind(llvm::ArrayRef<Tensor> arguments);

  FuncOp getFunction() const { return function; }
  mlir::Operation *current() const { return op; }
  bool isDone() const { return llvm::isa<ReturnOp>(op); }

  /// Executes the current op, which is not the return, and moves on.
  llvm::LogicalResult step();
  /// Moves on past the current op, whose results somebody else has computed; `results` may be fewer (tokens).
  llvm::LogicalResult complete(llvm::ArrayRef<Tensor> results);

  const Tensor &valueOf(mlir::Value value) const { return values.find(value)->second; }
  /// The operands of the return.
  llvm::SmallVector<Tensor> getResults() const;

private:
  void releaseOperands();

  FuncOp function;
  Device *device;
  mlir::Operation *op;
  llvm::DenseMap<mlir::Value, Tensor> values;
  llvm::DenseMap<mlir::Value, int64_t> usesLeft;
};

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_FRAME_H
