// The clocks of a step: bubbles are the published ones, and exchanges hide as far as there is something to hide behind.
#include "hyc/Analysis/StepTime.h"

#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/Moves.h"
#include "hyc/Analysis/TimedCalls.h"
#include "hyc/Transforms/Plan/Passes.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <gtest/gtest.h>
#include <ostream>

using namespace hyc;

namespace {

class StepTimeTest : public testing::Test {
protected:
  StepTimeTest() { context.loadDialect<HycDialect, dist::DistDialect, rank::RankDialect>(); }

  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &text) {
    return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  }

  mlir::MLIRContext context;
};

/// Kernels move as many bytes as the machine does in so many seconds.
std::string kernel(int64_t seconds) {
  return "    rank.call \"fill\" %s" + std::to_string(seconds) + " = {value = 0.0 : f32} : !rank.buffer<" +
         std::to_string(seconds) + "xf32>\n";
}

std::string addresses() {
  std::string text;
  for (int64_t seconds : {1, 2, 3, 5})
    text += "    %s" + std::to_string(seconds) + " = rank.at @activations 0 : <" + std::to_string(seconds) + "xf32>\n";
  return text;
}

constexpr const char *kArenas = "  rank.arena @activations shared bytes 4096\n";

/// A second moves one f32; exchanges and transfers take no time unless told.
MachineRates unitRates() {
  MachineRates rates;
  rates.memory = 4;
  rates.latency = 0;
  rates.link = 1e18;
  return rates;
}

//===----------------------------------------------------------------------===//
// Pipelines
//===----------------------------------------------------------------------===//

struct Pipeline {
  const char *schedule;
  int64_t stages, microBatches, virtualStages;
};

std::ostream &operator<<(std::ostream &stream, const Pipeline &row) {
  return stream << row.schedule << " p " << row.stages << " m " << row.microBatches << " v " << row.virtualStages;
}

class Bubble : public StepTimeTest, public testing::WithParamInterface<Pipeline> {};

/// (p − 1)/m of the ideal time for GPipe and 1F1B, (p − 1)/(v m) interleaved (Narayanan et al. 2021, section 2.2), with
/// backward twice as long as forward. A stage's computation is the ideal time.
TEST_P(Bubble, IsThePublishedShareOfTheIdealTime) {
  const Pipeline &row = GetParam();
  std::string stages = std::to_string(row.stages), pieces = std::to_string(row.virtualStages);
  std::string text = "dist.mesh @mesh axes [\"dp\", \"tp\"] sizes [1, 1] stages " + stages +
                     (row.virtualStages > 1 ? " virtual_stages " + pieces : "") + "\n";
  for (int64_t stage = 0; stage < row.stages; ++stage) {
    std::string number = std::to_string(stage);
    text += "rank.program @stage" + number + " stage " + number +
            (row.virtualStages > 1 ? " virtual_stages " + pieces : "") + " slots 1 {\n" + kArenas;
    for (auto [kind, seconds] : {std::pair(dist::InstructionKind::forward, 1), {dist::InstructionKind::backward, 2}})
      for (int64_t piece = 0; piece < row.virtualStages; ++piece)
        text += "  rank.func @" + rank::functionName(kind, piece) + "() {\n" + addresses() + kernel(seconds) + "  }\n";
    text += "  rank.func @reduce() {\n  }\n  rank.func @apply() {\n  }\n}\n";
  }
  auto module = parse(text);
  ASSERT_TRUE(module) << text;
  mlir::PassManager passes(&context);
  BuildScheduleOptions options;
  options.schedule = row.schedule;
  options.microBatches = row.microBatches;
  passes.addPass(createBuildSchedule(options));
  ASSERT_TRUE(succeeded(passes.run(*module)));
  std::optional<StepTime> time = estimateStep(*module, unitRates());
  ASSERT_TRUE(time);
  ASSERT_EQ(time->stages.size(), static_cast<size_t>(row.stages));
  double ideal = 3.0 * static_cast<double>(row.microBatches * row.virtualStages);
  double bubble = static_cast<double>(row.stages - 1) / static_cast<double>(row.virtualStages * row.microBatches);
  for (const StageTime &stage : time->stages) {
    EXPECT_DOUBLE_EQ(stage.computation, ideal);
    EXPECT_DOUBLE_EQ(stage.exposed, 0);
  }
  EXPECT_DOUBLE_EQ(time->seconds() / ideal - 1, bubble);
  // Instructions follow on each other, and stage s begins when the first micro-batch has come through those before it.
  ASSERT_EQ(time->instructions.size(), time->stages.size());
  for (auto [number, stage] : llvm::enumerate(time->instructions)) {
    double now = 0;
    for (const InstructionTime &instruction : stage) {
      EXPECT_DOUBLE_EQ(instruction.begin, now);
      now += instruction.time.total();
    }
    EXPECT_DOUBLE_EQ(now, time->stages[number].total());
    auto first = llvm::find_if(stage, [](const InstructionTime &each) { return each.time.computation > 0; });
    EXPECT_DOUBLE_EQ(first->begin, static_cast<double>(number));
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, Bubble,
                         testing::Values(Pipeline{"gpipe", 4, 8, 1}, Pipeline{"1f1b", 4, 8, 1},
                                         Pipeline{"1f1b", 8, 8, 1}, Pipeline{"1f1b", 2, 6, 1},
                                         Pipeline{"1f1b", 4, 8, 2}, Pipeline{"1f1b", 4, 16, 4}));

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

/// Two of dp add up 4 elements: 16 bytes, all sent once around a ring of two.
std::string withExchange(const std::string &between) {
  return std::string("dist.mesh @mesh axes [\"dp\", \"tp\"] sizes [2, 1] stages 1 batch <{dp}> tensor <{tp}>\n"
                     "dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, "
                     "#dist.do<backward micro_batch 0 slot 0>, #dist.do<reduce>, #dist.do<apply>]\n"
                     "rank.program @stage0 stage 0 slots 1 {\n") +
         kArenas +
         "  rank.collective @w 0 \"all_reduce\" over <{dp}> cause \"w\" why \"\"\n"
         "  rank.func @forward() {\n" +
         addresses() +
         "    %w = rank.at @activations 0 : <4xf32>\n    %row = rank.row @w\n"
         "    %t = rank.start \"all_reduce\" \"sum\" %row, %w count 4 : !rank.buffer<4xf32>\n" +
         between + "    rank.wait %t\n" + kernel(1) +
         "  }\n  rank.func @backward() {\n  }\n  rank.func @reduce() {\n  }\n  rank.func @apply() {\n  }\n}\n";
}

TEST_F(StepTimeTest, AnExchangeHidesBehindWhatIsComputedMeanwhile) {
  MachineRates rates = unitRates();
  rates.link = 8; // 2 seconds
  rates.latency = 1;
  for (auto [seconds, exposed] : {std::pair(1, 2.0), {2, 1.0}, {3, 0.0}, {5, 0.0}}) {
    auto module = parse(withExchange(kernel(seconds)));
    ASSERT_TRUE(module);
    std::optional<StepTime> time = estimateStep(*module, rates);
    ASSERT_TRUE(time);
    EXPECT_DOUBLE_EQ(time->stages[0].exposed, exposed) << seconds;
    EXPECT_DOUBLE_EQ(time->stages[0].computation, seconds + 1);
    EXPECT_DOUBLE_EQ(time->waitingShare(0), exposed / (seconds + 1 + exposed));
  }
}

TEST_F(StepTimeTest, OpsSayWhatBoundsThem) {
  MachineRates rates = unitRates();
  rates.link = 8; // 2 seconds
  rates.latency = 1;
  auto module = parse(withExchange(kernel(5)));
  ASSERT_TRUE(module);
  auto program = *module->getOps<rank::ProgramOp>().begin();
  auto schedule = *module->getOps<dist::ScheduleOp>().begin();
  std::vector<OpTime> ops = estimateOps(program, schedule, rates);
  ASSERT_EQ(ops.size(), 3u);
  EXPECT_TRUE(ops[0].isExchange);
  EXPECT_EQ(ops[0].what, "all_reduce");
  EXPECT_DOUBLE_EQ(ops[0].seconds, 3);
  EXPECT_DOUBLE_EQ(ops[0].bytes, 16);
  EXPECT_EQ(ops[0].bound, TimeBound::Link);
  EXPECT_DOUBLE_EQ(ops[1].seconds, 5);
  EXPECT_EQ(ops[1].function, "forward");
  EXPECT_EQ(ops[1].timesPerStep, 1);
  rates.latency = 10;
  EXPECT_EQ(estimateOps(program, schedule, rates)[0].bound, TimeBound::Latency);
  rates.launch = 100;
  EXPECT_EQ(estimateOps(program, schedule, rates)[1].bound, TimeBound::Launch);
}

/// Two rows of a table of nine: read, and written; and the gradient, which is added to them.
TEST_F(StepTimeTest, OfATableTheRowsThatArePickedAreTouched) {
  auto module = parse(withExchange(
      "    %ids = rank.at @activations 0 : <2xi64>\n    %table = rank.at @activations 64 : <9x4xf32>\n"
      "    %rows = rank.at @activations 256 : <2x4xf32>\n"
      "    rank.call \"embedding\" %rows = %ids, %table : !rank.buffer<2x4xf32>, !rank.buffer<2xi64>, "
      "!rank.buffer<9x4xf32>\n"
      "    rank.call \"embedding_grad\" %table = %ids, %rows {mode = #rank<mode add>} : !rank.buffer<9x4xf32>, "
      "!rank.buffer<2xi64>, "
      "!rank.buffer<2x4xf32>\n"
      "    rank.call \"embedding_grad\" %table = %ids, %rows : !rank.buffer<9x4xf32>, !rank.buffer<2xi64>, "
      "!rank.buffer<2x4xf32>\n"));
  ASSERT_TRUE(module);
  std::vector<OpTime> ops =
      estimateOps(*module->getOps<rank::ProgramOp>().begin(), *module->getOps<dist::ScheduleOp>().begin(), unitRates());
  ASSERT_EQ(ops.size(), 5u);
  EXPECT_DOUBLE_EQ(ops[1].bytes, 16 + 32 + 32);
  EXPECT_DOUBLE_EQ(ops[2].bytes, 16 + 32 + 2 * 32);
  EXPECT_DOUBLE_EQ(ops[3].bytes, 16 + 32 + 144) << "the other rows become 0";
}

/// Two products of 4 rows and 4 columns over 8, forward; five of them in the gradient.
TEST_F(StepTimeTest, AttentionAndItsGradientReachAShareOfTheirOwn) {
  const std::string q = "!rank.buffer<1x4x1x8xf32>", lse = "!rank.buffer<1x1x4xf32>";
  auto times = [](const std::string &type, int count) {
    std::string list = type;
    for (int i = 1; i < count; ++i)
      list += ", " + type;
    return list;
  };
  auto module = parse(withExchange(
      "    %q = rank.at @activations 0 : <1x4x1x8xf32>\n    %lse = rank.at @activations 256 : <1x1x4xf32>\n"
      "    rank.call \"attention\" %q, %lse = %q, %q, %q {scale = 1.0 : f64} : " +
      q + ", " + lse + ", " + times(q, 3) +
      "\n    rank.call \"attention_grad\" %q, %q, %q = %q, %q, %q, %q, %lse, %q {scale = 1.0 : f64} : " + times(q, 7) +
      ", " + lse + ", " + q + "\n"));
  ASSERT_TRUE(module);
  MachineRates rates = unitRates();
  rates.memory = 1e18;
  rates.products = 2 * 4 * 4 * 8; // a product a second
  auto secondsOf = [&](size_t call) {
    return estimateOps(*module->getOps<rank::ProgramOp>().begin(), *module->getOps<dist::ScheduleOp>().begin(),
                       rates)[call]
        .seconds;
  };
  EXPECT_DOUBLE_EQ(secondsOf(1), 2);
  EXPECT_DOUBLE_EQ(secondsOf(2), 5);
  rates.attentionShare = 0.25;
  EXPECT_DOUBLE_EQ(secondsOf(1), 8);
  EXPECT_DOUBLE_EQ(secondsOf(2), 20);
}

/// Each turn takes what its calls take, and is started call by call; what is behind the loop comes once.
TEST_F(StepTimeTest, ATurnOfARepeatIsPricedOncePerTurn) {
  for (int64_t turns : {1, 7, 300}) {
    auto module =
        parse(withExchange("    rank.repeat " + std::to_string(turns) + " {\n" + kernel(2) + kernel(3) + "    }\n"));
    ASSERT_TRUE(module);
    MachineRates rates = unitRates();
    std::optional<StepTime> time = estimateStep(*module, rates);
    ASSERT_TRUE(time);
    EXPECT_DOUBLE_EQ(time->stages[0].computation, 5.0 * static_cast<double>(turns) + 1);
    EXPECT_DOUBLE_EQ(time->seconds(), 5.0 * static_cast<double>(turns) + 1);
    rates.launch = 10; // of each kernel
    EXPECT_DOUBLE_EQ(estimateStep(*module, rates)->seconds(), 20.0 * static_cast<double>(turns) + 10);
    rates.launch = 0, rates.dispatch = 4; // of the exchange and of each kernel, the last of which takes a second then
    EXPECT_DOUBLE_EQ(estimateStep(*module, rates)->seconds(), 4.0 * static_cast<double>(1 + 2 * turns + 1) + 1);
    auto program = *module->getOps<rank::ProgramOp>().begin();
    EXPECT_EQ(timedCalls(program, rates).front().second.size(), static_cast<size_t>(2 * turns + 3));
  }
}

/// The thread that starts them comes to the exchange, the kernel of 5 and that of 1 at one, two and three times what it
/// takes for each.
TEST_F(StepTimeTest, ADeviceWaitsForTheThreadThatStartsItsKernels) {
  MachineRates rates = unitRates();
  rates.link = 8; // 2 seconds
  rates.latency = 1;
  auto module = parse(withExchange(kernel(5)));
  ASSERT_TRUE(module);
  for (auto [dispatch, seconds] : {std::pair(0.0, 6.0), {1.0, 8.0}, {4.0, 14.0}, {6.0, 19.0}}) {
    rates.dispatch = dispatch;
    std::optional<StepTime> time = estimateStep(*module, rates);
    ASSERT_TRUE(time);
    EXPECT_DOUBLE_EQ(time->seconds(), seconds) << dispatch;
    EXPECT_DOUBLE_EQ(time->stages[0].exposed, 0) << dispatch;
  }
}

/// An exchange of 3 seconds beside a kernel, and one of a second after both.
TEST_F(StepTimeTest, KernelsAreSlowerBesideAnExchange) {
  MachineRates rates = unitRates();
  rates.link = 8;
  rates.latency = 1;
  auto hold = [&](int kernelSeconds, double share, double seconds, double exposed) {
    SCOPED_TRACE(std::to_string(kernelSeconds) + " s, " + std::to_string(share));
    rates.overlapShare = share;
    auto module = parse(withExchange(kernel(kernelSeconds)));
    ASSERT_TRUE(module);
    std::optional<StepTime> time = estimateStep(*module, rates);
    ASSERT_TRUE(time);
    EXPECT_DOUBLE_EQ(time->seconds(), seconds);
    EXPECT_DOUBLE_EQ(time->stages[0].exposed, exposed);
  };
  hold(5, 1, 6, 0);
  hold(5, 0.5, 7.5, 1.5);    // half of the three seconds is lost
  hold(1, 0.5, 4, 2);        // is done after two of them
  hold(1, 0.25, 4.25, 2.25); // a quarter of a second is left when the exchange ends
  hold(5, 0, 9, 3);          // as without a thread
}

TEST_F(StepTimeTest, WithoutAThreadItIsMadeWhenItIsAwaited) {
  MachineRates rates = unitRates();
  rates.link = 8;
  rates.latency = 1;
  rates.communicationThread = false;
  auto module = parse(withExchange(kernel(5)));
  ASSERT_TRUE(module);
  std::optional<StepTime> time = estimateStep(*module, rates);
  ASSERT_TRUE(time);
  EXPECT_DOUBLE_EQ(time->stages[0].exposed, 3);
  EXPECT_DOUBLE_EQ(time->seconds(), 9);
}

//===----------------------------------------------------------------------===//
// Moves
//===----------------------------------------------------------------------===//

/// A fetch of 4 elements, a kernel and an eviction of as many, of which the kernel does not know.
std::string withMoves(const std::string &attributes, const std::string &kernel, const std::string &between) {
  return "module " + attributes + " {\n" +
         "dist.mesh @mesh axes [\"dp\", \"tp\"] sizes [1, 1] stages 1 batch <{dp}> tensor <{tp}>\n"
         "dist.schedule stage 0 slots 1 [#dist.do<begin_step>, #dist.do<forward micro_batch 0 slot 0>, "
         "#dist.do<backward micro_batch 0 slot 0>, #dist.do<reduce>, #dist.do<apply>]\n"
         "rank.program @stage0 stage 0 slots 1 {\n" +
         kArenas + "  rank.arena @host bytes 4096\n  rank.func @forward() {\n" + addresses() +
         "    %kept = rank.at @host 0 : <4xf32>\n    %window = rank.at @activations 64 : <4xf32>\n"
         "    %other = rank.at @activations 128 : <4xf32>\n"
         "    %in = rank.move \"fetch\" %window = %kept : !rank.buffer<4xf32>, !rank.buffer<4xf32>\n" +
         kernel + between +
         "  }\n  rank.func @backward() {\n  }\n  rank.func @reduce() {\n  }\n  rank.func @apply() {\n  }\n}\n}\n";
}

constexpr const char *kWaitsBetween = "    rank.wait %in\n"
                                      "    %out = rank.move \"evict\" %kept = %other : !rank.buffer<4xf32>, "
                                      "!rank.buffer<4xf32>\n    rank.wait %out\n";
constexpr const char *kBothAtOnce = "    %out = rank.move \"evict\" %kept = %other : !rank.buffer<4xf32>, "
                                    "!rank.buffer<4xf32>\n    rank.wait %in\n    rank.wait %out\n";
constexpr const char *kForGpus = "attributes {rank.target = \"cuda\"}";

/// 16 bytes each way at 4 a second. A CPU's threads copy themselves.
TEST_F(StepTimeTest, AGpuMovesWhileItComputesAndBothWaysAtOnce) {
  MachineRates rates = unitRates();
  rates.host = 4;
  struct Case {
    const char *attributes;
    int64_t kernelSeconds;
    const char *moves;
    double total;
  } cases[] = {
      {"", 3, kWaitsBetween, 4 + 3 + 4},
      {"", 3, kBothAtOnce, 4 + 3 + 4},
      {kForGpus, 3, kWaitsBetween, 4 + 4},
      {kForGpus, 5, kWaitsBetween, 5 + 4},
      // The eviction begins while the fetch is on its way.
      {kForGpus, 3, kBothAtOnce, 3 + 4 / 0.81},
      {kForGpus, 5, kBothAtOnce, 5 + 4},
  };
  for (const Case &each : cases) {
    auto module = parse(withMoves(each.attributes, kernel(each.kernelSeconds), each.moves));
    ASSERT_TRUE(module);
    std::optional<StepTime> time = estimateStep(*module, rates);
    ASSERT_TRUE(time);
    EXPECT_DOUBLE_EQ(time->seconds(), each.total) << each.attributes << each.kernelSeconds << each.moves;
  }
}

/// A kernel that writes 16 bytes of the host's memory over the bus, at 0.29 of the rate of copies.
TEST_F(StepTimeTest, AGpusKernelWaitsForTheBus) {
  MachineRates rates = unitRates();
  rates.host = 4;
  std::string direct = "    rank.call \"fill\" %kept = {value = 0.0 : f32} : !rank.buffer<4xf32>\n";
  for (auto [attributes, seconds] : {std::pair("", 4.0), {kForGpus, 4 / 0.29}}) {
    auto module = parse(withMoves(attributes, "", "    rank.wait %in\n" + direct));
    ASSERT_TRUE(module);
    std::optional<StepTime> time = estimateStep(*module, rates);
    ASSERT_TRUE(time);
    EXPECT_DOUBLE_EQ(time->seconds(), 4 + seconds) << attributes;
  }
}

} // namespace
