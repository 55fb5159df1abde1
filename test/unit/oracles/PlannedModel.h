// GPT-2s of published sizes, built from their configuration and planned without being executed.
#ifndef HYC_TEST_UNIT_ORACLES_PLANNEDMODEL_H
#define HYC_TEST_UNIT_ORACLES_PLANNEDMODEL_H

#include "hyc/Import/HuggingFace/Decoder.h"
#include "hyc/Pipelines/Pipelines.h"
#include "mlir/IR/MLIRContext.h"

#include <functional>
#include <memory>

namespace hyc::oracles {

class PlannedModel {
public:
  /// Builds the graph over `samples` samples of all positions.
  PlannedModel(const DecoderConfig &config, int64_t samples);

  /// Runs all phases up to `last`; in phase 5 only placement, which fills in the account.
  bool plan(Plan options, Phase last = Phase::Rank);

  /// Called before the passes of each phase; what it returns is whether to go on.
  std::function<bool(Phase, mlir::ModuleOp)> beforePhase;

  mlir::ModuleOp get() const { return *module; }
  const JobAccount &account() const { return job; }

private:
  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  JobAccount job;
};

/// Elements of all parameters.
int64_t countParameters(mlir::ModuleOp module);

} // namespace hyc::oracles

#endif // HYC_TEST_UNIT_ORACLES_PLANNEDMODEL_H
