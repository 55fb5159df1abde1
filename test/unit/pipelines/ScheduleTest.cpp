// Schedules of every small shape: nobody waits for ever, and no stage holds more micro-batches than it must.
#include "Gpt2Pipeline.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/CommunicationCheck.h"
#include "hyc/Transforms/Plan/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>

using namespace hyc;
using namespace hyc::pipelines;

namespace {

/// A mesh of `stages`, empty stage functions, and the schedules that the pass writes.
mlir::OwningOpRef<mlir::ModuleOp> scheduled(mlir::MLIRContext &context, int64_t stages, int64_t microBatches,
                                            const std::string &kind, int64_t virtualStages = 1) {
  std::string text = "dist.mesh @mesh axes [\"dp\", \"tp\"] sizes [1, 1] stages " + std::to_string(stages) +
                     " virtual_stages " + std::to_string(virtualStages) + "\n";
  for (const char *function : {"forward", "backward", "reduce", "apply"})
    for (int64_t chunk = 0; chunk < stages * virtualStages; ++chunk)
      text += "hyc.func @" + std::string(function) + "." + std::to_string(chunk) + "() { hyc.return }\n";
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

/// Interleaved 1F1B of every small shape, in the way in which Megatron-LM runs it: stage s runs
/// 2(p - s - 1) + (v - 1)p chunks ahead (schedules.py, num_warmup_microbatches).
TEST(Schedule, EveryInterleavedShapeCompletesAndHoldsItsWarmUpAndOneMore) {
  auto context = makeContext();
  for (int64_t stages = 2; stages <= 8; ++stages)
    for (int64_t virtualStages = 2; virtualStages <= 4; ++virtualStages)
      for (int64_t groups = 1; groups <= 4; ++groups) {
        int64_t microBatches = groups * stages, passes = microBatches * virtualStages;
        SCOPED_TRACE("p " + std::to_string(stages) + ", v " + std::to_string(virtualStages) + ", m " +
                     std::to_string(microBatches));
        auto module = scheduled(*context, stages, microBatches, "1f1b", virtualStages);
        ASSERT_TRUE(module);
        EXPECT_TRUE(succeeded(checkCommunication(*module)));
        for (auto schedule : module->getOps<dist::ScheduleOp>()) {
          int64_t stage = schedule.getStage(), ahead = 2 * (stages - stage - 1) + (virtualStages - 1) * stages;
          Tally counted = tally(schedule);
          EXPECT_EQ(counted.forwards, passes);
          EXPECT_EQ(counted.backwards, passes);
          EXPECT_EQ(counted.applies, 1);
          EXPECT_EQ(counted.mostAlive, std::min(ahead + 1, passes));
          EXPECT_EQ(static_cast<int64_t>(schedule.getSlots()), counted.mostAlive);
        }
      }
}

/// Each chunk's backwards run in the order of micro-batches, on which the bits of its gradients depend.
TEST(Schedule, InterleavedBackwardsOfAChunkAreInOrder) {
  auto context = makeContext();
  auto module = scheduled(*context, 4, 12, "1f1b", 3);
  ASSERT_TRUE(module);
  for (auto schedule : module->getOps<dist::ScheduleOp>()) {
    std::map<int64_t, int64_t> next;
    for (auto instruction : schedule.getInstructions().getAsRange<dist::InstructionAttr>())
      if (instruction.getKind() == dist::InstructionKind::backward) {
        EXPECT_EQ(instruction.getMicroBatch(), next[instruction.getVirtualStage()]++);
      }
    EXPECT_EQ(next.size(), 3u);
  }
}

/// The check is no formality: with every transfer by itself both stages send first, and wait for ever.
TEST(Schedule, SplittingOpposingTransfersOfInterleavedStagesDeadlocks) {
  auto context = makeContext();
  auto module = scheduled(*context, 2, 4, "1f1b", 2);
  ASSERT_TRUE(module);
  mlir::Builder builder(context.get());
  for (auto schedule : module->getOps<dist::ScheduleOp>()) {
    llvm::SmallVector<mlir::Attribute> apart;
    for (auto instruction : schedule.getInstructions().getAsRange<dist::InstructionAttr>()) {
      if (instruction.getTransfers().size() < 2) {
        apart.push_back(instruction);
        continue;
      }
      for (dist::TransferAttr transfer : instruction.getTransfers()) // sends come first
        apart.push_back(dist::InstructionAttr::get(context.get(), dist::InstructionKind::exchange, 0, 0, 0, transfer));
    }
    schedule.setInstructionsAttr(builder.getArrayAttr(apart));
  }
  mlir::ScopedDiagnosticHandler silent(context.get(), [](mlir::Diagnostic &) { return mlir::success(); });
  EXPECT_TRUE(failed(checkCommunication(*module)));
}

} // namespace
