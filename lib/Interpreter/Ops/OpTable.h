// How the interpreter finds the code that executes an op: a table from the op's class, or from its name, to a handler,
// filled by one function a topic.
#ifndef HYC_LIB_INTERPRETER_OPS_OPTABLE_H
#define HYC_LIB_INTERPRETER_OPS_OPTABLE_H

#include "hyc/Interpreter/Device.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/LogicalResult.h"

namespace hyc::interpreter {

/// One execution of one op. Operands are of the kinds and shapes that the IR says; results must be too.
struct OpCall {
  mlir::Operation *op;
  llvm::ArrayRef<Tensor> operands;
  llvm::SmallVectorImpl<Tensor> &results;
  Device &device;

  /// Kind and shape of result `index`; the caller has checked that the interpreter knows its element type.
  ElementKind resultKind(unsigned index = 0) const {
    auto type = llvm::cast<mlir::RankedTensorType>(op->getResult(index).getType());
    return *elementKind(type.getElementType(), device.options.arithmetic);
  }
  llvm::ArrayRef<int64_t> resultShape(unsigned index = 0) const {
    return llvm::cast<mlir::RankedTensorType>(op->getResult(index).getType()).getShape();
  }
  Tensor makeResult(unsigned index = 0) const { return Tensor(resultKind(index), resultShape(index)); }
};

/// Appends the results, or fails after a diagnostic at the op.
using OpHandler = llvm::LogicalResult (*)(OpCall &call);

class OpTable {
public:
  /// All ops that compute on one device. Exchanges are not among them.
  static const OpTable &get();

  OpHandler find(mlir::Operation *op) const {
    if (OpHandler handler = handlers.lookup(op->getName().getTypeID()))
      return handler;
    return ofNames.lookup(op->getName().getStringRef());
  }
  template <typename OpTy> void add(OpHandler handler) { handlers[mlir::TypeID::get<OpTy>()] = handler; }
  /// Of the op of this name, with its dialect's, unless its class has a handler.
  void add(llvm::StringRef name, OpHandler handler) { ofNames[name] = handler; }

private:
  llvm::DenseMap<mlir::TypeID, OpHandler> handlers;
  llvm::StringMap<OpHandler> ofNames;
};

void addElementwiseOps(OpTable &table);
void addShapeOps(OpTable &table);
void addWindowOps(OpTable &table);
void addIndexOps(OpTable &table);
void addCompositeOps(OpTable &table);
void addExpertOps(OpTable &table);
void addLoopOps(OpTable &table);
void addNormOps(OpTable &table);
void addQuantizedOps(OpTable &table);
void addRandomOps(OpTable &table);
void addLossOps(OpTable &table);
void addStateOps(OpTable &table);
void addUpdateOps(OpTable &table);
void addCoordinateOps(OpTable &table);

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_OPS_OPTABLE_H
