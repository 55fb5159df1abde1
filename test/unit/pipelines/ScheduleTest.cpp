// Schedules of every small shape: nobody waits for ever, and no stage holds more micro-batches than it must.
#include "Gpt2Pipeline.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/CommunicationCheck.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassRegistry.h"
#include "hyc/Transforms/Plan/Passes.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>

using namespace hyc;
using namespace hyc::pipelines;

namespace {

/// A mesh of `stages`, empty stage functions, and the schedules that the pass writes.
mlir::OwningOpRef<mlir::ModuleOp> scheduled(mlir::MLIRContext &context, int64_t stages, int64_t microBatches,
                                            const std::string &kind) {
  std::string text = "dist.mesh @mesh axes [\"dp\", \"tp\"] sizes [1, 1] stages " + std::to_string(stages) + "\n";
  for (const char *function : {"forward", "backward", "reduce", "apply"})
    for (int64_t stage = 0; stage < stages; ++stage)
      text += "hyc.func @" + std::string(function) + "." + std::to_string(stage) + "() { hyc.return }\n";
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  mlir::PassManager passes(&context);
  BuildScheduleOptions options;
  options.schedule = kind;
  options.microBatches = microBatches;
  passes.addPass(createBuildSchedule(options));
  return module && succeeded(passes.run(*module)) ? std::move(module) : nullptr;
}

struct Tally {
  int64_t alive = 0, mostAlive = 0, forwards = 0, backwards = 0, applies = 0;
};

Tally tally(dist::ScheduleOp schedule) {
  Tally result;
  for (auto instruction : schedule.getInstructions().getAsRange<dist::InstructionAttr>()) {
    result.forwards += instruction.getKind() == dist::InstructionKind::forward;
    result.backwards += instruction.getKind() == dist::InstructionKind::backward;
    result.applies += instruction.getKind() == dist::InstructionKind::apply;
    result.alive = result.forwards - result.backwards;
    result.mostAlive = std::max(result.mostAlive, result.alive);
  }
  return result;
}

TEST(Schedule, EveryShapeCompletesAndHoldsWhatItsKindAllows) {
  auto context = makeContext();
  for (int64_t stages = 1; stages <= 8; ++stages)
    for (int64_t microBatches = 1; microBatches <= 9; ++microBatches)
      for (const char *kind : {"gpipe", "1f1b"}) {
        SCOPED_TRACE(std::string(kind) + ", " + std::to_string(stages) + " stages, " + std::to_string(microBatches));
        auto module = scheduled(*context, stages, microBatches, kind);
        ASSERT_TRUE(module);
        EXPECT_TRUE(succeeded(checkCommunication(*module)));
        for (auto schedule : module->getOps<dist::ScheduleOp>()) {
          int64_t stage = schedule.getStage();
          int64_t bound = kind == std::string("gpipe") ? microBatches : std::min(stages - stage, microBatches);
          Tally counted = tally(schedule);
          EXPECT_EQ(counted.forwards, microBatches);
          EXPECT_EQ(counted.backwards, microBatches);
          EXPECT_EQ(counted.applies, 1);
          EXPECT_EQ(counted.mostAlive, bound);
          EXPECT_EQ(static_cast<int64_t>(schedule.getSlots()), bound);
        }
      }
}

} // namespace
