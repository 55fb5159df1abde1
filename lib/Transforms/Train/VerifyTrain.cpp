// VerifyTrain: the invariant of phase 2, constraint by constraint as Passes.td lists them.
#include "TrainingState.h"
#include "hyc/Transforms/Train/Passes.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

namespace hyc {
#define GEN_PASS_DEF_VERIFYTRAIN
#include "hyc/Transforms/Train/Passes.h.inc"
} // namespace hyc

static LogicalResult verifyFunctions(ModuleOp module) {
  if (auto entry = module.lookupSymbol<FuncOp>(kTrain))
    return entry.emitError("[train.functions] @train is still there; run hyc-differentiate");
  for (StringRef name : {kMicrobatch, kApply}) {
    auto function = module.lookupSymbol<FuncOp>(name);
    if (!function)
      return module.emitError("[train.functions] has no @") << name;
    if (function.getNumResults() != 0)
      return function.emitError("[train.functions] @") << name << " returns values, expected only effects on state";
  }
  return success();
}

/// Every argument has each of these attributes.
static LogicalResult verifyArguments(FuncOp function, ArrayRef<StringRef> required) {
  for (unsigned index = 0, e = function.getNumArguments(); index < e; ++index)
    for (StringRef name : required)
      if (!function.getArgAttrOfType<StringAttr>(index, name))
        return function.emitError("[train.inputs] argument ")
               << index << " of @" << function.getSymName() << " has no " << name;
  return success();
}

static LogicalResult verifySources(FuncOp microbatch) {
  for (unsigned index = 0, e = microbatch.getNumArguments(); index < e; ++index) {
    StringRef source = microbatch.getArgAttrOfType<StringAttr>(index, kSource).getValue();
    if (!findInputSource(source))
      return microbatch.emitError("[train.inputs] argument ")
             << index << " has hyc.source \"" << source << "\", expected one of " << listInputSources();
  }
  return success();
}

static LogicalResult verifyIds(FuncOp function, llvm::StringMap<Operation *> &owners) {
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (getId(&op).empty())
      return op.emitOpError("[train.ids] has no id");
    auto [entry, inserted] = owners.try_emplace(getId(&op), &op);
    if (!inserted)
      return (op.emitOpError("[train.ids] has id \"") << getId(&op) << "\", which another op has")
                 .attachNote(entry->second->getLoc())
             << "that op is here";
  }
  return success();
}

static LogicalResult verifyRandomOps(FuncOp microbatch) {
  for (Operation &op : microbatch.getBody().front()) {
    auto dropout = dyn_cast<DropoutOp>(op);
    auto attention = dyn_cast<AttentionOp>(op);
    if ((dropout && !dropout.getMask()) || (attention && attention.getDropout() && attention.getRandom().empty()))
      return op.emitOpError("[train.random] \"") << getId(&op) << "\" draws from no keys; run hyc-key-random-ops";
  }
  return success();
}

static LogicalResult verifyStops(FuncOp microbatch) {
  WalkResult found = microbatch.walk([](StopGradientOp stop) {
    stop.emitOpError("[train.stops] keeps a gradient that has been built; run hyc-differentiate");
    return WalkResult::interrupt();
  });
  return failure(found.wasInterrupted());
}

static LogicalResult verifyStates(ModuleOp module) {
  for (StateRole role : {StateRole::lossSum, StateRole::tokenCount, StateRole::step, StateRole::gradNorm}) {
    auto matches = llvm::make_filter_range(module.getOps<StateOp>(), [&](StateOp s) { return s.is(role); });
    auto count = std::distance(matches.begin(), matches.end());
    if (count != 1)
      return module.emitError("[train.states] has ")
             << count << " states of role \"" << nameOf(role) << "\", expected 1";
  }
  return success();
}

namespace {
/// How often each gradient state is accumulated into, counted in the norm, and applied.
struct GradientUses {
  unsigned accumulated = 0, counted = 0, applied = 0;
};
} // namespace

static llvm::StringMap<GradientUses> findGradientUses(FuncOp microbatch, FuncOp apply) {
  llvm::StringMap<GradientUses> uses;
  for (auto accumulate : microbatch.getOps<AccumulateOp>())
    ++uses[accumulate.getTarget()].accumulated;
  for (auto squares : apply.getOps<SumOfSquaresOp>()) {
    // LAMB asks for the norms of single tensors too.
    if (llvm::any_of(squares->getUsers(), llvm::IsaPred<TrustRatioOp>))
      continue;
    for (auto name : squares.getStates().getAsRange<FlatSymbolRefAttr>())
      ++uses[name.getValue()].counted;
  }
  for (auto update : apply.getOps<UpdateOpInterface>())
    uses[update.getGradientAttr().getValue()].applied += update.changesParam();
  return uses;
}

static LogicalResult verifyGradients(ModuleOp module, const SymbolTable &symbols, FuncOp microbatch, FuncOp apply) {
  llvm::StringMap<GradientUses> uses = findGradientUses(microbatch, apply);
  for (auto state : module.getOps<StateOp>()) {
    if (!state.is(StateRole::gradient))
      continue;
    auto param = state.getParam() ? symbols.lookup<ParamOp>(*state.getParam()) : ParamOp();
    if (!param || param.getFrozen())
      return state.emitOpError("[train.gradients] belongs to no parameter that is trained");
    GradientUses use = uses.lookup(state.getSymName());
    if (use.accumulated == 0 || use.counted != 1 || use.applied != 1)
      return state.emitOpError("[train.gradients] is accumulated ")
             << use.accumulated << " times, counted in the norm " << use.counted << " times and applied " << use.applied
             << " times, expected at least 1, 1 and 1";
  }
  return success();
}

/// Whether @microbatch may read the symbol: a parameter, its copy in the compute type, or a scale.
static bool isReadable(Operation *symbol) {
  if (isa_and_nonnull<ParamOp>(symbol))
    return true;
  auto state = dyn_cast_or_null<StateOp>(symbol);
  return state && state.getFacts().isReadByMicrobatch;
}

/// Copies in the compute type follow their parameters: whoever updates one refreshes the other, after the update.
static LogicalResult verifyCopies(ModuleOp module, FuncOp apply) {
  llvm::StringMap<Operation *> updated, refreshed;
  for (Operation &op : apply.getBody().front()) {
    if (auto update = dyn_cast<UpdateOpInterface>(op); update && update.changesParam())
      updated[update.getParamAttr().getValue()] = &op;
    else if (auto refresh = dyn_cast<RefreshOp>(op))
      refreshed[refresh.getCopy()] = &op;
  }
  for (auto state : module.getOps<StateOp>()) {
    if (!state.is(StateRole::compute) || !state.getParam())
      continue;
    Operation *update = updated.lookup(*state.getParam()), *refresh = refreshed.lookup(state.getSymName());
    if (update && (!refresh || refresh->isBeforeInBlock(update)))
      return state.emitOpError("[train.copies] is not refreshed after the update of its parameter");
  }
  return success();
}

/// A write of forward: of a buffer, which is a parameter that no update changes.
static bool isOfBuffer(const SymbolTable &symbols, WriteOp write) {
  auto buffer = symbols.lookup<ParamOp>(write.getTarget());
  return buffer && buffer.getFrozen() && !isBackward(write);
}

/// Reads are of parameters, and the only effects are to accumulate into states that belong to the step, and forward's
/// writes of buffers.
static LogicalResult verifyEffects(FuncOp microbatch, const SymbolTable &symbols) {
  for (Operation &op : microbatch.getBody().front().without_terminator()) {
    if (isMemoryEffectFree(&op))
      continue;
    if (auto read = dyn_cast<ReadOp>(op); read && isReadable(symbols.lookup(read.getSource())))
      continue;
    if (auto accumulate = dyn_cast<AccumulateOp>(op); accumulate && symbols.lookup<StateOp>(accumulate.getTarget()))
      continue;
    if (auto write = dyn_cast<WriteOp>(op); write && isOfBuffer(symbols, write))
      continue;
    return op.emitOpError("[train.effects] stands in @microbatch, which only reads parameters, writes frozen ones in "
                          "forward, and accumulates into state");
  }
  return success();
}

static LogicalResult verifyOrder(FuncOp microbatch) {
  for (Operation &op : microbatch.getBody().front().without_terminator()) {
    if (isBackward(&op))
      continue;
    for (Value operand : op.getOperands())
      if (Operation *producer = operand.getDefiningOp(); producer && isBackward(producer))
        return (
            op.emitOpError("[train.order] belongs to forward but reads a backward value").attachNote(producer->getLoc())
            << "computed here");
  }
  return success();
}

namespace {
struct VerifyTrain : hyc::impl::VerifyTrainBase<VerifyTrain> {
  void runOnOperation() override {
    if (failed(verify(getOperation())))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }

  static LogicalResult verify(ModuleOp module) {
    if (failed(verifyFunctions(module)))
      return failure();
    auto microbatch = module.lookupSymbol<FuncOp>(kMicrobatch), apply = module.lookupSymbol<FuncOp>(kApply);
    SymbolTable symbols(module);
    llvm::StringMap<Operation *> ids;
    return success(succeeded(verifyArguments(microbatch, {kInput, kSource})) && succeeded(verifySources(microbatch)) &&
                   succeeded(verifyArguments(apply, {kScalar})) && succeeded(verifyIds(microbatch, ids)) &&
                   succeeded(verifyIds(apply, ids)) && succeeded(verifyRandomOps(microbatch)) &&
                   succeeded(verifyStops(microbatch)) && succeeded(verifyStates(module)) &&
                   succeeded(verifyGradients(module, symbols, microbatch, apply)) &&
                   succeeded(verifyEffects(microbatch, symbols)) && succeeded(verifyCopies(module, apply)) &&
                   succeeded(verifyOrder(microbatch)));
  }
};
} // namespace
