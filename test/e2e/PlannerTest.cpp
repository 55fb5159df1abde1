// Layouts that hyc finds for eight ranks, as executables: the losses of one rank on the same samples.
#include "CompiledRun.h"
#include "SafeTensors.h"

#include "gtest/gtest.h"
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

using namespace hyc_e2e;

namespace {

constexpr int kSteps = 4, kGlobalBatch = 8;

struct Fixture {
  const char *input, *loss, *images;
  friend void PrintTo(const Fixture &fixture, std::ostream *out) { *out << fixture.input; }
};

Log trainWith(const Fixture &fixture, const std::string &name, const std::vector<std::string> &layout) {
  std::string folder = scratch("planner-" + name);
  std::vector<std::string> arguments = {tool("hyc-compile"),
                                        model(fixture.input),
                                        "--loss",
                                        fixture.loss,
                                        "--optimizer",
                                        "adamw",
                                        "--lr",
                                        "1e-3",
                                        "-o",
                                        folder};
  arguments.insert(arguments.end(), layout.begin(), layout.end());
  Outcome compiled = execute(trainingOnly(arguments));
  EXPECT_EQ(compiled.status, 0) << compiled.output;
  std::string data = model("text.bin");
  if (*fixture.images)
    data = writeImageSamples(model(fixture.images), folder + "/samples.safetensors");
  Outcome run = execute({tool("hyc-run"), folder, "--data", data, "--no-shuffle", "--seed", "1", "--steps",
                         std::to_string(kSteps), "--log-file", folder + "/log.jsonl"});
  EXPECT_EQ(run.status, 0) << run.output;
  return readLog(folder + "/log.jsonl");
}

class Planned : public testing::TestWithParam<Fixture> {};

TEST_P(Planned, EightRanksAloneTrainAsOneDoes) {
  std::string name = GetParam().input;
  Log one = trainWith(GetParam(), name + "-one", {"--micro-batch", std::to_string(kGlobalBatch)});
  Log found = trainWith(GetParam(), name + "-found", {"--ranks", "8", "--global-batch", std::to_string(kGlobalBatch)});
  ASSERT_EQ(one.losses.size(), static_cast<size_t>(kSteps));
  ASSERT_EQ(found.losses.size(), one.losses.size());
  for (size_t step = 0; step < one.losses.size(); ++step)
    EXPECT_NEAR(found.losses[step] / one.losses[step], 1.0, 1e-5) << "step " << step + 1;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Planned,
                         testing::Values(Fixture{"gpt2-tiny.onnx", "cross_entropy", ""},
                                         Fixture{"llama.pt2", "causal_lm", ""},
                                         Fixture{"vit.pt2", "cross_entropy", "vit.reference.safetensors"},
                                         Fixture{"resnet.pt2", "cross_entropy", "resnet.reference.safetensors"}),
                         [](const auto &info) {
                           std::string name = info.param.input;
                           return name.substr(0, name.find_first_of("-."));
                         });

nlohmann::json readJson(const std::string &path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

int64_t deviceBytes(const std::string &folder) {
  int64_t most = 0;
  const nlohmann::json memory = readJson(folder + "/memory.json");
  for (const nlohmann::json &stage : memory["stages"])
    most = std::max(most, stage["device_bytes"].get<int64_t>());
  return most;
}

double stepMilliseconds(const std::string &folder) {
  return readJson(folder + "/manifest.json")["estimate"]["own_thread"]["step_ms"];
}

/// Names of the parameters whose optimizer states are on the host.
std::set<std::string> movedIn(const std::string &folder) {
  std::set<std::string> moved;
  const nlohmann::json plan = readJson(folder + "/plan.json");
  for (const nlohmann::json &rule : plan["parameters"])
    if (rule.value("optimizer_placement", "") == "host")
      moved.insert(rule["match"]);
  return moved;
}

TEST(PlannedUnderALimit, SomeStatesAreOnTheHostAndNoMore) {
  // Two ranks in a pipeline, and nothing to choose but what is kept where.
  const std::vector<std::string> fixed = {"--micro-batch", "4", "--grad-accum",          "2",   "--recompute", "none",
                                          "--zero",        "0", "--offload-activations", "none"};
  auto with = [&](std::vector<std::string> further) {
    further.insert(further.end(), fixed.begin(), fixed.end());
    return further;
  };
  const std::string plain = compiledTinyGpt2("placed-plain", with({"--pp", "2"})),
                    whole = compiledTinyGpt2("placed-whole", with({"--pp", "2", "--offload-optimizer", "cpu"}));
  const int64_t most = deviceBytes(plain), least = deviceBytes(whole);
  ASSERT_LT(least, most);
  for (int64_t limit : {most - (most - least) / 4, (most + least) / 2}) {
    SCOPED_TRACE(limit);
    const std::string placed = compiledTinyGpt2(
        "placed-part-" + std::to_string(limit),
        with({"--ranks", "2", "--pp", "2", "--virtual-stages", "1", "--device-memory", std::to_string(limit)}));
    const std::set<std::string> moved = movedIn(placed);
    EXPECT_FALSE(moved.empty());
    EXPECT_LT(moved.size(), readJson(placed + "/plan.json")["parameters"].size());
    EXPECT_LE(deviceBytes(placed), limit);
    EXPECT_GT(deviceBytes(placed), least);
    EXPECT_LT(stepMilliseconds(placed), stepMilliseconds(whole));
    EXPECT_GT(stepMilliseconds(placed), stepMilliseconds(plain));
    // A plan that a person may have edited: what it says is what is compiled again.
    const std::string again =
        compiledTinyGpt2("placed-again-" + std::to_string(limit), with({"--pp", "2", "--plan", placed + "/plan.json"}));
    EXPECT_EQ(movedIn(again), moved);
    EXPECT_EQ(deviceBytes(again), deviceBytes(placed));
    // No bit of the training changes.
    const Log expected = train(plain, kSteps), log = train(placed, kSteps);
    EXPECT_EQ(log.losses, expected.losses);
    EXPECT_EQ(log.norms, expected.norms);
  }
}

} // namespace
