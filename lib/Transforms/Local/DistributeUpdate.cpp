// Builds @apply.S from @apply.
#include "Exchanges.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Transforms/Local/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"
#include <numeric>

namespace hyc {
#define GEN_PASS_DEF_DISTRIBUTEUPDATE
#include "hyc/Transforms/Local/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;
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
    auto apply = module.lookupSymbol<FuncOp>("apply");
    dist::MeshOp mesh = dist::MeshOp::find(module);
    if (!apply || !mesh) {
      module.emitError("has no ") << (apply ? "dist.mesh" : "@apply") << " to distribute";
      return signalPassFailure();
    }
    stages = mesh.getStages();
    for (int64_t stage = 0; stage < stages; ++stage)
      if (failed(buildFunction(apply, stage)))
        return signalPassFailure();
    apply.erase();
  }

private:
  LogicalResult buildFunction(FuncOp apply, int64_t stage) {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto func = FuncOp::create(builder, apply.getLoc(), "apply." + std::to_string(stage), apply.getFunctionType());
    func->setAttr(dist::kStage, builder.getI64IntegerAttr(stage));
    func.setAllArgAttrs(apply.getArgAttrsAttr());
    builder.setInsertionPointToEnd(&func.getBody().front());
    IRMapping mapping;
    mapping.map(apply.getArguments(), func.getArguments());
    for (Operation &op : apply.getBody().front()) {
      if (auto squares = dyn_cast<SumOfSquaresOp>(op)) {
        mapping.map(squares.getResult(), sumOfSquares(builder, squares, stage));
        continue;
      }
      FailureOr<bool> here = isHere(&op, stage);
      if (failed(here))
        return failure();
      if (*here)
        builder.clone(op, mapping);
    }
    return success();
  }

  bool holds(StringRef symbol, int64_t stage) {
    return llvm::is_contained(
        module.lookupSymbol(symbol)->getAttrOfType<DenseI64ArrayAttr>(dist::kStages).asArrayRef(), stage);
  }

  /// Whether a stage takes part in an op: in updates of what it holds, and in everything that every stage needs.
  FailureOr<bool> isHere(Operation *op, int64_t stage) {
    if (auto adamw = dyn_cast<AdamWOp>(op))
      return holds(adamw.getParam(), stage);
    if (auto sgd = dyn_cast<SgdOp>(op))
      return holds(sgd.getParam(), stage);
    if (isa<ReadOp, WriteOp, IncrementOp, GradientScaleOp, ConstantOp, ReturnOp>(op) || isMemoryEffectFree(op))
      return true;
    op->emitOpError("can't be distributed over stages");
    return failure();
  }

  /// Squares of shards, grouped by the axes that split them; each group is summed over its axes, then all stages are.
  Value sumOfSquares(OpBuilder &builder, SumOfSquaresOp op, int64_t stage) {
    llvm::MapVector<Attribute, SmallVector<Attribute>> groups;
    groups[ArrayAttr::get(&getContext(), {})];
    for (auto name : op.getStates().getAsRange<FlatSymbolRefAttr>()) {
      Operation *state = module.lookupSymbol(name);
      // A tied parameter's gradient is equal on all of its stages: the first one counts it.
      if (state->getAttrOfType<DenseI64ArrayAttr>(dist::kStages).asArrayRef().front() != stage)
        continue;
      SmallVector<Attribute> axes;
      for (StringAttr axis : splittingAxes(state->getAttrOfType<ShardingAttr>(dist::kSharding)))
        axes.push_back(axis);
      groups[ArrayAttr::get(&getContext(), axes)].push_back(name);
    }
    Value total;
    for (auto &[key, names] : groups) {
      Value sum = SumOfSquaresOp::create(builder, op.getLoc(), op.getType(), builder.getArrayAttr(names)).getResult();
      SmallVector<StringAttr> axes(cast<ArrayAttr>(key).getAsRange<StringAttr>());
      if (!axes.empty())
        sum = local::allReduce(builder, builder, op.getLoc(), dist::ReduceKind::sum, sum,
                               local::groupOf(&getContext(), axes), {"grad_norm", "squares of split gradients"});
      total = total ? AddOp::create(builder, op.getLoc(), total, sum).getResult() : sum;
    }
    if (stages == 1)
      return total;
    SmallVector<int64_t> all(stages);
    std::iota(all.begin(), all.end(), 0);
    return local::allReduce(builder, builder, op.getLoc(), dist::ReduceKind::sum, total,
                            local::groupOf(&getContext(), {}, all), {"grad_norm", "squares of every stage's gradients"});
  }

  ModuleOp module;
  int64_t stages = 1;
};
} // namespace
