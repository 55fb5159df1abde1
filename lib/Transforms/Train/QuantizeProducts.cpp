// QuantizeProducts: products with a parameter multiply 8-bit floats, scaled by what was measured in steps before.
//
// The surprise: only products change. What stands in front of one is scaled, clamped and rounded to an f8 type; what
// comes out is scaled back. Scales are powers of two, so that both are exact and rounding to f8 is the only loss.
#include "TrainingState.h"
#include "dialects/Hyc/DerivedOps.h"
#include "hyc/Transforms/Train/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

namespace hyc {
#define GEN_PASS_DEF_QUANTIZEPRODUCTS
#include "hyc/Transforms/Train/Passes.h.inc"
} // namespace hyc

static Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

/// The one result of an op that only gives its operand another shape or order; else null.
static Value movedFrom(Value value) {
  Operation *def = value.getDefiningOp();
  return isa_and_nonnull<ReshapeOp, TransposeOp>(def) ? def->getOperand(0) : Value();
}

namespace {
/// The states of one quantised tensor.
struct Scaling {
  FlatSymbolRefAttr scale, inverse, amax;
  FloatType type;
};

/// A tensor as products read it.
struct Quantized {
  Value value;
  Scaling scaling;
};

class ProductQuantizer {
public:
  ProductQuantizer(FuncOp function, int64_t history)
      : function(function), module(function->getParentOfType<ModuleOp>()), states(module), history(history) {}

  void run();

  uint64_t products = 0, tensors = 0;

private:
  // Which products.
  bool isParameter(Value value);
  /// The operand that is a parameter, of a forward product that has one and is not the model's last; -1 for others.
  int parameterOperand(EinsumOp op);
  bool endsInLoss(EinsumOp op);
  bool isGradientOfParameter(EinsumOp op);
  void collect();

  // What stands around one.
  const Scaling &scalingOf(Value value, const Twine &name, FloatType type);
  void measure(Value value, DerivedOps &build, OpBuilder &builder, const Scaling &scaling);
  Quantized quantize(Value value, DerivedOps &build, const Scaling &scaling);
  Quantized forwardOperand(EinsumOp op, unsigned index);
  Quantized backwardOperand(EinsumOp op, unsigned index);
  Value broadcastOf(DerivedOps &build, const Twine &suffix, FlatSymbolRefAttr state, RankedTensorType type);
  void replace(EinsumOp op, const Quantized &lhs, const Quantized &rhs);
  StateOp addState(const Twine &name, StateRole role, RankedTensorType type, double first);

  /// Marks the ops between the two as backward's.
  void markBackward(Operation *after, Operation *before);

  FuncOp function;
  ModuleOp module;
  StateMaker states;
  int64_t history;
  SmallVector<EinsumOp> forward;
  llvm::SetVector<Operation *> backward;
  llvm::DenseSet<Value> activations; ///< operands of forward products
  llvm::MapVector<Value, Scaling> scalings;
  llvm::DenseMap<Value, Quantized> ofForward, ofBackward; ///< by the tensor that is quantised
};
} // namespace

//===----------------------------------------------------------------------===//
// Which products
//===----------------------------------------------------------------------===//

/// Whether a value is a parameter's copy in the compute type, itself or in another shape.
bool ProductQuantizer::isParameter(Value value) {
  while (Value source = movedFrom(value))
    value = source;
  auto read = value.getDefiningOp<ReadOp>();
  auto state = read ? states.lookup<StateOp>(read.getSource()) : StateOp();
  return state && state.is(StateRole::compute);
}

int ProductQuantizer::parameterOperand(EinsumOp op) {
  bool ofLhs = isParameter(op.getLhs()), ofRhs = isParameter(op.getRhs());
  bool isNarrow = isHalfWidth(elementOf(op.getLhs())) && isHalfWidth(elementOf(op.getRhs()));
  if (isBackward(op) || !isNarrow || ofLhs == ofRhs)
    return -1;
  return ofLhs ? 0 : 1;
}

/// Whether some way from this product to the loss meets no other one with a parameter: small differences of logits are
/// large ones of the loss, and no later layer can make them good.
bool ProductQuantizer::endsInLoss(EinsumOp op) {
  SmallVector<Operation *> work{op};
  llvm::DenseSet<Operation *> seen{op};
  while (!work.empty())
    for (Operation *user : work.pop_back_val()->getUsers()) {
      if (isBackward(user) || !seen.insert(user).second)
        continue;
      auto accumulate = dyn_cast<AccumulateOp>(user);
      auto state = accumulate ? states.lookup<StateOp>(accumulate.getTarget()) : StateOp();
      if (state && state.is(StateRole::lossSum))
        return true;
      auto product = dyn_cast<EinsumOp>(user);
      if (!product || parameterOperand(product) < 0)
        work.push_back(user);
    }
  return false;
}

/// Whether all that becomes of a product is a parameter's gradient.
bool ProductQuantizer::isGradientOfParameter(EinsumOp op) {
  SmallVector<Value> work{op.getResult()};
  while (!work.empty())
    for (Operation *user : work.pop_back_val().getUsers()) {
      if (isa<ReshapeOp, TransposeOp>(user)) {
        work.push_back(user->getResult(0));
        continue;
      }
      auto accumulate = dyn_cast<AccumulateOp>(user);
      auto state = accumulate ? states.lookup<StateOp>(accumulate.getTarget()) : StateOp();
      if (!state || !state.is(StateRole::gradient))
        return false;
    }
  return true;
}

void ProductQuantizer::collect() {
  llvm::DenseSet<Value> parameters;
  for (auto op : function.getBody().front().getOps<EinsumOp>()) {
    int parameter = parameterOperand(op);
    if (parameter < 0 || endsInLoss(op))
      continue;
    forward.push_back(op);
    parameters.insert(op->getOperand(parameter));
    activations.insert(op->getOperand(1 - parameter));
  }
  for (auto op : function.getBody().front().getOps<EinsumOp>()) {
    if (!isBackward(op))
      continue;
    Value operands[] = {op.getLhs(), op.getRhs()};
    if (!llvm::all_of(operands, [](Value operand) { return isHalfWidth(elementOf(operand)); }))
      continue;
    bool ofParameter = llvm::any_of(operands, [&](Value operand) { return parameters.contains(operand); });
    bool ofActivation = llvm::any_of(operands, [&](Value operand) { return activations.contains(operand); });
    if (ofParameter || (ofActivation && isGradientOfParameter(op)))
      backward.insert(op);
  }
}

//===----------------------------------------------------------------------===//
// What stands around a product
//===----------------------------------------------------------------------===//

StateOp ProductQuantizer::addState(const Twine &name, StateRole role, RankedTensorType type, double first) {
  StateOp state = states.create(name, role, type);
  state.setInitAttr(FillAttr::get(module.getContext(), Builder(module).getF64FloatAttr(first)));
  return state;
}

/// The states of a tensor, called `name`, that is kept as `type`.
const Scaling &ProductQuantizer::scalingOf(Value value, const Twine &name, FloatType type) {
  auto [entry, isNew] = scalings.try_emplace(value);
  if (!isNew)
    return entry->second;
  Builder builder(module);
  auto scalar = RankedTensorType::get({}, builder.getF32Type());
  StateOp scale = addState(name + ".scale", StateRole::fp8Scale, scalar, 1);
  StateOp inverse = addState(name + ".inverse", StateRole::fp8Inverse, scalar, 1);
  StateOp amax = addState(name + ".amax", StateRole::fp8Amax, scalar, 0);
  StateOp past =
      addState(name + ".history", StateRole::fp8History, RankedTensorType::get({history}, builder.getF32Type()), 0);
  double largest = APFloat::getLargest(type.getFloatSemantics()).convertToDouble();
  scale->setAttr(kFp8Largest, builder.getF64FloatAttr(largest));
  scale->setAttr(kFp8States, builder.getArrayAttr({FlatSymbolRefAttr::get(inverse), FlatSymbolRefAttr::get(past),
                                                   FlatSymbolRefAttr::get(amax)}));
  ++tensors;
  return entry->second = {FlatSymbolRefAttr::get(scale), FlatSymbolRefAttr::get(inverse), FlatSymbolRefAttr::get(amax),
                          type};
}

/// A number that a state holds, everywhere in a tensor of `type`. Each reader has its own, so that an open sum that is
/// scaled has no other user.
Value ProductQuantizer::broadcastOf(DerivedOps &build, const Twine &suffix, FlatSymbolRefAttr state,
                                    RankedTensorType type) {
  auto wide = RankedTensorType::get(type.getShape(), Float32Type::get(module.getContext()));
  Value number = build.create<ReadOp>(suffix, RankedTensorType::get({}, wide.getElementType()), state);
  Value everywhere = build.create<BroadcastOp>(suffix + ".everywhere", wide, number, ArrayRef<int64_t>());
  return wide == type ? everywhere : Value(build.create<ConvertOp>(suffix + ".rounded", type, everywhere));
}

/// The greatest magnitude of this step.
void ProductQuantizer::measure(Value value, DerivedOps &build, OpBuilder &builder, const Scaling &scaling) {
  auto type = cast<RankedTensorType>(value.getType());
  Value magnitude = build.create<AbsOp>(".magnitude", value);
  auto greatest = RankedTensorType::get({}, builder.getF32Type());
  Value amax = build.create<ReduceOp>(".greatest", greatest, ReductionKind::max, magnitude,
                                      llvm::to_vector(llvm::seq<int64_t>(0, type.getRank())));
  build.create<AccumulateOp>(".measure", amax, scaling.amax, builder.getUnitAttr());
}

Quantized ProductQuantizer::quantize(Value value, DerivedOps &build, const Scaling &scaling) {
  auto type = cast<RankedTensorType>(value.getType());
  double largest = APFloat::getLargest(scaling.type.getFloatSemantics()).convertToDouble();
  Value scaled = build.mul(".scaled", value, broadcastOf(build, ".scale", scaling.scale, type));
  Value below = build.create<MinOp>(".below", scaled, build.splat(".greatest_value", type, largest));
  Value clamped = build.create<MaxOp>(".clamped", below, build.splat(".least_value", type, -largest));
  auto narrow = RankedTensorType::get(type.getShape(), scaling.type);
  return {build.create<ConvertOp>("", narrow, clamped), scaling};
}

void ProductQuantizer::markBackward(Operation *after, Operation *before) {
  for (Operation *op = after ? after->getNextNode() : &before->getBlock()->front(); op != before;
       op = op->getNextNode())
    op->setAttr(kBackward, UnitAttr::get(module.getContext()));
}

/// In front of a product of forward. A parameter is measured last, so that who gathers its parts for the measurement
/// and for the product right after it gathers them once (hyc-partition).
Quantized ProductQuantizer::forwardOperand(EinsumOp op, unsigned index) {
  Value value = op->getOperand(index);
  auto entry = ofForward.find(value);
  if (entry != ofForward.end())
    return entry->second;
  bool ofParameter = static_cast<int>(index) == parameterOperand(op);
  std::string infix = ofParameter ? ".fp8.w" : ".fp8.x";
  OpBuilder builder(op);
  DerivedOps build(builder, op, infix);
  const Scaling &scaling = scalingOf(value, getId(op) + infix, Float8E4M3FNType::get(module.getContext()));
  Quantized result = quantize(value, build, scaling);
  measure(value, build, builder, scaling);
  return ofForward[value] = result;
}

/// In front of a product of backward: a cotangent; a parameter, which is quantised again, since kept from forward it
/// would be there twice; or an activation, which forward keeps in 8 bits unless backward wants it in 16 as well.
Quantized ProductQuantizer::backwardOperand(EinsumOp op, unsigned index) {
  Value value = op->getOperand(index);
  auto scaled = scalings.find(value);
  bool isForward = ofForward.contains(value);
  bool isKept = isForward && !isParameter(value) && llvm::none_of(value.getUsers(), [&](Operation *user) {
                  return isBackward(user) && !backward.contains(user);
                });
  if (isKept)
    return ofForward[value];
  auto entry = ofBackward.find(value);
  if (entry != ofBackward.end())
    return entry->second;
  OpBuilder builder(op);
  Operation *before = op->getPrevNode();
  std::string infix = !isForward ? ".fp8.g" : isParameter(value) ? ".fp8.w" : ".fp8.x";
  DerivedOps build(builder, op, infix);
  Quantized result;
  if (isForward) {
    result = quantize(value, build, scaled->second);
  } else {
    const Scaling &scaling = scalingOf(value, getId(op) + infix, Float8E5M2Type::get(module.getContext()));
    result = quantize(value, build, scaling);
    measure(value, build, builder, scaling);
  }
  markBackward(before, op);
  return ofBackward[value] = result;
}

/// Scaled back in the type of the result, which loses nothing: the scales are powers of two within 2^±63.
void ProductQuantizer::replace(EinsumOp op, const Quantized &lhs, const Quantized &rhs) {
  op.getLhsMutable().assign(lhs.value);
  op.getRhsMutable().assign(rhs.value);
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  Operation *next = op->getNextNode();
  auto type = cast<RankedTensorType>(op.getType());
  DerivedOps build(builder, op, ".fp8");
  SmallVector<OpOperand *> uses = llvm::map_to_vector(op->getUses(), [](OpOperand &use) { return &use; });
  Value result = op.getResult();
  result = build.mul(".half", result, broadcastOf(build, ".inverse.lhs", lhs.scaling.inverse, type));
  result = build.mul(".result", result, broadcastOf(build, ".inverse.rhs", rhs.scaling.inverse, type));
  for (OpOperand *use : uses)
    use->set(result);
  if (isBackward(op))
    markBackward(op, next);
  ++products;
}

void ProductQuantizer::run() {
  collect();
  for (EinsumOp op : forward) {
    int parameter = parameterOperand(op);
    Quantized operands[2];
    operands[1 - parameter] = forwardOperand(op, 1 - parameter);
    operands[parameter] = forwardOperand(op, parameter);
    replace(op, operands[0], operands[1]);
  }
  for (Operation *op : backward) {
    auto product = cast<EinsumOp>(op);
    Quantized lhs = backwardOperand(product, 0), rhs = backwardOperand(product, 1);
    replace(product, lhs, rhs);
  }
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct QuantizeProducts : hyc::impl::QuantizeProductsBase<QuantizeProducts> {
  using QuantizeProductsBase::QuantizeProductsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FuncOp function = findFunction(module, kMicrobatch, "expected a differentiated model; run hyc-differentiate first");
    if (!function)
      return signalPassFailure();
    if (int64_t steps = history; steps < 1 || steps > 1 << 20) {
      module.emitError("the amax history has ") << steps << " steps, expected at least 1 and at most " << (1 << 20);
      return signalPassFailure();
    }
    ProductQuantizer quantizer(function, history);
    quantizer.run();
    products += quantizer.products;
    tensors += quantizer.tensors;
    if (quantizer.products > 0)
      return;
    module.emitError("--precision is fp8, but no product would be one of fp8: this model has none with a parameter in "
                     "front of its last; compute in bf16");
    signalPassFailure();
  }
};
} // namespace
