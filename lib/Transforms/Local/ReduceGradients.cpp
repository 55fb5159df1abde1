// Builds @reduce.S: the exchanges at the end of a step.
#include "Exchanges.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Transforms/Local/Passes.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallSet.h"

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
StageSets accumulatingStages(ModuleOp module) {
  StageSets stages;
  for (auto func : module.getOps<FuncOp>())
    func.walk([&](AccumulateOp op) {
      stages[op.getTargetAttr().getAttr()].insert(func->getAttrOfType<IntegerAttr>(dist::kStage).getInt());
    });
  return stages;
}

struct ReduceGradients : hyc::impl::ReduceGradientsBase<ReduceGradients> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    dist::MeshOp mesh = dist::MeshOp::find(module);
    if (!mesh) {
      module.emitError("has no dist.mesh");
      return signalPassFailure();
    }
    accumulatingByState =
        accumulatingStages(module); // once: a model has thousands of states, and functions thousands of ops
    for (int64_t stage = 0, stages = mesh.getStages(); stage < stages; ++stage)
      buildFunction(module, stage, stages);
  }

private:
  void buildFunction(ModuleOp module, int64_t stage, int64_t stages) {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    auto func =
        FuncOp::create(builder, module.getLoc(), "reduce." + std::to_string(stage), builder.getFunctionType({}, {}));
    func->setAttr(dist::kStage, builder.getI64IntegerAttr(stage));
    builder.setInsertionPointToEnd(&func.getBody().front());
    for (auto state : module.getOps<StateOp>())
      reduceState(builder, module, state, stage, stages);
    ReturnOp::create(builder, module.getLoc(), ValueRange());
  }

  void reduceState(OpBuilder &builder, ModuleOp module, StateOp state, int64_t stage, int64_t stages) {
    llvm::SmallSet<int64_t, 4> accumulating = accumulatingByState.lookup(state.getSymNameAttr());
    if (accumulating.empty())
      return;
    auto heldBy = state->getAttrOfType<DenseI64ArrayAttr>(dist::kStages).asArrayRef();
    if (!llvm::is_contained(heldBy, stage))
      return;
    auto sharding = state->getAttrOfType<ShardingAttr>(dist::kSharding);
    ArrayRef<StringAttr> axes = sharding.getPartial().getAxes();
    if (axes.empty() && heldBy.size() == 1)
      return;
    // A stage that holds the state without adding to it contributes nothing, whatever the last step left there.
    Location loc = state.getLoc();
    RankedTensorType type = state.getTensorType();
    auto name = FlatSymbolRefAttr::get(state.getSymNameAttr());
    Value term;
    if (accumulating.contains(stage))
      term = ReadOp::create(builder, loc, type, name);
    else
      term = ConstantOp::create(builder, loc, type,
                                DenseElementsAttr::get(type, builder.getZeroAttr(type.getElementType())));
    std::string why = axes.empty() ? "held by several stages" : local::textOf(sharding);
    Value sum = local::allReduce(builder, builder, loc, dist::ReduceKind::sum, term,
                                 local::groupOf(&getContext(), axes, heldBy.size() == 1 ? ArrayRef<int64_t>() : heldBy),
                                 {state.getSymName(), why});
    WriteOp::create(builder, loc, sum, name);
  }

  StageSets accumulatingByState;
};
} // namespace
