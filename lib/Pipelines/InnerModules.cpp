// A pass that runs others on modules inside.
#include "InnerModules.h"

#include "dialects/Dist/DistDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Analysis/Entry.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using namespace hyc;

namespace {
class RunInside : public PassWrapper<RunInside, OperationPass<ModuleOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(RunInside)
  RunInside(InnerModules which, InnerPipeline build) : which(which), build(std::move(build)) {}

  StringRef getName() const override { return "RunInside"; }

  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<HycDialect, dist::DistDialect, rank::RankDialect>();
  }

  void runOnOperation() override {
    ModuleOp around = getOperation();
    for (ModuleOp inside : modulesOf(around)) {
      OpPassManager passes(ModuleOp::getOperationName());
      build(passes, around);
      if (failed(runPipeline(passes, inside)))
        return signalPassFailure();
    }
  }

private:
  SmallVector<ModuleOp> modulesOf(ModuleOp around) {
    switch (which) {
    case InnerModules::All:
      return SmallVector<ModuleOp>(around.getOps<ModuleOp>());
    case InnerModules::Evaluation:
      if (ModuleOp evaluation = evaluationOf(around))
        return {evaluation};
      return {};
    case InnerModules::Sizes:
      return sizesInside(around);
    }
    llvm_unreachable("not a kind of inner module");
  }

  InnerModules which;
  InnerPipeline build;
};
} // namespace

std::unique_ptr<Pass> hyc::createRunInside(InnerModules which, InnerPipeline build) {
  return std::make_unique<RunInside>(which, std::move(build));
}
