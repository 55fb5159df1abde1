// Parameters, state and functions: verifiers, symbol checks, and the textual form of hyc.func.
#include "dialects/Hyc/HycDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionImplementation.h"

#include <cmath>

using namespace mlir;
using namespace hyc;

//===----------------------------------------------------------------------===//
// param and state
//===----------------------------------------------------------------------===//

static LogicalResult verifyStatic(Operation *op, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (tensor && tensor.hasStaticShape())
    return success();
  return op->emitOpError("has type ") << type << ", expected a ranked tensor with static dimensions";
}

static int64_t product(ArrayRef<int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  return count;
}

LogicalResult ParamOp::verify() {
  if (failed(verifyStatic(*this, getType())))
    return failure();
  if (std::optional<ArrayRef<int64_t>> shape = getShape())
    if (product(*shape) != getWholeType().getNumElements())
      return emitOpError("states a shape of ") << product(*shape) << " elements, but its type " << getWholeType()
                                               << " has " << getWholeType().getNumElements();
  if (auto parts = dyn_cast<PartsAttr>(getInit())) {
    int64_t count = 0;
    for (PartAttr part : parts.getParts())
      count += part.getNumElements();
    if (count != getWholeType().getNumElements())
      return emitOpError("starts from parts of ") << count << " elements together, but its type " << getWholeType()
                                                  << " has " << getWholeType().getNumElements();
  }
  return success();
}

SmallVector<int64_t> ParamOp::getLogicalShape() {
  if (std::optional<ArrayRef<int64_t>> shape = getShape())
    return llvm::to_vector(*shape);
  return llvm::to_vector(getWholeType().getShape());
}

LogicalResult StateOp::verify() { return verifyStatic(*this, getType()); }

/// Whether a state may be one of a parameter: of its shape, but for two codes a byte along the last dimension.
static bool isOfShape(StateOp state, ArrayRef<int64_t> param) {
  ArrayRef<int64_t> shape = state.getWholeType().getShape();
  if (shape == param)
    return true;
  return state.is(StateRole::codes) && shape.size() == param.size() && !shape.empty() &&
         shape.drop_back() == param.drop_back() && shape.back() * 2 == param.back();
}

namespace {
/// Checks `state.param` by the module's table of symbols. Searching the module for each of thousands of parameters,
/// after every pass, takes longer than planning does.
struct StateSymbolUses : SymbolUserOpInterface::ExternalModel<StateSymbolUses, StateOp> {
  LogicalResult verifySymbolUses(Operation *op, SymbolTableCollection &symbols) const {
    auto state = cast<StateOp>(op);
    if (!state.getParamAttr())
      return success();
    auto param = symbols.lookupNearestSymbolFrom<ParamOp>(op, state.getParamAttr());
    if (!param)
      return state.emitOpError("belongs to ") << state.getParamAttr() << ", which is no hyc.param";
    if (!isOfShape(state, param.getWholeType().getShape()))
      return (state.emitOpError("has type ") << state.getWholeType() << ", but its parameter " << state.getParamAttr()
                                             << " has type " << param.getWholeType())
                 .attachNote(param.getLoc())
             << "parameter declared here";
    return success();
  }
};
} // namespace

namespace hyc {
void attachSymbolUses(MLIRContext &context);
} // namespace hyc

void hyc::attachSymbolUses(MLIRContext &context) { StateOp::attachInterface<StateSymbolUses>(context); }

//===----------------------------------------------------------------------===//
// Uses of state
//===----------------------------------------------------------------------===//

/// The tensor type of the param or state that `name` stands for, or null after a diagnostic.
static RankedTensorType lookupType(SymbolTableCollection &symbols, Operation *user, FlatSymbolRefAttr name) {
  Operation *target = symbols.lookupNearestSymbolFrom(user, name);
  if (auto param = dyn_cast_or_null<ParamOp>(target))
    return param.getTensorType();
  if (auto state = dyn_cast_or_null<StateOp>(target))
    return state.getTensorType();
  user->emitOpError("names ") << name << ", which is no hyc.param or hyc.state";
  return {};
}

/// Whether `op` works on this rank's flat shards of states (phase 4): the types it names may then be those of shards.
/// What size they have is the dist dialect's business, which this one does not know.
static bool isOfShards(Operation *op) { return op->hasAttr("dist.flat"); }

static LogicalResult verifyUse(SymbolTableCollection &symbols, Operation *user, FlatSymbolRefAttr name, Type used) {
  RankedTensorType declared = lookupType(symbols, user, name);
  if (!declared)
    return failure();
  if (declared == used)
    return success();
  auto shard = dyn_cast<RankedTensorType>(used);
  if (isOfShards(user) && shard && shard.getRank() == 1 && shard.getElementType() == declared.getElementType())
    return success();
  return user->emitOpError("uses ") << name << " as " << used << ", but it is declared as " << declared;
}

LogicalResult ReadOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyUse(symbols, *this, getSourceAttr(), getResult().getType());
}
LogicalResult WriteOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyUse(symbols, *this, getTargetAttr(), getValue().getType());
}
LogicalResult AccumulateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyUse(symbols, *this, getTargetAttr(), getValue().getType());
}
LogicalResult IncrementOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyUse(symbols, *this, getStateAttr(), getResult().getType());
}

static bool isExactSum(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getRank() == 1 && tensor.getDimSize(0) == kExactSumLimbs && tensor.getElementType().isInteger(64);
}

LogicalResult SumOfSquaresOp::verify() {
  auto result = cast<RankedTensorType>(getResult().getType());
  if (isExactSum(result) || (result.getRank() == 0 && result.getElementType().isF64()))
    return success();
  return emitOpError("[sum_of_squares.result] gives ")
         << result << ", expected tensor<f64> or tensor<" << kExactSumLimbs << "xi64>";
}

LogicalResult RoundSumOp::verify() {
  auto result = cast<RankedTensorType>(getResult().getType());
  if (isExactSum(getSum().getType()) && result.getRank() == 0 && result.getElementType().isF64())
    return success();
  return emitOpError("[round_sum.operand] rounds ")
         << getSum().getType() << " to " << result << ", expected tensor<" << kExactSumLimbs << "xi64> to tensor<f64>";
}

LogicalResult SumOfSquaresOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (auto name : getStates().getAsRange<FlatSymbolRefAttr>())
    if (!lookupType(symbols, *this, name))
      return failure();
  return success();
}

/// Every state of an update belongs to a whole of the shape of the first one, the parameter; what one rank holds of
/// each may differ.
LogicalResult hyc::verifyUpdate(SymbolTableCollection &symbols, Operation *op, ArrayRef<FlatSymbolRefAttr> names) {
  RankedTensorType first;
  for (FlatSymbolRefAttr name : names) {
    if (!lookupType(symbols, op, name))
      return failure();
    Operation *symbol = symbols.lookupNearestSymbolFrom(op, name);
    auto param = dyn_cast<ParamOp>(symbol);
    RankedTensorType type = param ? param.getWholeType() : cast<StateOp>(symbol).getWholeType();
    if (!first)
      first = type;
    if (type.getShape() != first.getShape())
      return op->emitOpError("updates ") << names[0] << " of type " << first << " with " << name << " of type " << type;
  }
  return success();
}

SmallVector<NamedAttribute> hyc::numbersOf(Operation *op) {
  return llvm::to_vector(llvm::make_filter_range(
      op->getAttrs(), [](NamedAttribute attribute) { return isa<FloatAttr, UnitAttr>(attribute.getValue()); }));
}

/// Without a velocity there is no momentum.
SmallVector<NamedAttribute> SgdOp::getNumbers() {
  SmallVector<NamedAttribute> numbers = numbersOf(*this);
  if (!getVelocityAttr())
    llvm::erase_if(numbers, [&](NamedAttribute number) { return number.getName() == getMomentumAttrName(); });
  return numbers;
}

LogicalResult TrustRatioOp::verify() {
  double least = getLeast().convertToDouble(), most = getMost().convertToDouble();
  if (least >= 0 && least <= most)
    return success();
  return emitOpError("[trust_ratio.bounds] is between ") << least << " and " << most << ", expected 0 ≤ least ≤ most";
}

LogicalResult RefreshOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyUpdate(symbols, *this, {getCopyAttr(), getParamAttr()});
}

LogicalResult UpdateLossScaleOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyUpdate(symbols, *this, {getScaleAttr(), getGoodStepsAttr(), getHysteresisLeftAttr()});
}

LogicalResult UpdateFp8ScaleOp::verify() {
  double largest = getLargest().convertToDouble();
  if (largest > 0 && std::isfinite(largest))
    return success();
  return emitOpError("[update_fp8_scale.largest] has ") << largest << ", expected a number above 0";
}

LogicalResult UpdateFp8ScaleOp::verifySymbolUses(SymbolTableCollection &symbols) {
  for (FlatSymbolRefAttr name : {getScaleAttr(), getInverseAttr(), getHistoryAttr(), getAmaxAttr()}) {
    RankedTensorType type = lookupType(symbols, *this, name);
    if (!type)
      return failure();
    int64_t dimensions = name == getHistoryAttr() ? 1 : 0;
    if (type.getRank() != dimensions || !type.getElementType().isF32() || type.getNumElements() == 0)
      return emitOpError("[update_fp8_scale.types] names ")
             << name << " of type " << type << ", expected "
             << (dimensions == 1 ? "one dimension of f32" : "tensor<f32>");
  }
  return success();
}

//===----------------------------------------------------------------------===//
// func
//===----------------------------------------------------------------------===//

void FuncOp::build(OpBuilder &builder, OperationState &state, StringRef name, FunctionType type) {
  state.addAttribute(SymbolTable::getSymbolAttrName(), builder.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(type));
  Block &entry = state.addRegion()->emplaceBlock();
  for (Type input : type.getInputs())
    entry.addArgument(input, state.location);
}

ReturnOp FuncOp::getReturn() { return cast<ReturnOp>(getBody().front().getTerminator()); }

ParseResult FuncOp::parse(OpAsmParser &parser, OperationState &result) {
  auto makeType = [](Builder &builder, ArrayRef<Type> inputs, ArrayRef<Type> results,
                     function_interface_impl::VariadicFlag,
                     std::string &) { return builder.getFunctionType(inputs, results); };
  return function_interface_impl::parseFunctionOp(parser, result, /*allowVariadic=*/false,
                                                  getFunctionTypeAttrName(result.name), makeType,
                                                  getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void FuncOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
                                           getArgAttrsAttrName(), getResAttrsAttrName());
}

LogicalResult ReturnOp::verify() {
  auto func = cast<FuncOp>((*this)->getParentOp());
  if (func.getResultTypes() == getOperandTypes())
    return success();
  return emitOpError("returns (") << getOperandTypes() << "), but @" << func.getSymName() << " has results ("
                                  << func.getResultTypes() << ")";
}
