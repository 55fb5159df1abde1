// ConvertPrecision: @microbatch computes in bf16 or f16, and what needs f32 keeps it.
//
// A value is narrow (of the compute type), wide (f32), or flexible: what depends on parameters, constants and integers
// alone takes the type that each of its users wants, so that a weight is read from its copy and the scale of a norm
// from the master. The surprise: where both kinds meet in an elementwise op, forward goes on in f32 and backward in the
// compute type; otherwise one statistic would make every cotangent after it wide.
//
// 16 bits cannot count: bf16 takes 1001 for 1000. Arithmetic on numbers that were integers is therefore done in f32 and
// rounded once, where somebody wants it narrow, and so are products of positions with constants.
#include "TrainingState.h"
#include "hyc/Transforms/Train/Passes.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SmallVectorExtras.h"

#include <cmath>

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

namespace hyc {
#define GEN_PASS_DEF_CONVERTPRECISION
#include "hyc/Transforms/Train/Passes.h.inc"
} // namespace hyc

/// What the op says of itself; one that says nothing stays f32.
static PrecisionRule ruleOf(Operation *op) {
  auto ruled = dyn_cast<PrecisionOpInterface>(op);
  return ruled && !op->hasAttr(train::kWide) ? ruled.getPrecisionRule() : PrecisionRule::wide();
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

static Type elementOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

static RankedTensorType withElement(Type type, Type element) {
  return RankedTensorType::get(cast<RankedTensorType>(type).getShape(), element);
}

/// "bf16"
static std::string nameOf(Type element) {
  std::string text;
  llvm::raw_string_ostream(text) << element;
  return text;
}

/// The constant's values in another type. What is finite stays finite: masks are written as the lowest f32.
static DenseElementsAttr convertElements(DenseElementsAttr values, FloatType to) {
  const llvm::fltSemantics &semantics = to.getFloatSemantics();
  auto convert = [&](const APFloat &value) {
    APFloat result = value;
    bool losesInfo = false;
    result.convert(semantics, APFloat::rmNearestTiesToEven, &losesInfo);
    if (result.isInfinity() && value.isFinite())
      result = APFloat::getLargest(semantics, value.isNegative());
    return result.bitcastToAPInt();
  };
  return cast<DenseFPElementsAttr>(values).mapValues(to, convert);
}

namespace {
class PrecisionConverter {
public:
  PrecisionConverter(FuncOp function, FloatType compute, FloatType gradient)
      : function(function), module(function->getParentOfType<ModuleOp>()), states(module), compute(compute),
        gradient(gradient), wide(Float32Type::get(compute.getContext())) {}

  void run();

  uint64_t narrowOps = 0, conversions = 0;

private:
  bool isConverted(Value value) const { return elementOf(value) == wide || elementOf(value) == compute; }
  bool isFlexible(Value value) const { return flexible.contains(value); }
  /// Whether nothing but users decides the type of `op`'s results.
  bool isFlexibleOp(Operation *op) const;
  void insertFlexible(Operation *op);
  bool isVast(ConstantOp constant) const;
  bool roundsOnce(Operation *op) const;
  void markLearned(Block &block);
  bool isOfNothingLearned(Operation *op) const;

  void convertOp(Operation *op);
  void convertScan(ScanOp scan);
  void convertYield(YieldOp yield);
  Type typeInScan(ScanOp scan, unsigned index) const;
  void convertBlock(Block &block);
  /// What `f` stands for in this op (PrecisionRule.h).
  Type followedType(Operation *op) const;
  Type sumType(Value result) const;
  Type typeFor(char letter, Type followed, Value result) const;

  /// `value` as operand `index` of `user` wants it.
  Value as(Value value, Type element, Operation *user, unsigned index);
  Value flexibleAs(Value value, Type element);
  Operation *cloneAs(Operation *op, Type element);
  Value convert(Value value, Type element, Operation *user, unsigned index);
  StateOp copyOf(ParamOp param);

  FuncOp function;
  ModuleOp module;
  StateMaker states;
  FloatType compute, gradient;
  Type wide;
  llvm::DenseSet<Value> flexible;
  llvm::DenseSet<Value> counted; // of the flexible ones: computed from integers of more than 8 bits
  llvm::DenseSet<Value> vast;    // of the flexible ones: computed from constants beyond the compute type
  llvm::DenseSet<Value> learned; // computed from parameters, or maybe so
  llvm::DenseMap<std::pair<Value, Type>, Value> versions;
  llvm::DenseSet<Operation *> cloned;
  llvm::DenseMap<Operation *, StateOp> copies;
};
} // namespace

//===----------------------------------------------------------------------===//
// Flexible values
//===----------------------------------------------------------------------===//

bool PrecisionConverter::isFlexibleOp(Operation *op) const {
  // The loss's cotangent is where loss scaling comes in: one value, in f32.
  if (op->hasAttr(kLossSeed) || op->getNumResults() == 0 ||
      !llvm::all_of(op->getResults(), [&](Value result) { return elementOf(result) == wide; }))
    return false;
  if (auto read = dyn_cast<ReadOp>(op)) {
    auto param = states.lookup<ParamOp>(read.getSource());
    return param && !param->hasAttr(kUncopied);
  }
  if (!ruleOf(op).isFree())
    return false;
  return llvm::all_of(op->getOperands(),
                      [&](Value operand) { return isFlexible(operand) || isa<IntegerType>(elementOf(operand)); });
}

/// Whether an op makes floats of integers that 16 bits may not hold.
static bool isCount(Operation *op) {
  return isa<IotaOp>(op) || (isa<ConvertOp>(op) && isa<IntegerType>(elementOf(op->getOperand(0))) &&
                             elementOf(op->getOperand(0)).getIntOrFloatBitWidth() > 8);
}

/// Whether the constant has numbers that are finite only because they are made the largest of the compute type.
bool PrecisionConverter::isVast(ConstantOp constant) const {
  bool losesInfo = false;
  APFloat largest = APFloat::getLargest(compute.getFloatSemantics());
  largest.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &losesInfo);
  auto isBeyond = [bound = largest.convertToFloat()](float value) { return std::fabs(value) > bound; };
  auto values = cast<DenseElementsAttr>(constant.getValue());
  return values.isSplat() ? isBeyond(values.getSplatValue<float>()) : llvm::any_of(values.getValues<float>(), isBeyond);
}

void PrecisionConverter::insertFlexible(Operation *op) {
  auto isAmong = [op](const llvm::DenseSet<Value> &values) {
    return llvm::any_of(op->getOperands(), [&](Value operand) { return values.contains(operand); });
  };
  flexible.insert_range(op->getResults());
  if (isCount(op) || isAmong(counted))
    counted.insert_range(op->getResults());
  auto constant = dyn_cast<ConstantOp>(op);
  if (constant ? isVast(constant) : isAmong(vast))
    vast.insert_range(op->getResults());
}

/// Whether a flexible op is arithmetic that is rounded only once it is done. Masks are not: what they add to scores has
/// to stay finite in the narrow type.
bool PrecisionConverter::roundsOnce(Operation *op) const {
  Value result = op->getResult(0);
  return op->hasTrait<Elementwise>() && !isa<ConvertOp, SelectOp>(op) && counted.contains(result) &&
         !vast.contains(result);
}

StateOp PrecisionConverter::copyOf(ParamOp param) {
  StateOp &copy = copies[param];
  if (!copy) {
    RankedTensorType type = withElement(param.getTensorType(), compute);
    copy = states.create(param.getSymName() + "." + nameOf(StateRole::compute), StateRole::compute, type, param);
    copy.setInitAttr(param.getInit());
  }
  return copy;
}

Operation *PrecisionConverter::cloneAs(Operation *op, Type element) {
  OpBuilder builder(op);
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto values = cast<DenseElementsAttr>(constant.getValue());
    if (element != wide)
      values = convertElements(values, cast<FloatType>(element));
    Operation *made = ConstantOp::create(builder, op->getLoc(), values.getType(), cast<ElementsAttr>(values));
    made->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    return made;
  }
  IRMapping mapping;
  for (Value operand : op->getOperands())
    if (isFlexible(operand))
      mapping.map(operand, flexibleAs(operand, element));
  Operation *made = builder.clone(*op, mapping);
  for (Value result : made->getResults())
    result.setType(withElement(result.getType(), element));
  if (auto read = dyn_cast<ReadOp>(made); read && element != wide)
    read.setSourceAttr(FlatSymbolRefAttr::get(copyOf(states.lookup<ParamOp>(read.getSource()))));
  return made;
}

Value PrecisionConverter::flexibleAs(Value value, Type element) {
  if (Value known = versions.lookup({value, element}))
    return known;
  Operation *op = value.getDefiningOp();
  if (element != wide && roundsOnce(op)) {
    Value exact = flexibleAs(value, wide);
    return versions[{value, element}] = convert(exact, element, exact.getDefiningOp(), 0);
  }
  Operation *made = cloneAs(op, element);
  // The first one takes the place of the op, which goes.
  if (!cloned.insert(op).second)
    setId(made, getId(op) + "." + nameOf(element));
  for (auto [old, fresh] : llvm::zip_equal(op->getResults(), made->getResults()))
    versions[{old, element}] = fresh;
  return versions.lookup({value, element});
}

//===----------------------------------------------------------------------===//
// Other values
//===----------------------------------------------------------------------===//

void PrecisionConverter::markLearned(Block &block) {
  for (Operation &op : block)
    if (isa<ReadOp, ScanOp>(op) || isBackward(&op) ||
        llvm::any_of(op.getOperands(), [&](Value operand) { return learned.contains(operand); }))
      learned.insert_range(op.getResults());
}

/// Whether an op is a product that is no layer's, such as that of positions with the frequencies of their rotation.
bool PrecisionConverter::isOfNothingLearned(Operation *op) const {
  return isa<EinsumOp>(op) && !isBackward(op) && llvm::none_of(op->getOperands(), [&](Value operand) {
           return learned.contains(operand) || elementOf(operand) == compute;
         });
}

Value PrecisionConverter::convert(Value value, Type element, Operation *user, unsigned index) {
  if (Value known = versions.lookup({value, element}))
    return known;
  Operation *def = value.getDefiningOp();
  // A forward value that only backward wants otherwise is converted there, so that no second version of it is saved.
  bool atUser = !def || (isBackward(user) && !isBackward(def));
  OpBuilder builder(user);
  if (!atUser)
    builder.setInsertionPointAfter(def);
  Value made = ConvertOp::create(builder, value.getLoc(), withElement(value.getType(), element), value);
  Operation *op = made.getDefiningOp();
  if ((atUser ? user : def)->hasAttr(kBackward))
    op->setAttr(kBackward, builder.getUnitAttr());
  std::string base = getId(atUser ? user : def).str();
  if (atUser)
    base += ".operand" + std::to_string(index);
  else if (def->getNumResults() > 1)
    base += ".result" + std::to_string(cast<OpResult>(value).getResultNumber());
  setId(op, base + "." + nameOf(element));
  ++conversions;
  return versions[{value, element}] = made;
}

Value PrecisionConverter::as(Value value, Type element, Operation *user, unsigned index) {
  if (isFlexible(value))
    return flexibleAs(value, element);
  return elementOf(value) == element ? value : convert(value, element, user, index);
}

Type PrecisionConverter::followedType(Operation *op) const {
  bool anyNarrow = false, anyWide = false;
  for (Value operand : op->getOperands())
    if (!isFlexible(operand) && isConverted(operand))
      (elementOf(operand) == wide ? anyWide : anyNarrow) = true;
  bool isWide = !anyNarrow || (anyWide && !isBackward(op));
  return isWide ? wide : Type(compute);
}

/// Looks through ops that only move elements for what becomes of a sum.
Type PrecisionConverter::sumType(Value result) const {
  bool onlyAccumulated = llvm::all_of(result.getUsers(), [&](Operation *user) {
    if (isa<ReshapeOp, TransposeOp>(user))
      return sumType(user->getResult(0)) == wide;
    return isa<AccumulateOp>(user);
  });
  return onlyAccumulated && gradient != compute ? wide : Type(compute);
}

Type PrecisionConverter::typeFor(char letter, Type followed, Value result) const {
  switch (letter) {
  case 'n':
    return compute;
  case 'f':
    return followed;
  case 's':
    return sumType(result);
  default:
    return wide;
  }
}

void PrecisionConverter::convertOp(Operation *op) {
  if (isFlexibleOp(op))
    return insertFlexible(op);
  if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
    if (isConverted(accumulate.getValue())) {
      Type element = states.lookup<StateOp>(accumulate.getTarget()).getTensorType().getElementType();
      op->setOperand(0, as(accumulate.getValue(), element, op, 0));
    }
    return;
  }
  if (auto scan = dyn_cast<ScanOp>(op))
    return convertScan(scan);
  if (auto yield = dyn_cast<YieldOp>(op))
    return convertYield(yield);
  PrecisionRule rule = isOfNothingLearned(op) ? PrecisionRule::wide() : ruleOf(op);
  Type followed = followedType(op);
  for (OpOperand &operand : op->getOpOperands())
    if (isConverted(operand.get())) {
      unsigned index = operand.getOperandNumber();
      operand.set(as(operand.get(), typeFor(rule.ofOperand(index), followed, Value()), op, index));
    }
  bool isNarrow = false;
  for (OpResult result : op->getResults())
    if (isConverted(result)) {
      Type element = typeFor(rule.ofResult(result.getResultNumber()), followed, result);
      result.setType(withElement(result.getType(), element));
      isNarrow |= element == compute;
    }
  narrowOps += isNarrow;
}

/// What a scan carries from step to step is f32, as a sum of many terms is; the rest is narrow. Of operands and of
/// results.
Type PrecisionConverter::typeInScan(ScanOp scan, unsigned index) const {
  return index < scan.countCarried() || scan->hasAttr(kWide) ? wide : Type(compute);
}

void PrecisionConverter::convertScan(ScanOp scan) {
  if (Attribute isWide = scan->getAttr(kWide))
    scan.getStep().walk([&](Operation *op) { op->setAttr(kWide, isWide); });
  for (auto [operand, argument] : llvm::zip_equal(scan->getOpOperands(), scan.getStep().getArguments())) {
    if (!isConverted(operand.get()))
      continue;
    unsigned index = operand.getOperandNumber();
    operand.set(as(operand.get(), typeInScan(scan, index), scan, index));
    argument.setType(withElement(argument.getType(), typeInScan(scan, index)));
  }
  for (OpResult result : scan->getResults())
    if (isConverted(result))
      result.setType(withElement(result.getType(), typeInScan(scan, result.getResultNumber())));
  learned.insert_range(scan.getStep().getArguments());
  convertBlock(scan.getStep());
}

void PrecisionConverter::convertYield(YieldOp yield) {
  auto scan = cast<ScanOp>(yield->getParentOp());
  for (OpOperand &operand : yield->getOpOperands())
    if (unsigned index = operand.getOperandNumber(); isConverted(operand.get()))
      operand.set(as(operand.get(), typeInScan(scan, index), yield, index));
}

void PrecisionConverter::convertBlock(Block &block) {
  SmallVector<Operation *> ops = llvm::map_to_vector(block, [](Operation &op) { return &op; });
  markLearned(block);
  for (Operation *op : ops)
    convertOp(op);
  for (Operation *op : llvm::reverse(ops))
    if (op->use_empty() && llvm::any_of(op->getResults(), [&](Value result) { return isFlexible(result); }))
      op->erase();
}

void PrecisionConverter::run() {
  for (StateOp state : module.getOps<StateOp>())
    if (state.is(StateRole::gradient) && state.getTensorType().getElementType() == wide)
      state.setType(withElement(state.getTensorType(), gradient));
  convertBlock(function.getBody().front());
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct ConvertPrecision : hyc::impl::ConvertPrecisionBase<ConvertPrecision> {
  using ConvertPrecisionBase::ConvertPrecisionBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FuncOp function = findFunction(module, kMicrobatch, "expected a differentiated model; run hyc-differentiate first");
    if (!function || failed(verifyOptions()))
      return signalPassFailure();
    if (precision == "f32")
      return markAllAnalysesPreserved();
    Builder builder(&getContext());
    FloatType compute = precision == "bf16" ? FloatType(builder.getBF16Type()) : FloatType(builder.getF16Type());
    FloatType gradient = gradientType == "bf16" ? FloatType(builder.getBF16Type()) : FloatType(builder.getF32Type());
    PrecisionConverter converter(function, compute, gradient);
    converter.run();
    narrowOps += converter.narrowOps;
    conversions += converter.conversions;
  }

private:
  LogicalResult verifyOptions() {
    ModuleOp module = getOperation();
    if (precision != "f32" && precision != "bf16" && precision != "fp16")
      return module.emitError("--precision is \"") << precision << "\", expected f32, bf16 or fp16";
    if (gradientType != "f32" && gradientType != "bf16")
      return module.emitError("--gradient-accumulation-type is \"") << gradientType << "\", expected f32 or bf16";
    if (precision == "f32" && gradientType != "f32")
      return module.emitError("--gradient-accumulation-type is \"")
             << gradientType
             << "\", but --precision is f32, whose gradients are f32; compute in bf16 or fp16, or leave it out";
    return success();
  }
};
} // namespace
