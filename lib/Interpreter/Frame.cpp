// Frame's stepping, and the table of handlers it steps through. Values are dropped at their last use.
#include "Frame.h"

using namespace mlir;
using namespace hyc::interpreter;

std::optional<ElementKind> hyc::interpreter::elementKind(Type elementType, Arithmetic arithmetic) {
  if (elementType.isF32())
    return arithmetic == Arithmetic::Wide ? ElementKind::F64 : ElementKind::F32;
  if (elementType.isF64())
    return ElementKind::F64;
  if (elementType.isBF16() || elementType.isF16())
    return arithmetic == Arithmetic::Wide ? ElementKind::F64
           : elementType.isBF16()         ? ElementKind::BF16
                                          : ElementKind::F16;
  if (hyc::isFloat8(elementType))
    return arithmetic == Arithmetic::Wide       ? ElementKind::F64
           : isa<Float8E4M3FNType>(elementType) ? ElementKind::F8E4M3
                                                : ElementKind::F8E5M2;
  if (elementType.isSignlessInteger(64))
    return ElementKind::I64;
  if (elementType.isSignlessInteger(32))
    return ElementKind::I32;
  if (elementType.isUnsignedInteger(8))
    return ElementKind::U8;
  return elementType.isSignlessInteger(1) ? std::optional(ElementKind::I1) : std::nullopt;
}

const OpTable &OpTable::get() {
  static const OpTable table = [] {
    OpTable filled;
    addElementwiseOps(filled);
    addShapeOps(filled);
    addWindowOps(filled);
    addIndexOps(filled);
    addCompositeOps(filled);
    addExpertOps(filled);
    addLoopOps(filled);
    addNormOps(filled);
    addQuantizedOps(filled);
    addRandomOps(filled);
    addLossOps(filled);
    addStateOps(filled);
    addUpdateOps(filled);
    addCoordinateOps(filled);
    return filled;
  }();
  return table;
}

/// Whether the interpreter can hold a value of `type`; otherwise why not.
static LogicalResult checkType(Operation *op, Type type, Arithmetic arithmetic) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return op->emitError("the interpreter executes static tensors, not ") << type;
  if (!elementKind(tensor.getElementType(), arithmetic))
    return op->emitError(
               "the interpreter computes with f32, f64, bf16, f16, f8E4M3FN, f8E5M2, i64, i32, ui8 and i1, not with ")
           << tensor;
  if (!countElements(tensor.getShape()))
    return op->emitError("the interpreter holds at most 2^31 elements, but the type is ") << tensor;
  return success();
}

LogicalResult Frame::bind(ArrayRef<Tensor> arguments) {
  Block &body = function.getBody().front();
  if (arguments.size() != body.getNumArguments())
    return function.emitError("@") << function.getSymName() << " is called with " << arguments.size()
                                   << " arguments, expected " << body.getNumArguments();
  Arithmetic arithmetic = device->options.arithmetic;
  for (auto [index, argument] : llvm::enumerate(arguments)) {
    BlockArgument value = body.getArgument(index);
    if (failed(checkType(function, value.getType(), arithmetic)))
      return failure();
    auto type = cast<RankedTensorType>(value.getType());
    ElementKind kind = *elementKind(type.getElementType(), arithmetic);
    bool fits = argument && argument.getShape() == type.getShape() &&
                (argument.getKind() == kind || (isFloat(argument.getKind()) && isFloat(kind)));
    if (!fits)
      return function.emitError("argument ")
             << index << " of @" << function.getSymName() << " is " << (argument ? argument.describeType() : "missing")
             << ", expected " << type;
    values[value] = argument.converted(kind);
  }
  return success();
}

/// "hyc.einsum gave tensor<2xf32>": the interpreter's own mistake, but told, not asserted.
static LogicalResult checkResult(Operation *op, Value expected, const Tensor &result, Arithmetic arithmetic) {
  auto type = cast<RankedTensorType>(expected.getType());
  if (result && result.getShape() == type.getShape() &&
      result.getKind() == *elementKind(type.getElementType(), arithmetic))
    return success();
  return op->emitError("the interpreter computed ")
         << (result ? result.describeType() : "nothing") << ", but the result is " << type;
}

LogicalResult Frame::step() {
  OpHandler handler = OpTable::get().find(op);
  if (!handler)
    return op->emitError("the interpreter cannot execute '") << op->getName() << "' here";
  for (Type type : op->getResultTypes())
    if (failed(checkType(op, type, device->options.arithmetic)))
      return failure();
  SmallVector<Tensor> operands, results;
  for (Value operand : op->getOperands())
    operands.push_back(valueOf(operand));
  OpCall call{op, operands, results, *device};
  if (failed(handler(call)))
    return failure();
  return complete(results);
}

LogicalResult Frame::complete(ArrayRef<Tensor> results) {
  for (auto [value, result] : llvm::zip(op->getResults(), results)) {
    if (failed(checkResult(op, value, result, device->options.arithmetic)))
      return failure();
    if (value.use_empty())
      continue;
    Tensor &kept = values[value] = result;
    kept.roundElements();
  }
  releaseOperands();
  op = op->getNextNode();
  return success();
}

void Frame::releaseOperands() {
  for (Value operand : op->getOperands()) {
    auto [entry, isNew] = usesLeft.try_emplace(operand, 0);
    if (isNew)
      entry->second = std::distance(operand.use_begin(), operand.use_end());
    if (--entry->second == 0)
      values.erase(operand);
  }
}

SmallVector<Tensor> Frame::getResults() const {
  SmallVector<Tensor> results;
  for (Value operand : op->getOperands())
    results.push_back(valueOf(operand));
  return results;
}
