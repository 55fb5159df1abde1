// Bubble and micro-batches in flight, of the schedules that the pass writes: GPipe and 1F1B idle for (p−1)/m of the
// ideal time, interleaved 1F1B with v chunks a stage for (p−1)/(vm); GPipe holds m micro-batches, 1F1B p (Narayanan et
// al. 2021, section 2.2), interleaved 1F1B p(1 + (p−1)/(pv)) (Korthikanti et al. 2022, section 4.2.3), which are
// pv + p − 1 of its chunks.
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Transforms/Plan/Passes.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>
#include <map>

using namespace hyc;

namespace {

constexpr int64_t kForward = 1, kBackward = 2; // time units of one chunk

/// A row of the table: which schedule, and what it must cost. A new kind of schedule is one line.
struct Row {
  const char *schedule;
  int64_t stages, microBatches;
  double inFlight; // micro-batches that stage 0 holds
  int64_t virtualStages = 1;
};

std::ostream &operator<<(std::ostream &stream, const Row &row) {
  return stream << row.schedule << " p " << row.stages << " v " << row.virtualStages << " m " << row.microBatches;
}

mlir::OwningOpRef<mlir::ModuleOp> buildSchedule(mlir::MLIRContext &context, const Row &row) {
  std::string text = "dist.mesh @mesh axes [\"dp\", \"tp\"] sizes [1, 1] stages " + std::to_string(row.stages) +
                     " virtual_stages " + std::to_string(row.virtualStages) + "\n";
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  mlir::PassManager passes(&context);
  BuildScheduleOptions options;
  options.schedule = row.schedule;
  options.microBatches = row.microBatches;
  passes.addPass(createBuildSchedule(options));
  return module && succeeded(passes.run(*module)) ? std::move(module) : nullptr;
}

/// Executes all stages: an instruction begins when its stage is free and what it receives has been sent. Transfers take
/// no time. Gives the end of the last micro-batch on any stage.
class Clock {
public:
  explicit Clock(mlir::ModuleOp module) : mesh(dist::MeshOp::find(module)) {
    for (auto schedule : module.getOps<dist::ScheduleOp>()) {
      stages.emplace_back();
      for (auto instruction : schedule.getInstructions().getAsRange<dist::InstructionAttr>())
        stages.back().todo.push_back(instruction);
    }
  }

  int64_t run() {
    for (bool progress = true; progress;) {
      progress = false;
      for (size_t stage = 0; stage < stages.size(); ++stage)
        while (stages[stage].next < stages[stage].todo.size() && step(stage))
          progress = true;
    }
    int64_t end = 0;
    for (const Stage &stage : stages) {
      EXPECT_EQ(stage.next, stage.todo.size()) << "a stage waits for ever";
      end = std::max(end, stage.now);
    }
    return end;
  }

private:
  struct Stage {
    std::vector<dist::InstructionAttr> todo;
    size_t next = 0;
    int64_t now = 0;
  };
  using Message = std::tuple<int64_t, bool, int64_t>; // receiving chunk, backward, micro-batch

  int64_t chunkOf(size_t stage, dist::TransferAttr transfer) {
    return mesh.getChunk(static_cast<int64_t>(stage), transfer.getVirtualStage());
  }

  bool step(size_t index) {
    Stage &stage = stages[index];
    dist::InstructionAttr instruction = stage.todo[stage.next];
    int64_t begin = stage.now;
    for (dist::TransferAttr transfer : instruction.getTransfers())
      if (bool backward = transfer.getDirection() == dist::Direction::backward; !transfer.getIsSend()) {
        auto sent = messages.find({chunkOf(index, transfer), backward, transfer.getMicroBatch()});
        if (sent == messages.end())
          return sendOnly(index, instruction), false;
        begin = std::max(begin, sent->second);
      }
    sendOnly(index, instruction);
    stage.now = begin;
    if (instruction.getKind() == dist::InstructionKind::forward)
      stage.now += kForward;
    if (instruction.getKind() == dist::InstructionKind::backward)
      stage.now += kBackward;
    ++stage.next;
    return true;
  }

  /// What an instruction sends leaves when its stage reaches it, even while it waits to receive.
  void sendOnly(size_t index, dist::InstructionAttr instruction) {
    for (dist::TransferAttr transfer : instruction.getTransfers())
      if (transfer.getIsSend()) {
        bool backward = transfer.getDirection() == dist::Direction::backward;
        int64_t chunk = chunkOf(index, transfer);
        messages.try_emplace({backward ? chunk - 1 : chunk + 1, backward, transfer.getMicroBatch()}, stages[index].now);
      }
  }

  dist::MeshOp mesh;
  std::vector<Stage> stages;
  std::map<Message, int64_t> messages;
};

class PublishedSchedule : public testing::TestWithParam<Row> {};

TEST_P(PublishedSchedule, BubbleAndMicroBatchesInFlight) {
  const Row &row = GetParam();
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<HycDialect, dist::DistDialect>();
  auto module = buildSchedule(context, row);
  ASSERT_TRUE(module);
  int64_t passes = row.virtualStages * row.microBatches; // of a micro-batch through a chunk
  int64_t ideal = passes * (kForward + kBackward), time = Clock(*module).run();
  EXPECT_DOUBLE_EQ(static_cast<double>(time - ideal) / static_cast<double>(ideal),
                   static_cast<double>(row.stages - 1) / static_cast<double>(passes));
  // A slot is a v-th of what a micro-batch leaves on a stage.
  dist::ScheduleOp first = *module->getOps<dist::ScheduleOp>().begin();
  EXPECT_DOUBLE_EQ(static_cast<double>(first.getSlots()) / static_cast<double>(row.virtualStages), row.inFlight);
}

/// Korthikanti et al. 2022: interleaving holds 1 + (p−1)/(pv) of what 1F1B does.
double interleavedInFlight(double p, double v) { return p * (1 + (p - 1) / (p * v)); }

INSTANTIATE_TEST_SUITE_P(Published, PublishedSchedule,
                         testing::Values(Row{"gpipe", 4, 8, 8}, Row{"gpipe", 8, 64, 64}, Row{"gpipe", 2, 2, 2},
                                         Row{"1f1b", 4, 8, 4}, Row{"1f1b", 8, 64, 8}, Row{"1f1b", 64, 512, 64},
                                         Row{"1f1b", 2, 2, 2}, Row{"1f1b", 1, 5, 1},
                                         Row{"1f1b", 4, 8, interleavedInFlight(4, 2), 2},
                                         Row{"1f1b", 8, 64, interleavedInFlight(8, 3), 3},
                                         Row{"1f1b", 2, 8, interleavedInFlight(2, 4), 4},
                                         Row{"1f1b", 16, 512, interleavedInFlight(16, 2), 2}));

} // namespace
