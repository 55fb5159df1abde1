// Imports and pass managers for the pipeline tests.
#include "Gpt2Pipeline.h"

#include "test/Places.h"

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Import/ONNX/Import.h"

using namespace hyc;

std::unique_ptr<mlir::MLIRContext> pipelines::makeContext() {
  auto context = std::make_unique<mlir::MLIRContext>();
  context->disableMultithreading();
  context->loadDialect<HycDialect, dist::DistDialect, rank::RankDialect>();
  return context;
}

mlir::OwningOpRef<mlir::ModuleOp> pipelines::importTiny(mlir::MLIRContext &context, int64_t batch) {
  ImportOptions options;
  options.batch = batch;
  auto module = importOnnx(context, hyc::places::model("gpt2-tiny.onnx"), options);
  return succeeded(module) ? std::move(*module) : nullptr;
}

bool pipelines::runPhases(mlir::ModuleOp module, Phase first, Phase last, const Plan &plan, JobAccount *account) {
  mlir::PassManager passes(module.getContext());
  for (Phase phase : kPhases) {
    if (phase < first || phase > last)
      continue;
    buildPhase(phase, passes, plan, account);
    buildVerification(phase, passes);
  }
  return succeeded(passes.run(module));
}
