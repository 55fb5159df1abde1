// Carries shardings from parameters and inputs to every value, by factor classes.
#include "hyc/Analysis/FactorClasses.h"
#include "hyc/Analysis/OpSharding.h"
#include "hyc/Transforms/Plan/Passes.h"
#include "mlir/IR/Builders.h"

namespace hyc {
#define GEN_PASS_DEF_PROPAGATESHARDINGS
#include "hyc/Transforms/Plan/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;
using dist::ShardingAttr;

namespace {
struct PropagateShardings : hyc::impl::PropagateShardingsBase<PropagateShardings> {
  using PropagateShardingsBase::PropagateShardingsBase;

  void runOnOperation() override {
    module = getOperation();
    auto func = module.lookupSymbol<FuncOp>("microbatch");
    mesh = dist::MeshOp::find(module);
    if (!func || !mesh) {
      module.emitError("has no ") << (func ? "dist.mesh" : "@microbatch") << " to plan for";
      return signalPassFailure();
    }
    FactorClasses classes(func);
    if (failed(collectSeeds(func, classes)))
      return signalPassFailure();
    shardStates();
    for (Operation &op : func.getBody().front())
      shardOp(&op, classes);
    leaveGradientsPartial(func);
  }

private:
  /// Enters the axes that a parameter's or input's annotation gives to the classes of its dimensions.
  LogicalResult addSeed(Operation *where, ShardingAttr sharding, llvm::function_ref<int(int64_t)> classOf) {
    for (auto [dim, axes] : llvm::enumerate(sharding.getDims())) {
      int cls = classOf(dim);
      if (cls < 0 || axes.empty())
        continue;
      for (StringAttr axis : axes.getAxes())
        if (!llvm::is_contained(mesh.getAxes(), axis))
          return (where->emitError("sharding ") << sharding << " names axis \"" << axis.getValue()
                                                << "\", which the mesh does not have")
                     .attachNote(mesh.getLoc())
                 << "mesh declared here";
      auto [entry, inserted] = classAxes.try_emplace(cls, axes.getAxes());
      if (!inserted && entry->second != Axes(axes.getAxes()))
        return where->emitError("sharding ") << sharding << " splits dim " << dim << " over " << axes
                                             << ", but the same index is split over "
                                             << dist::AxisListAttr::get(&getContext(), entry->second) << " elsewhere";
    }
    return success();
  }

  LogicalResult collectSeeds(FuncOp func, const FactorClasses &classes) {
    for (BlockArgument argument : func.getArguments())
      if (ShardingAttr sharding = recordedSharding(argument))
        if (failed(addSeed(func, sharding, [&](int64_t dim) { return classes.classOf(argument, dim); })))
          return failure();
    for (auto param : module.getOps<ParamOp>())
      if (auto sharding = param->getAttrOfType<ShardingAttr>(dist::kSharding))
        if (failed(addSeed(param, sharding, [&](int64_t dim) { return classes.classOf(param.getSymNameAttr(), dim); })))
          return failure();
    return success();
  }

  /// A state lies as its parameter does; states without one are whole.
  void shardStates() {
    for (auto param : module.getOps<ParamOp>())
      if (!param->hasAttr(dist::kSharding))
        param->setAttr(dist::kSharding, ShardingAttr::replicated(&getContext(), param.getWholeType().getRank()));
    for (auto state : module.getOps<StateOp>()) {
      ShardingAttr sharding = ShardingAttr::replicated(&getContext(), state.getWholeType().getRank());
      if (state.getParamAttr())
        sharding = module.lookupSymbol<ParamOp>(state.getParamAttr())->getAttrOfType<ShardingAttr>(dist::kSharding);
      state->setAttr(dist::kSharding, sharding);
    }
  }

  void shardOp(Operation *op, const FactorClasses &classes) {
    if (op->getNumResults() == 0)
      return;
    SmallVector<Attribute> results;
    if (auto read = dyn_cast<ReadOp>(op)) {
      results.push_back(module.lookupSymbol(read.getSourceAttr())->getAttr(dist::kSharding));
    } else if (const ShardingRule *rule = classes.getRule(op)) {
      OpSharding sharding;
      sharding.factorAxes.resize(rule->factors.size());
      for (auto [factor, axes] : llvm::enumerate(sharding.factorAxes))
        if (auto entry = classAxes.find(classes.classOf(op, static_cast<int>(factor))); entry != classAxes.end())
          axes = entry->second;
      legalize(sharding, *rule);
      sharding.passedPartial = passablePartial(op, llvm::map_to_vector(op->getOperands(), recordedSharding), sharding.factorAxes);
      for (int index = 0, e = static_cast<int>(op->getNumResults()); index < e; ++index)
        results.push_back(sharding.resultSharding(&getContext(), *rule, index));
    } else {
      for (Type type : op->getResultTypes())
        results.push_back(ShardingAttr::replicated(&getContext(), cast<RankedTensorType>(type).getRank()));
    }
    op->setAttr(dist::kShardings, ArrayAttr::get(&getContext(), results));
  }

  /// What every accumulation leaves open may stay open until the step's reduction; anything else must be closed before.
  void leaveGradientsPartial(FuncOp func) {
    llvm::MapVector<StringAttr, SmallVector<StringAttr>> open;
    func.walk([&](AccumulateOp accumulate) {
      ArrayRef<StringAttr> partial = recordedSharding(accumulate.getValue()).getPartial().getAxes();
      auto [entry, inserted] = open.try_emplace(accumulate.getTargetAttr().getAttr(), partial);
      if (!inserted)
        llvm::erase_if(entry->second, [&](StringAttr axis) { return !llvm::is_contained(partial, axis); });
    });
    for (auto &[symbol, axes] : open) {
      Operation *state = module.lookupSymbol(symbol);
      auto sharding = state->getAttrOfType<ShardingAttr>(dist::kSharding);
      llvm::erase_if(axes, [&](StringAttr axis) { return sharding.splits(axis); });
      auto none = dist::AxisListAttr::get(&getContext(), {});
      state->setAttr(dist::kSharding, ShardingAttr::get(&getContext(), sharding.getDims(),
                                                        dist::AxisListAttr::get(&getContext(), axes), none, none));
    }
  }

  ModuleOp module;
  dist::MeshOp mesh;
  llvm::DenseMap<int, Axes> classAxes;
};
} // namespace
