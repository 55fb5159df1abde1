// Checks the invariant of phase 3.
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/FlatStates.h"
#include "hyc/Analysis/OpSharding.h"
#include "hyc/Plan/Policies.h"
#include "hyc/Transforms/Plan/Passes.h"

namespace hyc {
#define GEN_PASS_DEF_VERIFYPLAN
#include "hyc/Transforms/Plan/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {
struct VerifyPlan : hyc::impl::VerifyPlanBase<VerifyPlan> {
  void runOnOperation() override {
    if (failed(verifyModule()))
      signalPassFailure();
  }

private:
  LogicalResult verifyModule() {
    ModuleOp module = getOperation();
    auto func = module.lookupSymbol<FuncOp>(kMicrobatch);
    dist::MeshOp mesh = dist::MeshOp::find(module);
    if (!mesh || !func)
      return module.emitError("has no ") << (mesh ? "@microbatch" : "dist.mesh");
    int64_t stages = mesh.getStages();
    auto schedules = module.getOps<dist::ScheduleOp>();
    int64_t scheduled = std::distance(schedules.begin(), schedules.end());
    if (scheduled != stages)
      return mesh.emitError("has ") << stages << " stages, but there are " << scheduled << " schedules";
    for (Operation &op : module.getBody()->getOperations())
      if (isa<ParamOp, StateOp>(op) && (!op.hasAttr(dist::kSharding) || !op.hasAttr(dist::kStages)))
        return op.emitError("has no ") << (op.hasAttr(dist::kSharding) ? dist::kStages : dist::kSharding);
    for (Operation &op : func.getBody().front())
      if (failed(verifyOp(&op, mesh)))
        return failure();
    if (failed(verifyPolicies(module)))
      return failure();
    return checkFlatStates(module, mesh);
  }

  LogicalResult verifyOp(Operation *op, dist::MeshOp mesh) {
    if (isa<ReturnOp>(op))
      return success();
    if (op->getNumResults() > 0 && !op->hasAttr(dist::kShardings))
      return op->emitError("has no dist.shardings");
    if (auto rule = dyn_cast<ShardingRuleOpInterface>(op);
        rule && failed(recordedOpSharding(op, rule.getShardingRule(), mesh)))
      return failure();
    std::optional<int64_t> chunk = dist::chunkOf(op);
    if (!chunk)
      return op->emitError("has no dist.stage");
    if (*chunk < 0 || *chunk >= mesh.getChunks())
      return op->emitError("is on stage ") << *chunk << ", expected one below " << mesh.getChunks();
    return success();
  }
};
} // namespace
