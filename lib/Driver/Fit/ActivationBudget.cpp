// Each stage's budget moves by as much as its arena is over or under the limit: what backward needs beside saved values
// changes little, so a few rounds do.
#include "Fit/ActivationBudget.h"

#include "hyc/Support/ByteCount.h"
#include "hyc/Support/DriverError.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Pass/PassManager.h"

#include <algorithm>

using namespace mlir;
using namespace hyc;

/// Compilations of the phases 3 to 5 that a search may take.
static constexpr int kMostRounds = 8;

/// Bytes of the activations arena by stage; empty if some phase fails, which the compilation proper will tell about.
static std::vector<int64_t> arenasUnder(const std::vector<int64_t> &budgets, ModuleOp train, Plan plan) {
  ScopedDiagnosticHandler silence(train.getContext(), [](Diagnostic &) { return success(); });
  OwningOpRef<ModuleOp> module(train.clone());
  JobAccount job;
  plan.activationBudgets = budgets;
  PassManager passes(train.getContext());
  buildPhase(Phase::Plan, passes, plan);
  buildPhase(Phase::Local, passes, plan);
  buildPlacement(passes, &job);
  std::vector<int64_t> bytes;
  if (failed(passes.run(*module)))
    return bytes;
  for (const StageAccount &stage : job.stages) {
    bytes.resize(std::max<size_t>(bytes.size(), stage.stage + 1));
    if (const ArenaAccount *arena = stage.findArena(rank::kActivations))
      bytes[stage.stage] = arena->bytes;
  }
  return bytes;
}

static bool allFit(const std::vector<int64_t> &bytes, int64_t limit) {
  return std::all_of(bytes.begin(), bytes.end(), [&](int64_t stage) { return stage <= limit; });
}

llvm::Expected<std::vector<int64_t>> hyc::findActivationBudgets(ModuleOp train, const Plan &plan, int64_t limit) {
  std::vector<int64_t> none(*plan.pp, 0), least = arenasUnder(none, train, plan);
  if (least.empty())
    return none;
  if (!allFit(least, limit)) {
    auto worst = std::max_element(least.begin(), least.end());
    return makeError(ExitCode::Data, "activations of stage " + Twine(worst - least.begin()) + " take at least " +
                                         Twine(*worst) +
                                         " bytes a rank, with everything between layers computed again, "
                                         "but --activation-memory is " +
                                         Twine(limit) + "; raise it, or lower --micro-batch or raise --tp or --pp");
  }
  std::vector<int64_t> best = none, tried(*plan.pp, limit);
  for (int round = 0; round < kMostRounds && tried != best; ++round) {
    std::vector<int64_t> bytes = arenasUnder(tried, train, plan);
    if (bytes.empty())
      return none;
    std::vector<int64_t> next = tried;
    for (size_t stage = 0; stage < bytes.size(); ++stage) {
      // Never back to what is known not to fit: halfway to what does.
      if (bytes[stage] <= limit)
        best[stage] = tried[stage];
      else
        next[stage] = std::max(tried[stage] - (bytes[stage] - limit), best[stage] + (tried[stage] - best[stage]) / 2);
    }
    for (size_t stage = 0; stage < bytes.size(); ++stage)
      if (bytes[stage] > limit && next[stage] - best[stage] < limit / 100)
        next[stage] = best[stage];
    tried = next;
  }
  return best;
}

llvm::Error hyc::checkActivationMemory(const JobAccount &job, const CompileOptions &options) {
  if (options.activationMemory->empty())
    return llvm::Error::success();
  llvm::Expected<int64_t> limit = parseByteCount("activation-memory", *options.activationMemory);
  if (!limit)
    return limit.takeError();
  for (const StageAccount &stage : job.stages)
    if (const ArenaAccount *arena = stage.findArena(rank::kActivations); arena && arena->bytes > *limit)
      return makeError(ExitCode::Data, "activations of stage " + Twine(stage.stage) + " take " + Twine(arena->bytes) +
                                           " bytes a rank under this plan, but --activation-memory is " +
                                           *options.activationMemory);
  return llvm::Error::success();
}
