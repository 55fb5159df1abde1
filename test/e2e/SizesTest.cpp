// One folder for several lengths of samples (--dim seq=8,16,32): every step runs at the smallest that its samples fit
// in, and trains what programs of the largest length alone train. test/python/test_sizes.py holds both to PyTorch.
#include "CompiledRun.h"
#include "SafeTensors.h"

#include "gtest/gtest.h"
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

using namespace hyc_e2e;

namespace {

constexpr int kBatch = 8, kSteps = 6, kLongest = 32, kVocabulary = 257;

/// The longest sample of each step, between two sizes, at one, and a token behind it.
constexpr int kReach[kSteps] = {8, 13, 32, 9, 3, 17};
constexpr int kSize[kSteps] = {8, 16, 32, 16, 8, 32};

/// Samples of random lengths, one of each step of the step's reach: tokens, and behind them padding that no loss
/// counts.
std::string samples() {
  std::mt19937 random(7);
  HostTensor ids{{kSteps * kBatch, kLongest}, {}}, labels = ids;
  for (int sample = 0; sample < kSteps * kBatch; ++sample) {
    const int reach = kReach[sample / kBatch], long_ = sample / kBatch % kBatch;
    const int length = sample % kBatch == long_ ? reach : 2 + static_cast<int>(random() % (reach - 1));
    for (int i = 0; i < kLongest; ++i) {
      const double token = 1 + static_cast<double>(random() % (kVocabulary - 1));
      ids.values.push_back(i < length ? token : 0);
      labels.values.push_back(i < length ? token : -100);
    }
  }
  return writeSafeTensors(scratch("sizes-data") + ".safetensors",
                          {{"input_ids", "I64", ids}, {"labels", "I64", labels}});
}

struct Sizes {
  std::string name;
  std::vector<std::string> layout;
  double tolerance = 1e-6;
  friend void PrintTo(const Sizes &sizes, std::ostream *out) { *out << sizes.name; }
};

std::string compiledWith(const Sizes &sizes, const std::string &dim, const std::string &entry) {
  const std::string folder = scratch("sizes-" + sizes.name + dim);
  std::vector<std::string> arguments = {tool("hyc-compile"), model("llama"), "--loss", "causal_lm", "--dim",      dim,
                                        "--optimizer",       "adamw",        "--lr",   "1e-2",      "--optimize", "0",
                                        "--entry",           entry,          "-o",     folder};
  arguments.insert(arguments.end(), sizes.layout.begin(), sizes.layout.end());
  Outcome outcome = execute(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return folder;
}

std::string run(const std::string &folder, const std::string &data, const std::vector<std::string> &further = {}) {
  static int runs = 0; // one that is resumed would go on in the log of another
  const std::string log = scratch("sizes-log" + std::to_string(++runs)) + ".jsonl";
  std::vector<std::string> arguments = {tool("hyc-run"),        folder,       "--data", data, "--no-shuffle", "--steps",
                                        std::to_string(kSteps), "--log-file", log};
  arguments.insert(arguments.end(), further.begin(), further.end());
  Outcome outcome = execute(arguments);
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return log;
}

std::vector<int64_t> sizesIn(const std::string &log) {
  std::vector<int64_t> sizes;
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);)
    if (auto record = nlohmann::json::parse(line); record.contains("loss"))
      sizes.push_back(record.value("size", 0));
  return sizes;
}

class SizesOf : public testing::TestWithParam<Sizes> {};

TEST_P(SizesOf, SamplesTrainAsTheLargestAlone) {
  const std::string data = samples();
  const std::string log = run(compiledWith(GetParam(), "seq=32,8,16", "train"), data);
  EXPECT_EQ(sizesIn(log), std::vector<int64_t>(std::begin(kSize), std::end(kSize)));
  const std::string whole = run(compiledWith(GetParam(), "seq=32", "train"), data);
  EXPECT_EQ(sizesIn(whole), std::vector<int64_t>(kSteps, 0));
  const Log found = readLog(log), expected = readLog(whole);
  ASSERT_EQ(found.losses.size(), static_cast<size_t>(kSteps));
  ASSERT_EQ(expected.losses.size(), static_cast<size_t>(kSteps));
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_NEAR(found.losses[step] / expected.losses[step], 1, GetParam().tolerance) << "step " << step;
    EXPECT_NEAR(found.norms[step] / expected.norms[step], 1, 10 * GetParam().tolerance) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, SizesOf,
    testing::Values(
        Sizes{"one", {"--micro-batch", "4", "--grad-accum", "2"}},
        Sizes{"pipeline", {"--pp", "2", "--tp", "2", "--micro-batch", "2", "--grad-accum", "4"}},
        Sizes{"pieces", {"--pp", "2", "--virtual-stages", "2", "--dp", "2", "--micro-batch", "1", "--grad-accum", "4"}},
        Sizes{"sequence", {"--tp", "2", "--dp", "2", "--sequence-parallel", "--zero", "2", "--micro-batch", "4"}},
        Sizes{"moved",
              {"--dp", "2", "--zero", "3", "--offload-param", "cpu", "--offload-activations", "cpu", "--recompute",
               "layer", "--micro-batch", "2", "--grad-accum", "2"}},
        Sizes{"scaled",
              {"--pp", "2", "--schedule", "gpipe", "--dp", "2", "--zero", "1", "--precision", "fp16", "--micro-batch",
               "2", "--grad-accum", "2"},
              1e-3}),
    [](const testing::TestParamInfo<Sizes> &info) { return info.param.name; });

/// Evaluation between steps is by the largest size, and a run that goes on chooses as it would have.
TEST(SizesBeside, EvaluationAndCheckpointsAreOfOneSetOfStates) {
  const std::string data = samples(), checkpoints = scratch("sizes-checkpoints");
  const std::string folder =
      compiledWith({"resumed", {"--dp", "2", "--zero", "2", "--micro-batch", "4"}}, "seq=8,16,32", "train,evaluate");
  const Log whole = readLog(run(folder, data, {"--evaluate-data", data}));
  ASSERT_EQ(whole.evaluations.size(), 1u);

  const std::string first = scratch("sizes-first") + ".jsonl";
  Outcome outcome = execute({tool("hyc-run"), folder, "--data", data, "--no-shuffle", "--steps", "3", "--log-file",
                             first, "--checkpoint", checkpoints});
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  const std::string log = run(folder, data, {"--resume", checkpoints});
  EXPECT_EQ(sizesIn(log), std::vector<int64_t>(std::begin(kSize) + 3, std::end(kSize)));
  EXPECT_EQ(readLog(log).losses, std::vector<double>(whole.losses.begin() + 3, whole.losses.end()));

  // A folder of one size has the same states.
  const std::string alone = compiledWith({"alone", {"--micro-batch", "8"}}, "seq=32", "train,evaluate");
  const std::string elsewhere = run(alone, data, {"--resume", checkpoints, "--evaluate-data", data});
  const Log taken = readLog(elsewhere);
  ASSERT_EQ(taken.losses.size(), 3u);
  for (int step = 0; step < 3; ++step)
    EXPECT_NEAR(taken.losses[step] / whole.losses[step + 3], 1, 1e-5) << "step " << step;
  ASSERT_EQ(taken.evaluations.size(), 1u);
  EXPECT_NEAR(taken.evaluations[0].loss / whole.evaluations[0].loss, 1, 1e-5);
}

/// Windows of a token file have no padding: all steps are of the largest size. So are those that are measured.
TEST(SizesBeside, WindowsOfTokensAndMeasuredStepsAreOfTheLargest) {
  const std::string folder = compiledWith({"windows", {"--micro-batch", "8"}}, "seq=8,16,32", "train");
  EXPECT_EQ(sizesIn(run(folder, model("text.bin"))), std::vector<int64_t>(kSteps, kLongest));
  EXPECT_EQ(sizesIn(run(folder, samples(), {"--profile", scratch("sizes-profile") + ".json"})),
            std::vector<int64_t>(kSteps, kLongest));
}

} // namespace
