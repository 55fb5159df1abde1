// Differentiate: reverse-mode differentiation of @train into @microbatch. Gradients are sums over tokens, never means:
// only @apply knows how many tokens a step counted.
#include "Cotangents.h"
#include "ScanGradient.h"
#include "TrainingState.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Transforms/Train/Passes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

namespace hyc {
#define GEN_PASS_DEF_DIFFERENTIATE
#include "hyc/Transforms/Train/Passes.h.inc"
} // namespace hyc

static bool isFloat(Type type) { return isa<FloatType>(cast<RankedTensorType>(type).getElementType()); }

/// Gives every op but the terminator an id that no other op of the function has; an op that has none takes its
/// mnemonic.
static void makeIdsUnique(FuncOp function) {
  llvm::StringSet<> taken;
  for (Operation &op : function.getBody().front().without_terminator()) {
    std::string base = getId(&op).str();
    if (base.empty()) {
      auto read = dyn_cast<ReadOp>(op);
      base = read ? (read.getSource() + ".read").str() : op.getName().stripDialect().str();
    }
    std::string id = base;
    for (unsigned n = 2; !taken.insert(id).second; ++n)
      id = (base + "." + Twine(n)).str();
    if (id != getId(&op))
      setId(&op, id);
  }
}

/// Gives every use of a parameter a read of its own, so that the contributions of a tied parameter accumulate each
/// where it is made: pipeline stages then exchange them once a step, not once a micro-batch.
static void readOncePerUse(FuncOp function) {
  for (auto read : llvm::make_early_inc_range(function.getBody().front().getOps<ReadOp>()))
    for (OpOperand &use : llvm::make_early_inc_range(read->getUses())) {
      if (read->hasOneUse())
        break;
      OpBuilder builder(use.getOwner());
      use.set(builder.clone(*read)->getResult(0));
    }
}

namespace {
/// Walks the forward ops of one function backwards and builds their gradients behind them.
class ReverseWalk {
public:
  ReverseWalk(FuncOp function, StateMaker &states)
      : function(function), module(function->getParentOfType<ModuleOp>()), states(states),
        builder(function.getReturn()), cotangents(builder) {}

  /// Builds the backward pass of `loss`. `skipped` counts forward ops without a gradient.
  LogicalResult run(Value loss, uint64_t &skipped);

private:
  /// Fills `active`: what a trainable parameter feeds.
  void findActiveValues(ArrayRef<Operation *> forward);
  /// Notes where in the reverse walk the last cotangent of each read of a trainable parameter has arrived.
  void findFirstUses(ArrayRef<Operation *> forward);
  void accumulateReads(Operation *firstUser);
  StateOp gradientOf(ParamOp param);
  /// Declares the gradients in the order of their parameters, whatever the order of the walk; warns of parameters that
  /// the loss does not depend on.
  LogicalResult finish();

  FuncOp function;
  ModuleOp module;
  StateMaker &states;
  OpBuilder builder;
  DenseSet<Value> active;
  Cotangents cotangents;
  DenseMap<Operation *, SmallVector<ReadOp>> readsDoneAt;
  DenseMap<ParamOp, StateOp> gradients;
};
} // namespace

void ReverseWalk::findActiveValues(ArrayRef<Operation *> forward) {
  for (Operation *op : forward) {
    bool isActive = llvm::any_of(op->getOperands(), [&](Value operand) { return active.contains(operand); });
    if (auto read = dyn_cast<ReadOp>(op)) {
      auto param = states.lookup<ParamOp>(read.getSource());
      isActive = param && !param.getFrozen();
    }
    isActive &= !isa<StopGradientOp>(op);
    for (Value result : op->getResults())
      if (isActive && isFloat(result.getType()))
        active.insert(result);
  }
}

void ReverseWalk::findFirstUses(ArrayRef<Operation *> forward) {
  DenseSet<Value> seen;
  for (Operation *op : forward)
    for (Value operand : op->getOperands())
      if (auto read = operand.getDefiningOp<ReadOp>())
        if (active.contains(operand) && seen.insert(operand).second)
          readsDoneAt[op].push_back(read);
}

StateOp ReverseWalk::gradientOf(ParamOp param) {
  StateOp &state = gradients[param];
  if (!state)
    state = states.create(param.getSymName() + ".grad", StateRole::gradient, param.getTensorType(), param);
  return state;
}

void ReverseWalk::accumulateReads(Operation *firstUser) {
  for (ReadOp read : readsDoneAt.lookup(firstUser)) {
    Value cotangent = cotangents.of(read.getResult());
    if (!cotangent)
      continue;
    StateOp state = gradientOf(states.lookup<ParamOp>(read.getSource()));
    auto accumulate = AccumulateOp::create(builder, read.getLoc(), cotangent, FlatSymbolRefAttr::get(state));
    setId(accumulate, state.getSymName() + ".accumulate");
  }
}

LogicalResult ReverseWalk::finish() {
  Operation *firstFunction = *module.getOps<FuncOp>().begin();
  for (auto param : module.getOps<ParamOp>()) {
    if (StateOp gradient = gradients.lookup(param))
      gradient->moveBefore(firstFunction);
    else if (!param.getFrozen() && isFloat(param.getTensorType()))
      param.emitWarning("parameter @") << param.getSymName() << " does not reach the loss and stays as it is";
  }
  if (!gradients.empty() || isEvaluation(module))
    return success();
  const auto frozen = llvm::count_if(module.getOps<ParamOp>(), [](ParamOp param) { return param.getFrozen(); });
  InFlightDiagnostic error = function.emitError("no trainable parameter reaches the loss: there is nothing to train");
  if (frozen)
    error << "; parameters that are frozen, by the model (requires_grad was False) or by --freeze: " << frozen;
  return error;
}

LogicalResult ReverseWalk::run(Value loss, uint64_t &skipped) {
  SmallVector<Operation *> forward;
  for (Operation &op : function.getBody().front().without_terminator())
    forward.push_back(&op);
  findActiveValues(forward);
  findFirstUses(forward);

  if (active.contains(loss)) {
    auto type = cast<RankedTensorType>(loss.getType());
    auto one = DenseElementsAttr::get(type, Attribute(FloatAttr::get(type.getElementType(), 1.0)));
    auto seed = ConstantOp::create(builder, loss.getLoc(), type, cast<ElementsAttr>(one));
    setId(seed, getId(loss.getDefiningOp()) + ".grad.seed");
    seed->setAttr(kLossSeed, builder.getUnitAttr());
    cotangents.add(loss, seed);
  }
  for (Operation *op : llvm::reverse(forward)) {
    FailureOr<bool> needed = cotangents.differentiate(op, active);
    if (failed(needed))
      return failure();
    skipped += !*needed;
    accumulateReads(op);
  }
  // Of slices whose cotangents were joined.
  for (auto pad : llvm::make_early_inc_range(function.getBody().front().getOps<PadOp>()))
    if (pad.use_empty())
      pad.erase();
  return finish();
}

/// With the gradients built, what keeps them from a value is that value.
static void removeStops(FuncOp function) {
  function.walk([](StopGradientOp stop) {
    stop.getResult().replaceAllUsesWith(stop.getOperand());
    stop.erase();
  });
}

/// Adds what the forward pass computed into the step's sums.
static void accumulateInto(OpBuilder &builder, FuncOp function, StateMaker &states, Value value, StateRole role) {
  StateOp state = states.create(role, cast<RankedTensorType>(value.getType()));
  auto accumulate = AccumulateOp::create(builder, function.getLoc(), value, FlatSymbolRefAttr::get(state));
  setId(accumulate, nameOf(role) + ".accumulate");
}

/// @train has the results that hyc-attach-loss gives it.
static LogicalResult verifyLossAttached(FuncOp entry) {
  ArrayRef<Type> results = entry.getResultTypes();
  auto isScalar = [](Type type) { return cast<RankedTensorType>(type).getRank() == 0; };
  if ((results.size() == 2 || results.size() == 3) && llvm::all_of(results, isScalar) && isFloat(results[0]) &&
      llvm::none_of(results.drop_front(), isFloat))
    return success();
  return entry.emitError("@train returns (")
         << results << "), expected the loss sum, the token count and perhaps how many were right; run "
         << "hyc-attach-loss first";
}

namespace {
struct Differentiate : hyc::impl::DifferentiateBase<Differentiate> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    FuncOp function = findFunction(module, kTrain, "expected a model with a loss, as hyc-attach-loss gives it");
    if (!function || failed(verifyLossAttached(function)))
      return signalPassFailure();
    readOncePerUse(function);
    keepStepValues(function);
    makeIdsUnique(function);

    ReturnOp terminator = function.getReturn();
    Value loss = terminator.getOperand(0), count = terminator.getOperand(1);
    if (llvm::any_of(terminator.getOperands(), [](Value value) { return !value.getDefiningOp(); })) {
      function.emitError("@train returns one of its arguments as loss or count: there is nothing to train");
      return signalPassFailure();
    }
    OpBuilder builder(terminator);
    StateMaker states(module);
    accumulateInto(builder, function, states, loss, StateRole::lossSum);
    accumulateInto(builder, function, states, count, StateRole::tokenCount);
    if (terminator.getNumOperands() > 2)
      accumulateInto(builder, function, states, terminator.getOperand(2), StateRole::correctCount);

    Operation *lastForward = terminator->getPrevNode();
    uint64_t skipped = 0;
    if (failed(ReverseWalk(function, states).run(loss, skipped)))
      return signalPassFailure();
    skippedOps += skipped;

    terminator.getOperandsMutable().clear();
    function.setFunctionType(builder.getFunctionType(function.getArgumentTypes(), {}));
    function.setSymName(kMicrobatch);
    for (Operation *op = lastForward->getNextNode(); op != terminator; op = op->getNextNode(), ++backwardOps)
      op->walk([&](Operation *each) { each->setAttr(kBackward, builder.getUnitAttr()); });
    removeStops(function);
    dropUnusedStacks(function);
    makeIdsUnique(function);
  }
};
} // namespace
