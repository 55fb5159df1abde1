// Builds @apply.S from @apply.
//
// Where the update of a parameter works on flat shards, every rank updates its own and refreshes its own shard of the
// copy in the compute type; whichever of the two is stored whole is gathered afterwards, where it lies. Gathers follow
// the last update, one after the other, so that they can share exchanges.
#include "Exchanges.h"
#include "dialects/Dist/AttributeText.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/FlatStates.h"
#include "hyc/Transforms/Local/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringMap.h"
#include <numeric>

namespace hyc {
#define GEN_PASS_DEF_DISTRIBUTEUPDATE
#include "hyc/Transforms/Local/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;
using dist::AxisListAttr;
using dist::ShardingAttr;

namespace {

/// The mesh axes that split any dimension.
SmallVector<StringAttr> splittingAxes(ShardingAttr sharding) {
  SmallVector<StringAttr> axes;
  for (dist::AxisListAttr dim : sharding.getDims())
    llvm::append_range(axes, dim.getAxes());
  return axes;
}

struct DistributeUpdate : hyc::impl::DistributeUpdateBase<DistributeUpdate> {
  void runOnOperation() override {
    module = getOperation();
    auto apply = module.lookupSymbol<FuncOp>(kApply);
    dist::MeshOp mesh = dist::MeshOp::find(module);
    if (!apply || !mesh) {
      module.emitError("has no ") << (apply ? "dist.mesh" : "@apply") << " to distribute";
      return signalPassFailure();
    }
    stages = mesh.getStages();
    findNeeds(apply);
    for (ParamStates &states : collectParamStates(module)) {
      StringRef name = states.param.getSymName();
      paramStates.try_emplace(name, std::move(states));
    }
    for (int64_t stage = 0; stage < stages; ++stage)
      if (failed(buildFunction(apply, stage)))
        return signalPassFailure();
    apply.erase();
  }

private:
  LogicalResult buildFunction(FuncOp apply, int64_t stage) {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto func = FuncOp::create(builder, apply.getLoc(), dist::functionName(dist::InstructionKind::apply, stage),
                               apply.getFunctionType());
    func->setAttr(dist::kStage, builder.getI64IntegerAttr(stage));
    if (ArrayAttr attributes = apply.getArgAttrsAttr())
      func.setAllArgAttrs(attributes);
    builder.setInsertionPointToEnd(&func.getBody().front());
    IRMapping mapping;
    mapping.map(apply.getArguments(), func.getArguments());
    SmallVector<UpdatedShard> updatedInShards;
    for (Operation &op : apply.getBody().front()) {
      if (isa<ReturnOp>(op))
        gatherWholes(builder, updatedInShards);
      if (auto squares = dyn_cast<SumOfSquaresOp>(op)) {
        if (!isLocal(squares) || needs.lookup(&op).test(stage))
          mapping.map(squares.getResult(), sumOfSquares(builder, squares, stage));
        continue;
      }
      FailureOr<bool> here = isHere(&op, stage);
      if (failed(here))
        return failure();
      if (!*here)
        continue;
      Operation *made = builder.clone(op, mapping);
      auto update = dyn_cast<UpdateOpInterface>(op);
      if (update || isa<RefreshOp>(op)) {
        const ParamStates &states = paramStates.find(op.getAttrOfType<FlatSymbolRefAttr>("param").getValue())->second;
        AxisListAttr axes = states.updateAxes();
        if (axes.empty())
          continue;
        made->setAttr(dist::kFlat, axes);
        Operation *changed = update ? ParamOp(states.param).getOperation() : StateOp(states.copy).getOperation();
        if ((!update || update.changesParam()) && flatAxesOf(changed).empty())
          updatedInShards.push_back({changed, axes});
      }
    }
    return success();
  }

  /// A parameter or copy that is stored whole and of which each rank has changed its own slice.
  struct UpdatedShard {
    Operation *symbol;
    AxisListAttr axes;

    StringRef name() const { return cast<SymbolOpInterface>(symbol).getName(); }
    RankedTensorType wholeType() const {
      auto param = dyn_cast<ParamOp>(symbol);
      return param ? param.getTensorType() : cast<StateOp>(symbol).getTensorType();
    }
  };

  /// Joins the slices that ranks have changed.
  void gatherWholes(OpBuilder &builder, ArrayRef<UpdatedShard> updated) {
    SmallVector<Value> pending;
    for (const UpdatedShard &slice : updated) {
      Location loc = slice.symbol->getLoc();
      RankedTensorType whole = slice.wholeType();
      auto shard = ReadOp::create(builder, loc, local::flatShardType(whole, slice.axes, dist::MeshOp::find(module)),
                                  slice.name());
      shard->setAttr(dist::kFlat, slice.axes);
      pending.push_back(
          local::startAllGatherFlat(builder, loc, shard, whole, slice.axes,
                                    {slice.name(), "its update works on shards flat over " + textOf(slice.axes)}));
    }
    for (auto [slice, value] : llvm::zip_equal(updated, pending)) {
      Location loc = slice.symbol->getLoc();
      auto whole = dist::WaitOp::create(builder, loc, slice.wholeType(), value);
      WriteOp::create(builder, loc, whole, FlatSymbolRefAttr::get(&getContext(), slice.name()));
    }
  }

  static ShardingAttr shardingOf(Operation *symbol) { return symbol->getAttrOfType<ShardingAttr>(dist::kSharding); }

  Operation *symbolOf(StringRef name) { return getAnalysis<SymbolTable>().lookup(name); }

  /// The stages that hold a symbol.
  llvm::SmallBitVector holders(StringRef name) {
    llvm::SmallBitVector set(static_cast<unsigned>(stages));
    for (int64_t stage : symbolOf(name)->getAttrOfType<DenseI64ArrayAttr>(dist::kStages).asArrayRef())
      if (stage < stages)
        set.set(static_cast<unsigned>(stage));
    return set;
  }

  /// Whether a stage takes part in an op: in updates of what it holds, in values that those need, and in everything
  /// else of the step.
  FailureOr<bool> isHere(Operation *op, int64_t stage) {
    if (isa<UpdateOpInterface, RefreshOp, ReadOp, WriteOp, IncrementOp, UpdateLossScaleOp, UpdateFp8ScaleOp, ReturnOp>(
            op) ||
        isMemoryEffectFree(op))
      return needs.lookup(op).test(static_cast<unsigned>(stage));
    op->emitOpError("can't be distributed over stages");
    return failure();
  }

  /// Finds, from the last op to the first, the stages that need each: those of its users come before its own.
  void findNeeds(FuncOp apply) {
    for (Operation &op : llvm::reverse(apply.getBody().front()))
      needs[&op] = stagesThatNeed(&op);
    for (auto squares : apply.getBody().front().getOps<SumOfSquaresOp>())
      if (isHeldWhereNeeded(squares))
        localSums.insert(squares);
  }

  llvm::SmallBitVector stagesThatNeed(Operation *op) {
    if (auto update = dyn_cast<UpdateOpInterface>(op))
      return holders(update.getParamAttr().getValue());
    if (auto refresh = dyn_cast<RefreshOp>(op))
      return holders(refresh.getParam());
    if (auto update = dyn_cast<UpdateFp8ScaleOp>(op))
      return holders(update.getScale());
    auto count = static_cast<unsigned>(stages);
    if (isa<ReadOp, WriteOp, IncrementOp, UpdateLossScaleOp, ReturnOp>(op))
      return llvm::SmallBitVector(count, true);
    llvm::SmallBitVector set(count);
    for (Operation *user : op->getUsers())
      set |= needs.lookup(user);
    return set;
  }

  /// Whether every stage that needs a sum holds all that it sums: its own shards and those along the axes suffice then.
  bool isLocal(SumOfSquaresOp op) { return localSums.contains(op); }

  bool isHeldWhereNeeded(SumOfSquaresOp op) {
    llvm::SmallBitVector needed = needs.lookup(op);
    return llvm::all_of(op.getStates().getAsRange<FlatSymbolRefAttr>(), [&](FlatSymbolRefAttr name) {
      return !needed.test(holders(name.getValue())); // of bit vectors: no bit of the first that the second lacks
    });
  }

  /// Which elements of a tensor one rank counts: its shard by dimensions, and of that maybe its flat shard.
  struct Portion {
    SmallVector<StringAttr> dims;
    AxisListAttr flat;
    SmallVector<Attribute> names;
  };

  SmallVector<Portion> portionsOf(SumOfSquaresOp op, int64_t stage) {
    SmallVector<Portion> portions{{{}, AxisListAttr::get(&getContext(), {}), {}}};
    bool local = isLocal(op);
    for (auto name : op.getStates().getAsRange<FlatSymbolRefAttr>()) {
      Operation *state = symbolOf(name.getValue());
      // A tied parameter's gradient is equal on all of its stages: the first one counts it.
      if (!local && state->getAttrOfType<DenseI64ArrayAttr>(dist::kStages).asArrayRef().front() != stage)
        continue;
      SmallVector<StringAttr> dims = splittingAxes(shardingOf(state));
      auto owned = state->getAttrOfType<AxisListAttr>(dist::kOwned);
      AxisListAttr flat = owned ? owned : flatAxesOf(state);
      auto *portion =
          llvm::find_if(portions, [&](const Portion &known) { return known.dims == dims && known.flat == flat; });
      if (portion == portions.end()) {
        portions.push_back({dims, flat, {}});
        portion = &portions.back();
      }
      portion->names.push_back(name);
    }
    return portions;
  }

  /// Exact sums of squares of shards, portion by portion: each is summed over the axes that split it, then all stages
  /// are.
  Value sumOfSquares(OpBuilder &builder, SumOfSquaresOp op, int64_t stage) {
    Location loc = op.getLoc();
    auto exact = RankedTensorType::get({kExactSumLimbs}, builder.getI64Type());
    Value total;
    bool local = isLocal(op);
    bool ofStep = llvm::any_of(op->getUsers(), llvm::IsaPred<GradientScaleOp>);
    local::Reason splitReason{ofStep ? "grad_norm" : getId(op),
                              ofStep ? "squares of split gradients" : "squares of a split tensor"};
    SmallVector<Portion> portions = portionsOf(op, stage);
    for (const Portion &portion : portions) {
      if (portion.names.empty() && portions.size() > 1)
        continue;
      auto squares = SumOfSquaresOp::create(builder, loc, exact, builder.getArrayAttr(portion.names));
      if (!portion.flat.empty())
        squares->setAttr(dist::kFlat, portion.flat);
      SmallVector<StringAttr> axes = portion.dims;
      llvm::append_range(axes, portion.flat.getAxes());
      Value sum = squares;
      if (!axes.empty())
        sum = local::allReduce({builder, builder, loc}, dist::ReduceKind::sum, sum, local::groupOf(&getContext(), axes),
                               splitReason);
      total = total ? AddOp::create(builder, loc, total, sum).getResult() : sum;
    }
    if (!local) {
      SmallVector<int64_t> all(stages);
      std::iota(all.begin(), all.end(), 0);
      total =
          local::allReduce({builder, builder, loc}, dist::ReduceKind::sum, total,
                           local::groupOf(&getContext(), {}, all), {"grad_norm", "squares of every stage's gradients"});
    }
    return RoundSumOp::create(builder, loc, op.getType(), total);
  }

  ModuleOp module;
  int64_t stages = 1;
  llvm::StringMap<ParamStates> paramStates;
  llvm::DenseMap<Operation *, llvm::SmallBitVector> needs; ///< of the ops of @apply: the stages that need them
  llvm::DenseSet<Operation *> localSums;                   ///< sums that no two stages have parts of
};
} // namespace
