// The tiny GPT-2 on emitted executables: against PyTorch on one rank, and against one rank in every kind of layout.
#include "CompiledRun.h"
#include "SafeTensors.h"
#include "test/Places.h"

#include "gtest/gtest.h"
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

using namespace hyc_e2e;

namespace {

constexpr int kSteps = 20;

const std::map<std::string, HostTensor> &reference() {
  static const auto tensors = readSafeTensors(model("gpt2-tiny.reference.safetensors"));
  return tensors;
}

void expectLosses(const std::vector<double> &actual, const std::vector<double> &expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t step = 0; step < actual.size(); ++step)
    EXPECT_NEAR(actual[step] / expected[step], 1.0, tolerance)
        << "step " << step + 1 << ": " << actual[step] << " and " << expected[step];
}

/// The gradient of every parameter that PyTorch has, by name; the exporter stores the position table under its own
/// name.
void expectGradients(const std::string &file) {
  auto dumped = readSafeTensors(file);
  size_t compared = 0;
  for (auto &[name, expected] : reference()) {
    if (name.find('.') == std::string::npos || name.rfind("losses.", 0) == 0)
      continue;
    auto found = dumped.find(name);
    ASSERT_NE(found, dumped.end()) << name << " is missing";
    EXPECT_LE(relativeDifference(found->second, expected), 1e-4) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 100u); // 12 a layer, two embeddings, two of the last norm
}

std::string bytesOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The losses of one rank, trained once.
const std::vector<double> &oneRank(const std::string &optimizer) {
  static std::map<std::string, std::vector<double>> losses;
  auto [entry, inserted] = losses.try_emplace(optimizer);
  if (inserted)
    entry->second = train(compiled({1, 1, 1, "1f1b", optimizer}), kSteps).losses;
  return entry->second;
}

TEST(Gpt2OneRank, AdamWLossesAndGradientsArePyTorchs) {
  std::string folder = compiled({1, 1, 1, "1f1b", "adamw"}), gradients = folder + "/gradients.safetensors";
  Log log = train(folder, kSteps, {"--dump-gradients", gradients});
  expectLosses(log.losses, reference().at("losses.adamw").values, 1e-4);
  EXPECT_NEAR(log.norms[0] / reference().at("grad_norm").values[0], 1.0, 1e-4);
  expectGradients(gradients);
}

TEST(Gpt2OneRank, SgdLossesArePyTorchs) { expectLosses(oneRank("sgd"), reference().at("losses.sgd").values, 1e-4); }

TEST(Gpt2OneRank, AdamLossesArePyTorchs) { expectLosses(oneRank("adam"), reference().at("losses.adam").values, 1e-4); }

TEST(Gpt2OneRank, LambAndLionLossesAreThoseOfThePapersUnderPyTorch) {
  expectLosses(oneRank("lamb"), reference().at("losses.lamb").values, 1e-4);
  expectLosses(oneRank("lion"), reference().at("losses.lion").values, 1e-4);
}

class Gpt2Layout : public testing::TestWithParam<Layout> {};

TEST_P(Gpt2Layout, AgreesWithOneRankAndRepeatsItsBits) {
  const Layout &layout = GetParam();
  std::string folder = compiled(layout), gradients = folder + "/gradients.safetensors";
  std::string weights = folder + "/weights.safetensors", again = folder + "/again.safetensors";
  Log log = train(folder, kSteps, {"--dump-gradients", gradients, "--save-weights", weights});
  expectLosses(log.losses, oneRank(layout.optimizer), layout.optimizer == "sgd" ? 1e-5 : 1e-4);
  expectGradients(gradients);

  Log repeated = train(folder, kSteps, {"--save-weights", again});
  EXPECT_EQ(log.losses, repeated.losses);
  EXPECT_EQ(log.norms, repeated.norms);
  EXPECT_EQ(bytesOf(weights), bytesOf(again));
}

INSTANTIATE_TEST_SUITE_P(PureAxesAndAllThree, Gpt2Layout,
                         testing::Values(Layout{8, 1, 1, "1f1b", "sgd"}, Layout{1, 8, 1, "1f1b", "sgd"},
                                         Layout{1, 8, 1, "gpipe", "adamw"}, Layout{1, 1, 8, "1f1b", "sgd"},
                                         Layout{2, 2, 2, "1f1b", "adamw"}, Layout{2, 2, 2, "gpipe", "sgd"},
                                         Layout{2, 2, 2, "1f1b", "lamb"}, Layout{2, 2, 2, "1f1b", "lion"}),
                         [](const auto &info) { return info.param.name(); });

/// Interleaved 1F1B: two chunks a stage and four, alone and under all that changes what a chunk does.
INSTANTIATE_TEST_SUITE_P(
    VirtualStages, Gpt2Layout,
    testing::Values(
        Layout{1, 2, 1, "1f1b", "sgd", "f32", {"--virtual-stages", "4"}},
        Layout{2, 2, 1, "1f1b", "sgd", "f32", {"--virtual-stages", "2"}},
        Layout{1, 4, 1, "1f1b", "adamw", "f32", {"--virtual-stages", "2"}},
        Layout{2, 2, 2, "1f1b", "adamw", "f32", {"--virtual-stages", "2", "--recompute", "layer"}},
        Layout{1,
               2,
               2,
               "1f1b",
               "adamw",
               "f32",
               {"--virtual-stages", "2", "--zero", "3", "--stage3-param-persistence-threshold", "5000",
                "--stage3-prefetch", "2"}},
        Layout{
            1, 2, 2, "1f1b", "adamw", "f32", {"--virtual-stages", "3", "--zero", "2", "--offload-optimizer", "cpu"}}),
    [](const auto &info) { return info.param.name(); });

/// What --plan gives back is the same program; the plan knows its chunks.
TEST(Gpt2VirtualStages, PlanGivesTheSameLossesBack) {
  Layout layout{1, 2, 1, "1f1b", "sgd", "f32", {"--virtual-stages", "4"}};
  std::string folder = compiled(layout), again = scratch("virtual-stages-again");
  layout.further = {"--plan", folder + "/plan.json"};
  Outcome outcome = execute(compileArguments(layout, again));
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_EQ(bytesOf(folder + "/plan.json"), bytesOf(again + "/plan.json"));
  EXPECT_EQ(train(folder, kSteps).losses, train(again, kSteps).losses);
}

/// Splits that no seed would choose: the sequence over tp, heads over both axes against the mesh's order, widths over
/// dp.
TEST(Gpt2HandWrittenPlan, AgreesWithOneRank) {
  std::string folder = scratch("hand-written-plan"), gradients = folder + "/gradients.safetensors";
  std::vector<std::string> arguments = compileArguments({2, 2, 2, "1f1b", "sgd"}, folder);
  arguments.insert(arguments.end(), {"--plan", hyc::places::inTree("test/e2e/hand-written.plan.json")});
  Outcome outcome = execute(arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  expectLosses(train(folder, kSteps, {"--dump-gradients", gradients}).losses, oneRank("sgd"), 1e-5);
  expectGradients(gradients);
}

/// An axis of a name of its own beside dp and tp, which splits what the plan says and nothing else.
TEST(Gpt2FourAxes, AgreeWithOneRank) {
  std::string folder = scratch("four-axes"), gradients = folder + "/gradients.safetensors";
  std::vector<std::string> arguments = compileArguments({2, 1, 2, "1f1b", "sgd"}, folder);
  arguments.insert(arguments.end(), {"--plan", hyc::places::inTree("test/e2e/four-axes.plan.json")});
  Outcome outcome = execute(arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_NE(outcome.output.find("8 ranks (tp 2 × pp 1 × dp 2 × ep 2)"), std::string::npos) << outcome.output;
  expectLosses(train(folder, kSteps, {"--dump-gradients", gradients}).losses, oneRank("sgd"), 1e-5);
  expectGradients(gradients);
  auto manifest = nlohmann::json::parse(bytesOf(folder + "/manifest.json"));
  EXPECT_EQ(manifest["axes"], (nlohmann::json{"dp", "ep", "tp"}));
  EXPECT_EQ(manifest["ranks"].size(), 8u);
}

/// dp as hosts × local: groups over one of them alone, beside those over both.
TEST(Gpt2SubAxes, AgreeWithOneRank) {
  std::string folder = scratch("sub-axes"), gradients = folder + "/gradients.safetensors";
  std::vector<std::string> arguments = compileArguments({1, 1, 4, "1f1b", "sgd"}, folder);
  arguments.insert(arguments.end(), {"--plan", hyc::places::inTree("test/e2e/sub-axes.plan.json")});
  Outcome outcome = execute(arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  expectLosses(train(folder, kSteps, {"--dump-gradients", gradients}).losses, oneRank("sgd"), 1e-5);
  expectGradients(gradients);
  std::string report = bytesOf(folder + "/report.txt");
  EXPECT_NE(report.find("{local}"), std::string::npos);
  EXPECT_NE(report.find("{hosts, local}"), std::string::npos);
}

/// Bytes of the activations arena of the first stage, by the account.
int64_t activationBytes(const std::string &folder) {
  auto account = nlohmann::json::parse(bytesOf(folder + "/memory.json"));
  for (const auto &arena : account["stages"][0]["arenas"])
    if (arena["arena"] == "activations")
      return arena["bytes"];
  return -1;
}

TEST(Gpt2SequenceParallel, AgreesWithOneRankInLessMemory) {
  Layout layout{4, 1, 2, "1f1b", "sgd"};
  std::string folder = scratch("sequence-parallel"), gradients = folder + "/gradients.safetensors";
  std::vector<std::string> arguments = compileArguments(layout, folder);
  arguments.insert(arguments.end(), {"--sequence-parallel", "--zero", "1"});
  Outcome outcome = execute(arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  expectLosses(train(folder, kSteps, {"--dump-gradients", gradients}).losses, oneRank("sgd"), 1e-5);
  expectGradients(gradients);

  std::string plain = scratch("sequence-whole");
  arguments = compileArguments(layout, plain);
  arguments.insert(arguments.end(), {"--zero", "1", "--plan-only"});
  outcome = execute(arguments);
  ASSERT_EQ(outcome.status, 0) << outcome.output;
  EXPECT_LT(activationBytes(folder), activationBytes(plain) * 3 / 4);
}

} // namespace
