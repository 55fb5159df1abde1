// Makes states flat over the axes that split the batch: what ZeRO's stages are here.
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/FlatStates.h"
#include "hyc/Transforms/Plan/Passes.h"
#include "mlir/IR/Builders.h"

namespace hyc {
#define GEN_PASS_DEF_SHARDSTATES
#include "hyc/Transforms/Plan/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;
using dist::AxisListAttr;
using dist::ShardingAttr;

namespace {
struct ShardStates : hyc::impl::ShardStatesBase<ShardStates> {
  using ShardStatesBase::ShardStatesBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    mesh = dist::MeshOp::find(module);
    none = AxisListAttr::get(&getContext(), {});
    if (failed(checkOptions()))
      return signalPassFailure();
    if (auto microbatch = module.lookupSymbol<FuncOp>(kMicrobatch))
      microbatch.walk([&](Operation *op) {
        if (auto read = dyn_cast<ReadOp>(op))
          readSymbols.insert(read.getSourceAttr().getAttr());
        else if (auto write = dyn_cast<WriteOp>(op))
          writtenSymbols.insert(write.getTargetAttr().getAttr());
      });
    const SmallVector<ParamStates> all = collectParamStates(module);
    for (const ParamStates &states : all)
      if (failed(shard(states)))
        return signalPassFailure();
    for (auto state : module.getOps<StateOp>())
      if (!state.getParam() && failed(setFlat(state, state.is(StateRole::codeScale) ? ofScale(state) : none)))
        return signalPassFailure();
    if (failed(checkFlatStates(module, mesh)))
      return signalPassFailure();
    for (const ParamStates &states : all)
      markOwned(states);
  }

private:
  LogicalResult checkOptions() {
    ModuleOp module = getOperation();
    if (!mesh)
      return module.emitError("has no dist.mesh to plan for");
    if (zero < 0 || zero > 3)
      return module.emitError("ZeRO stage is ") << zero << ", expected 0, 1, 2 or 3";
    if (gradientReduction != "auto" && gradientReduction != "step" && gradientReduction != "micro_batch")
      return module.emitError("gradient reduction is \"")
             << gradientReduction << "\", expected step, micro_batch or auto";
    if (persistenceThreshold < 0 || prefetch < 0)
      return module.emitError("persistence threshold is ")
             << persistenceThreshold << " and prefetch is " << prefetch << ", expected neither to be negative";
    return success();
  }

  std::string reductionByDefault() {
    if (gradientReduction != "auto")
      return gradientReduction;
    return zero >= 2 ? "micro_batch" : "step";
  }

  /// What codes are multiplied with is a part of their parameter.
  AxisListAttr ofScale(StateOp state) {
    bool large = state.getWholeType().getNumElements() > persistenceThreshold;
    return zero >= 3 && large ? worthwhileAxes(state, state.getWholeType()) : none;
  }

  LogicalResult shard(const ParamStates &states) {
    AxisListAttr flat = worthwhileAxes(states.param, ParamOp(states.param).getWholeType());
    for (StateOp state : states.optimizer)
      if (failed(setFlat(state, zero >= 1 ? flat : none)))
        return failure();
    if (StateOp gradient = states.gradient) {
      if (!gradient->hasAttr(dist::kReduction))
        gradient->setAttr(dist::kReduction, StringAttr::get(&getContext(), reductionByDefault()));
      // What is summed as it is made is never partial; what is summed once a step is accumulated whole.
      bool each = isReducedPerMicroBatch(gradient);
      if (each)
        gradient->setAttr(dist::kSharding, shardingOf(gradient).withoutPartial());
      if (failed(setFlat(gradient, zero >= 2 && each ? flat : none)))
        return failure();
    }
    // A master that nothing but its update reads is one of the optimizer's states.
    ParamOp param = states.param;
    bool isMaster = states.copy && states.gradient && !readSymbols.contains(param.getSymNameAttr());
    bool large = param.getWholeType().getNumElements() > persistenceThreshold;
    // A buffer is written whole, on every rank the same.
    bool isBuffer = writtenSymbols.contains(param.getSymNameAttr());
    AxisListAttr ofUsed = zero >= 3 && large && !isBuffer ? flat : none;
    if (failed(setFlat(param, isMaster ? (zero >= 1 ? flat : none) : ofUsed)) ||
        (states.copy && failed(setFlat(states.copy, ofUsed))))
      return failure();
    Operation *used = states.used();
    if (prefetch > 0 && !flatAxesOf(used).empty() && !used->hasAttr(dist::kPrefetch))
      used->setAttr(dist::kPrefetch, Builder(&getContext()).getI64IntegerAttr(prefetch));
    return success();
  }

  ShardingAttr shardingOf(Operation *symbol) { return symbol->getAttrOfType<ShardingAttr>(dist::kSharding); }

  /// The batch's axes, where a shard over them is smaller than what one rank holds now.
  AxisListAttr worthwhileAxes(Operation *symbol, RankedTensorType whole) {
    AxisListAttr batch = mesh.getBatchAxes();
    ShardingAttr sharding = shardingOf(symbol);
    int64_t ranks = mesh.getSize(batch);
    if (ranks == 1 || !sharding ||
        llvm::any_of(batch.getAxes(), [&](StringAttr axis) { return sharding.splits(axis); }))
      return none;
    RankedTensorType local = heldType(whole, sharding.withoutFlat(), mesh);
    return dist::flatShardSize(local.getNumElements(), ranks) < local.getNumElements() ? batch : none;
  }

  /// Makes `symbol` flat over what the plan file says of it, or what its text has, else over `chosen`.
  LogicalResult setFlat(Operation *symbol, AxisListAttr chosen) {
    ShardingAttr sharding = shardingOf(symbol);
    if (!sharding)
      return symbol->emitError("has no dist.sharding; expected hyc-propagate-shardings to have run");
    AxisListAttr flat = sharding.getFlat().empty() ? chosen : sharding.getFlat();
    if (auto asked = symbol->getAttrOfType<AxisListAttr>(dist::kFlat))
      flat = asked;
    symbol->removeAttr(dist::kFlat);
    // An axis of one rank cuts nothing.
    flat = AxisListAttr::get(&getContext(), llvm::filter_to_vector(flat.getAxes(), [&](StringAttr axis) {
      return !llvm::is_contained(mesh.getAxes(), axis) || mesh.getSize(axis) > 1;
    }));
    if (!flat.empty() && writtenSymbols.contains(SymbolTable::getSymbolName(symbol)))
      return symbol->emitError(
          "[flat.axes] is to be flat, but the model writes it in each micro-batch; expected it whole");
    for (StringAttr axis : flat.getAxes()) {
      if (sharding.splits(axis))
        return symbol->emitError("[flat.axes] is to be flat over axis \"")
               << axis.getValue() << "\", but its sharding " << sharding << " splits a dimension over it already";
      if (sharding.getPartial().contains(axis))
        return symbol->emitError("[flat.gradient] is to be flat over axis \"")
               << axis.getValue()
               << "\", but is summed over it once a step, and until then the sum over micro-batches "
                  "needs the whole tensor; expected reduction micro_batch, or the gradient to be whole";
    }
    symbol->setAttr(dist::kSharding, sharding.withFlat(flat));
    flatStates += !flat.empty();
    return success();
  }

  /// A whole gradient whose update works on shards: only the own shard of its sum is made.
  void markOwned(const ParamStates &states) {
    AxisListAttr axes = states.updateAxes();
    if (states.gradient && !axes.empty() && flatAxesOf(states.gradient).empty())
      StateOp(states.gradient)->setAttr(dist::kOwned, axes);
  }

  dist::MeshOp mesh;
  AxisListAttr none;
  llvm::DenseSet<StringAttr> readSymbols;    ///< by forward or backward
  llvm::DenseSet<StringAttr> writtenSymbols; ///< by forward: buffers
};
} // namespace
