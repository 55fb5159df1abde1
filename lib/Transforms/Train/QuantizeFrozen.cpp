// QuantizeFrozen: codes in place of frozen weights. Each use reads its own, as uses of parameters do, so that nothing
// keeps a whole weight from forward to backward.
#include "TrainingState.h"
#include "dialects/Hyc/DerivedOps.h"
#include "hyc/Transforms/Train/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

namespace hyc {
#define GEN_PASS_DEF_QUANTIZEFROZEN
#include "hyc/Transforms/Train/Passes.h.inc"
} // namespace hyc

namespace {
/// One part of a weight: its state, of the type that a read gives.
struct Part {
  WeightPart part;
  StateOp state;
};

/// A weight that is kept as codes.
class QuantizedWeight {
public:
  QuantizedWeight(ParamOp param, StateMaker &states)
      : param(param), states(states), kind(param->getAttrOfType<CodeKindAttr>(kQuantized).getValue()),
        inputs(param->getAttrOfType<IntegerAttr>(kQuantizedInputs).getInt()),
        outputs(param.getTensorType().getNumElements() / inputs), inputsFirst(param->hasAttr(kQuantizedInputsFirst)) {}

  void addStates();
  /// The weight, right before `user`, as `type`.
  Value dequantize(Operation *user, RankedTensorType type);

private:
  static constexpr int64_t kBlock = DequantizeOp::kNf4Block;

  void add(WeightPart part, StateRole role, ArrayRef<int64_t> shape, Type element);
  /// Of each dimension of the parameter the distance of neighbours in the matrix of outputs × inputs.
  SmallVector<int64_t> strides();
  int64_t block() const { return kind == CodeKind::nf4 ? kBlock : inputs; }

  ParamOp param;
  StateMaker &states;
  CodeKind kind;
  int64_t inputs, outputs;
  bool inputsFirst;
  SmallVector<Part, 4> parts; ///< codes first
};
} // namespace

/// "w.int8", "w.int8.absmax"
static std::string nameOfPart(StringRef weight, WeightPart part) {
  auto [kind, what] = stringifyWeightPart(part).split('_');
  return (weight + "." + kind + (what == "codes" ? "" : "." + what)).str();
}

void QuantizedWeight::add(WeightPart part, StateRole role, ArrayRef<int64_t> shape, Type element) {
  ParamOp owner = role == StateRole::codes ? param : ParamOp();
  StateOp state =
      states.create(nameOfPart(param.getSymName(), part), role, RankedTensorType::get(shape, element), owner);
  state.setInitAttr(
      OfWeightAttr::get(param.getContext(), part, param.getSymName(), param.getInit(), outputs, inputs, inputsFirst));
  parts.push_back({part, state});
}

void QuantizedWeight::addStates() {
  Builder builder(param.getContext());
  Type byte = builder.getIntegerType(8, /*isSigned=*/false), real = builder.getF32Type();
  SmallVector<int64_t> shape(param.getTensorType().getShape());
  if (kind == CodeKind::int8) {
    add(WeightPart::int8_codes, StateRole::codes, shape, byte);
    return add(WeightPart::int8_absmax, StateRole::codeScale, {outputs}, real);
  }
  shape.back() /= 2;
  int64_t blocks = (outputs * inputs + kBlock - 1) / kBlock;
  add(WeightPart::nf4_codes, StateRole::codes, shape, byte);
  add(WeightPart::nf4_absmax, StateRole::codeScale, {blocks}, byte);
  add(WeightPart::nf4_scale, StateRole::codeScale, {DequantizeOp::scaleGroupsOf(blocks)}, real);
  add(WeightPart::nf4_mean, StateRole::codeScale, {}, real);
}

SmallVector<int64_t> QuantizedWeight::strides() {
  ArrayRef<int64_t> shape = param.getTensorType().getShape();
  SmallVector<int64_t> result(shape.size());
  // Stored [inputs, outputs], the outputs come last and are the matrix's rows.
  int64_t next = inputsFirst ? inputs : 1, end = inputsFirst ? inputs * outputs : 0;
  for (size_t dim = shape.size(); dim-- > 0; next *= shape[dim]) {
    if (next == end)
      next = 1;
    result[dim] = next;
  }
  return result;
}

Value QuantizedWeight::dequantize(Operation *user, RankedTensorType type) {
  OpBuilder builder(user);
  Operation *before = user->getPrevNode();
  DerivedOps build(builder, user, ".");
  SmallVector<Value> values;
  for (const Part &part : parts)
    values.push_back(build.create<ReadOp>(stringifyWeightPart(part.part), StateOp(part.state).getTensorType(),
                                          FlatSymbolRefAttr::get(part.state)));
  Value result = build.create<DequantizeOp>("dequantized", type, kind, values.front(), ValueRange(values).drop_front(),
                                            block(), strides());
  if (Attribute backward = user->getAttr(kBackward))
    for (Operation *op = before ? before->getNextNode() : &user->getBlock()->front(); op != user;
         op = op->getNextNode())
      op->setAttr(kBackward, backward);
  return result;
}

namespace {
struct QuantizeFrozen : hyc::impl::QuantizeFrozenBase<QuantizeFrozen> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    FuncOp function = findFunction(module, kMicrobatch, "expected a differentiated model; run hyc-differentiate first");
    if (!function)
      return signalPassFailure();
    dequantized.clear();
    StateMaker states(module);
    llvm::StringMap<QuantizedWeight> quantized; // by what is read of one
    SmallVector<StateOp> copies;
    for (auto param : llvm::to_vector(module.getOps<ParamOp>()))
      if (param->hasAttr(kQuantized)) {
        quantized.try_emplace(param.getSymName(), param, states).first->second.addStates();
        ++weights;
      }
    for (auto state : module.getOps<StateOp>())
      if (state.is(StateRole::compute) && state.getParam() && quantized.contains(*state.getParam())) {
        quantized.try_emplace(state.getSymName(), quantized.at(*state.getParam()));
        copies.push_back(state);
      }
    for (auto read : llvm::make_early_inc_range(function.getBody().front().getOps<ReadOp>()))
      if (auto weight = quantized.find(read.getSource()); weight != quantized.end())
        replace(read, weight->second);
    for (StateOp copy : copies)
      copy.erase();
  }

private:
  /// Once a user, which may have the weight as several operands, as its square does, and read it for each.
  void replace(ReadOp read, QuantizedWeight &weight) {
    for (Operation *user : llvm::SetVector<Operation *>(read->user_begin(), read->user_end())) {
      Value &whole = dequantized[{user, read.getSource()}];
      if (!whole) {
        whole = weight.dequantize(user, cast<RankedTensorType>(read.getType()));
        ++uses;
      }
      user->replaceUsesOfWith(read, whole);
    }
    read.erase();
  }

  llvm::DenseMap<std::pair<Operation *, StringRef>, Value> dequantized; ///< by user, and what it reads
};
} // namespace
