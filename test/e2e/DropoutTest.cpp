// Dropout in emitted executables: the same elements are dropped whatever the layout, the micro-batch, the ZeRO stage
// and what is computed again; others for another seed and in another step.
#include "CompiledRun.h"

#include "gtest/gtest.h"
#include <cmath>
#include <fstream>
#include <iterator>

using namespace hyc_e2e;

namespace {

constexpr int kSteps = 8;

std::string configFile() {
  static const std::string path = [] {
    std::string file = scratch("dropout_model") + ".json";
    std::ofstream(file) << R"({"model_type": "gpt2", "n_layer": 4, "n_head": 4, "n_embd": 32, "n_positions": 24,
      "vocab_size": 257, "attn_pdrop": 0.2, "embd_pdrop": 0.1, "resid_pdrop": 0.3, "initializer_range": 0.1})";
    return file;
  }();
  return path;
}

struct Trained {
  Log log;
  std::string weights;
};

std::string textOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// Eight samples a step, in this layout.
Trained trainWith(const std::string &name, int tp, int pp, int dp, int microBatch,
                  const std::vector<std::string> &flags = {}, const std::string &seed = "1",
                  const std::string &input = configFile()) {
  std::string folder = scratch("dropout_" + name);
  std::vector<std::string> arguments = {tool("hyc-compile"),
                                        input,
                                        "--tp",
                                        std::to_string(tp),
                                        "--pp",
                                        std::to_string(pp),
                                        "--dp",
                                        std::to_string(dp),
                                        "--micro-batch",
                                        std::to_string(microBatch),
                                        "--grad-accum",
                                        std::to_string(8 / (dp * microBatch)),
                                        "--optimizer",
                                        "adamw",
                                        "--lr",
                                        "1e-3",
                                        "-o",
                                        folder};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  Outcome outcome = execute(trainingOnly(arguments));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  if (outcome.status != 0)
    return {};
  std::string weights = folder + "/weights.safetensors";
  Trained trained{train(folder, kSteps, {"--seed", seed, "--save-weights", weights}), {}};
  trained.weights = textOf(weights);
  EXPECT_FALSE(trained.weights.empty());
  return trained;
}

const Trained &one() {
  static const Trained trained = trainWith("one", 1, 1, 1, 2);
  return trained;
}

double largestDifference(const Log &a, const Log &b) {
  if (a.losses.empty() || a.losses.size() != b.losses.size())
    return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < a.losses.size(); ++i)
    largest = std::max(largest, std::fabs(a.losses[i] - b.losses[i]) / b.losses[i]);
  return largest;
}

TEST(Dropout, IsTheSameInEveryLayout) {
  struct {
    const char *name;
    int tp, pp, dp, microBatch;
    std::vector<std::string> flags;
  } layouts[] = {
      {"micro4", 1, 1, 1, 4, {}},
      {"dp2", 1, 1, 2, 1, {}},
      {"tp2", 2, 1, 1, 2, {}},
      {"tp2sequence", 2, 1, 1, 2, {"--sequence-parallel"}},
      {"pp2", 1, 2, 1, 2, {}},
      {"all", 2, 2, 2, 1, {"--zero", "3", "--stage3-param-persistence-threshold", "0", "--recompute", "layer"}}};
  for (const auto &layout : layouts) {
    Trained ranks = trainWith(layout.name, layout.tp, layout.pp, layout.dp, layout.microBatch, layout.flags);
    // One mask bit more or less shows in the fourth digit.
    EXPECT_LT(largestDifference(ranks.log, one().log), 2e-6) << layout.name;
  }
}

TEST(Dropout, HasTheSameBitsUnderZeroAndRecomputation) {
  Trained plain = trainWith("plain", 2, 1, 2, 1, {"--gradient-reduction", "micro_batch"});
  const std::pair<const char *, std::vector<std::string>> variants[] = {
      {"again", {"--gradient-reduction", "micro_batch", "--recompute", "layer"}},
      {"zero2", {"--gradient-reduction", "micro_batch", "--zero", "2"}},
      {"zero3", {"--gradient-reduction", "micro_batch", "--zero", "3", "--stage3-param-persistence-threshold", "0"}}};
  for (const auto &[name, flags] : variants) {
    Trained other = trainWith(name, 2, 1, 2, 1, flags);
    EXPECT_EQ(other.log.losses, plain.log.losses) << name;
    EXPECT_TRUE(other.weights == plain.weights) << name;
  }
}

/// Rules of the plan keep the masks; not a bit changes.
TEST(Dropout, HasTheSameBitsWithMasksSaved) {
  std::string folder = scratch("dropout_plan");
  ASSERT_EQ(execute({tool("hyc-compile"), configFile(), "--plan-only", "-o", folder}).status, 0);
  std::string plan = textOf(folder + "/plan.json"), drawn = "mask\", \"lifetime\": \"recompute\"";
  int rules = 0;
  for (size_t at = plan.find(drawn); at != std::string::npos; at = plan.find(drawn), ++rules)
    plan.replace(at, drawn.size(), "mask\", \"lifetime\": \"save\"");
  ASSERT_EQ(rules, 3); // of the embedding, of attention's and of the MLP's result
  std::ofstream(folder + "/saved.json") << plan;
  Trained saved = trainWith("saved", 1, 1, 1, 2, {"--plan", folder + "/saved.json"});
  EXPECT_EQ(saved.log.losses, one().log.losses);
  EXPECT_TRUE(saved.weights == one().weights);
}

TEST(Dropout, DropsOthersForAnotherSeedAndMoreThanNothing) {
  // The data come in order, so that the first loss differs by initial weights and masks alone.
  Trained again = trainWith("again", 1, 1, 1, 2);
  EXPECT_EQ(again.log.losses, one().log.losses);
  Trained other = trainWith("other", 1, 1, 1, 2, {}, "2");
  EXPECT_GT(largestDifference(other.log, one().log), 1e-3);
  std::string text = textOf(configFile());
  for (const char *rate : {"0.2", "0.1,", "0.3"})
    text.replace(text.find(rate), 3, "0.0");
  std::string none = scratch("dropout_none") + ".json";
  std::ofstream(none) << text;
  Trained undropped = trainWith("none", 1, 1, 1, 2, {}, "1", none);
  EXPECT_GT(largestDifference(undropped.log, one().log), 1e-4);
}

} // namespace
