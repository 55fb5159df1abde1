// Builds @reduce.S: the exchanges at the end of a step.
//
// All reductions are started before the first is awaited, so that those over one group can share an exchange.
#include "Exchanges.h"
#include "dialects/Dist/AttributeText.h"
#include "dialects/Dist/Placement.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/FlatStates.h"
#include "hyc/Plan/Policies.h"
#include "hyc/Transforms/Local/Passes.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringSwitch.h"

namespace hyc {
#define GEN_PASS_DEF_REDUCEGRADIENTS
#include "hyc/Transforms/Local/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;
using dist::ShardingAttr;

namespace {

using StageSets = llvm::DenseMap<StringAttr, llvm::SmallSet<int64_t, 4>>;

/// The stages whose functions add to each state.
StageSets accumulatingStages(ModuleOp module, dist::MeshOp mesh) {
  StageSets stages;
  for (auto func : module.getOps<FuncOp>())
    func.walk([&](AccumulateOp op) {
      stages[op.getTargetAttr().getAttr()].insert(mesh.getStageOf(dist::chunkOf(func).value_or(0)));
    });
  return stages;
}

struct ReduceGradients : hyc::impl::ReduceGradientsBase<ReduceGradients> {
  using ReduceGradientsBase::ReduceGradientsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    FailureOr<std::string> type = policyOf<&Plan::communicationType>(module);
    if (failed(type))
      return signalPassFailure();
    communicationType = *type;
    dist::MeshOp mesh = dist::MeshOp::find(module);
    if (!mesh) {
      module.emitError("has no dist.mesh");
      return signalPassFailure();
    }
    if (failed(checkCommunicationType(module)))
      return signalPassFailure();
    accumulatingByState =
        accumulatingStages(module, mesh); // once: a model has thousands of states, and functions thousands of ops
    module.walk([&](AccumulateOp op) {
      if (op.getMax())
        maxima.insert(op.getTargetAttr().getAttr());
    });
    for (int64_t stage = 0, stages = mesh.getStages(); stage < stages; ++stage)
      buildFunction(module, stage);
  }

private:
  std::string communicationType; ///< empty: that of the gradient

  /// The element type in which gradients cross; null where they cross as they are.
  Type communicationElement() {
    Builder builder(&getContext());
    return llvm::StringSwitch<Type>(communicationType)
        .Case("f32", builder.getF32Type())
        .Case("bf16", builder.getBF16Type())
        .Case("fp16", builder.getF16Type())
        .Default(Type());
  }

  /// Only whole gradients that are summed once a step can cross in another type.
  LogicalResult checkCommunicationType(ModuleOp module) {
    if (!communicationElement())
      return success();
    for (auto state : module.getOps<StateOp>()) {
      if (!state.is(StateRole::gradient) || state.getTensorType().getElementType() == communicationElement() ||
          (!isReducedPerMicroBatch(state) && !state->hasAttr(dist::kOwned)))
        continue;
      return state.emitError("is summed ")
             << (isReducedPerMicroBatch(state) ? "for each micro-batch" : "into flat shards")
             << ", but the communication type is " << communicationType
             << ", which needs gradients to be summed whole, once a step (--zero 0, --gradient-reduction step)";
    }
    return success();
  }

  void buildFunction(ModuleOp module, int64_t stage) {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto func = FuncOp::create(builder, module.getLoc(), dist::functionName(dist::InstructionKind::reduce, stage),
                               builder.getFunctionType({}, {}));
    func->setAttr(dist::kStage, builder.getI64IntegerAttr(stage));
    Block &body = func.getBody().front();
    builder.setInsertionPointToEnd(&body);
    Block waits;
    OpBuilder ends(&getContext());
    ends.setInsertionPointToEnd(&waits);
    for (auto state : module.getOps<StateOp>())
      reduceState({builder, ends}, module, state, stage);
    body.getOperations().splice(body.end(), waits.getOperations());
    builder.setInsertionPointToEnd(&body);
    ReturnOp::create(builder, module.getLoc(), ValueRange());
  }

  /// Where reductions are started, and where they are awaited and their sums stored.
  struct Builders {
    OpBuilder &start, &end;
  };

  void reduceState(Builders builders, ModuleOp module, StateOp state, int64_t stage) {
    llvm::SmallSet<int64_t, 4> accumulating = accumulatingByState.lookup(state.getSymNameAttr());
    if (accumulating.empty())
      return;
    auto heldBy = state->getAttrOfType<DenseI64ArrayAttr>(dist::kStages).asArrayRef();
    if (!llvm::is_contained(heldBy, stage))
      return;
    auto sharding = state->getAttrOfType<ShardingAttr>(dist::kSharding);
    bool isMaximum = maxima.contains(state.getSymNameAttr());
    SmallVector<StringAttr> axes(sharding.getPartial().getAxes());
    if (isMaximum)
      axes = axesOfMaxima(dist::MeshOp::find(module));
    if (axes.empty() && heldBy.size() == 1)
      return;
    Reduction reduction{state, local::groupOf(&getContext(), axes, heldBy.size() == 1 ? ArrayRef<int64_t>() : heldBy),
                        axes.empty() ? "held by several stages" : textOf(sharding), accumulating.contains(stage),
                        isMaximum ? dist::ReduceKind::max : dist::ReduceKind::sum};
    // Of what is kept elsewhere one is on the device at a time, so each sum is awaited before the next is begun.
    bool isElsewhere = dist::placementOf(state) != dist::kOnDevice;
    Builders chosen{builders.start, isElsewhere ? builders.start : builders.end};
    auto owned = state->getAttrOfType<dist::AxisListAttr>(dist::kOwned);
    if (owned && !axes.empty())
      reduceIntoShards(chosen, reduction, owned, dist::MeshOp::find(module));
    else
      reduceWhole(chosen, reduction, owned, dist::MeshOp::find(module));
  }

  /// Maxima cross over all axes, whichever of them they are open over: a maximum over ranks that agree changes nothing,
  /// and all of them, which are many and small, then share one exchange (hyc-coalesce-reductions).
  static SmallVector<StringAttr> axesOfMaxima(dist::MeshOp mesh) {
    SmallVector<StringAttr> axes;
    for (auto axis : mesh.getAxes().getAsRange<StringAttr>())
      if (mesh.getSize(axis) > 1)
        axes.push_back(axis);
    return axes;
  }

  struct Reduction {
    StateOp state;
    dist::GroupAttr group;
    std::string why;
    bool hasTerm; ///< this stage adds to the state
    dist::ReduceKind kind;
    Location loc() { return state.getLoc(); }
    FlatSymbolRefAttr name() { return FlatSymbolRefAttr::get(state.getSymNameAttr()); }
  };

  static Value zeros(OpBuilder &builder, Location loc, RankedTensorType type) {
    return ConstantOp::create(builder, loc, type,
                              DenseElementsAttr::get(type, builder.getZeroAttr(type.getElementType())));
  }

  /// Every member gets all of the sum, or of the maximum, where a member without a term counts as 0: maxima are of
  /// magnitudes. Of an `owned` state, whose own shard is a sum over ranks already, of that shard.
  void reduceWhole(Builders builders, Reduction &reduction, dist::AxisListAttr owned, dist::MeshOp mesh) {
    RankedTensorType type = reduction.state.getTensorType();
    if (owned)
      type = local::flatShardType(type, owned, mesh);
    auto onShard = [&](Operation *op) {
      if (owned)
        op->setAttr(dist::kFlat, owned);
    };
    RankedTensorType crossing = type;
    if (Type element = communicationElement(); element && reduction.state.is(StateRole::gradient))
      crossing = RankedTensorType::get(type.getShape(), element);
    // A stage that holds the state without adding to it contributes nothing, whatever the last step left there.
    Value term;
    if (reduction.hasTerm) {
      term = ReadOp::create(builders.start, reduction.loc(), type, reduction.name());
      onShard(term.getDefiningOp());
      if (crossing != type)
        term = ConvertOp::create(builders.start, reduction.loc(), crossing, term);
    } else {
      term = zeros(builders.start, reduction.loc(), crossing);
    }
    Value sum = local::allReduce({builders.start, builders.end, reduction.loc()}, reduction.kind, term, reduction.group,
                                 {reduction.state.getSymName(), reduction.why});
    if (crossing != type)
      sum = ConvertOp::create(builders.end, reduction.loc(), type, sum);
    onShard(WriteOp::create(builders.end, reduction.loc(), sum, reduction.name()));
  }

  /// Every member gets its own shard of the sum, in its own slice of the state. A stage without a term clears the state
  /// first: all members work in place, so that two with the same shard can share its work.
  void reduceIntoShards(Builders builders, Reduction &reduction, dist::AxisListAttr owned, dist::MeshOp mesh) {
    RankedTensorType type = reduction.state.getTensorType();
    Location loc = reduction.loc();
    if (!reduction.hasTerm)
      WriteOp::create(builders.start, loc, zeros(builders.start, loc, type), reduction.name());
    Value term = ReadOp::create(builders.start, loc, type, reduction.name());
    Value sum =
        local::reduceScatterFlat({builders.start, builders.end, loc}, term, local::flatShardType(type, owned, mesh),
                                 owned, reduction.group, {reduction.state.getSymName(), reduction.why});
    WriteOp::create(builders.end, loc, sum, reduction.name())->setAttr(dist::kFlat, owned);
  }

  StageSets accumulatingByState;
  llvm::DenseSet<StringAttr> maxima; ///< states that functions add to as the greater of two
};
} // namespace
