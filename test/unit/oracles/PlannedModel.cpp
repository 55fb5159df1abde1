// Building a GPT-2 of a published size and running the phases up to its plan.
#include "PlannedModel.h"

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "mlir/Pass/PassManager.h"

using namespace hyc;
using namespace hyc::oracles;

PlannedModel::PlannedModel(const DecoderConfig &config, int64_t samples)
    : context(std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED)) {
  context->loadDialect<HycDialect, dist::DistDialect, rank::RankDialect>();
  module = buildDecoder(*context, config, samples, config.positions);
}

bool PlannedModel::plan(Plan options, Phase last) {
  options.logits = "logits";
  job.tp = options.tp, job.pp = options.pp, job.dp = options.dp;
  for (Phase phase : kPhases) {
    if (phase > last)
      continue;
    if (beforePhase && !beforePhase(phase, *module))
      return false;
    mlir::PassManager passes(context.get());
    if (phase == Phase::Rank)
      buildPlacement(passes, &job);
    else
      buildPhase(phase, passes, options);
    if (failed(passes.run(*module)))
      return false;
  }
  return true;
}

int64_t hyc::oracles::countParameters(mlir::ModuleOp module) {
  int64_t count = 0;
  for (ParamOp param : module.getOps<ParamOp>())
    count += param.getWholeType().getNumElements();
  return count;
}
