// ZeRO's stages on emitted executables: whatever is flat, gathered ahead or computed again, losses, norms and weights
// have the same bits.
#include "CompiledRun.h"

#include "gtest/gtest.h"
#include <fstream>
#include <iterator>

using namespace hyc_e2e;

namespace {

constexpr int kSteps = 50;

std::string bytesOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct Mesh {
  int tp, pp, dp;
  std::string name() const { return "tp" + std::to_string(tp) + "pp" + std::to_string(pp) + "dp" + std::to_string(dp); }
};

/// What training left behind.
struct Trained {
  Log log;
  std::string weights, gradients;
};

/// Three micro-batches a step, and a norm that is clipped in every step.
Trained trainWith(const Mesh &mesh, const std::string &optimizer, const std::string &name,
                  const std::vector<std::string> &zero) {
  std::string folder = scratch("zero_" + mesh.name() + "_" + optimizer + "_" + name);
  std::vector<std::string> arguments = {tool("hyc-compile"),
                                        model("gpt2-tiny.onnx"),
                                        "--loss",
                                        "cross_entropy",
                                        "--logits",
                                        "logits",
                                        "--labels",
                                        "labels",
                                        "--tp",
                                        std::to_string(mesh.tp),
                                        "--pp",
                                        std::to_string(mesh.pp),
                                        "--dp",
                                        std::to_string(mesh.dp),
                                        "--micro-batch",
                                        "1",
                                        "--grad-accum",
                                        "3",
                                        "--optimizer",
                                        optimizer,
                                        "--lr",
                                        "1e-3",
                                        "--weight-decay",
                                        "0.01",
                                        "--clip-grad-norm",
                                        "0.5",
                                        "-o",
                                        folder};
  arguments.insert(arguments.end(), zero.begin(), zero.end());
  Outcome outcome = execute(trainingOnly(arguments));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  std::string weights = folder + "/weights.safetensors", gradients = folder + "/gradients.safetensors";
  Trained trained{train(folder, kSteps, {"--save-weights", weights, "--dump-gradients", gradients}), {}, {}};
  trained.weights = bytesOf(weights);
  trained.gradients = bytesOf(gradients);
  EXPECT_FALSE(trained.weights.empty() || trained.gradients.empty());
  return trained;
}

class ZeroStages : public testing::TestWithParam<Mesh> {};

TEST_P(ZeroStages, HaveTheSameBits) {
  const Mesh &mesh = GetParam();
  for (const char *reduction : {"step", "micro_batch"}) {
    auto flags = [&](const std::string &stage, const std::vector<std::string> &more = {}) {
      std::vector<std::string> all = {"--zero", stage, "--gradient-reduction", reduction};
      all.insert(all.end(), more.begin(), more.end());
      return all;
    };
    Trained whole = trainWith(mesh, "adamw", std::string("0_") + reduction, flags("0"));
    for (double norm : whole.log.norms)
      EXPECT_GT(norm, 0.5) << "clipping is meant to be active";
    const std::pair<std::string, std::vector<std::string>> variants[] = {
        {"1", flags("1")},
        {"2", flags("2", {"--reductions-in-flight", "3", "--reduce-bucket-size", "20000", "--allgather-bucket-size",
                          "20000"})},
        {"3", flags("3", {"--stage3-param-persistence-threshold", "5000"})},
        {"3_ahead", flags("3", {"--stage3-param-persistence-threshold", "0", "--stage3-prefetch", "2",
                                "--stage3-max-live-parameters", "100000"})},
        {"3_again", flags("3", {"--stage3-param-persistence-threshold", "0", "--recompute", "layer"})},
        {"3_out",
         flags("3", {"--stage3-param-persistence-threshold", "5000", "--recompute", "layer", "--offload-optimizer",
                     "cpu", "--offload-param", "cpu", "--offload-gradients", "cpu", "--offload-activations", "cpu"})}};
    for (const auto &[name, arguments] : variants) {
      Trained flat = trainWith(mesh, "adamw", name + "_" + reduction, arguments);
      EXPECT_EQ(flat.log.losses, whole.log.losses) << name << ", " << reduction;
      EXPECT_EQ(flat.log.norms, whole.log.norms) << name << ", " << reduction;
      EXPECT_TRUE(flat.weights == whole.weights) << name << ", " << reduction;
      EXPECT_TRUE(flat.gradients == whole.gradients) << name << ", " << reduction;
    }
  }
}

class ZeroOptimizers : public testing::TestWithParam<const char *> {};

/// LAMB's trust ratio asks for norms of whole parameters, of which stage 3 leaves a rank a shard of its tp shard.
TEST_P(ZeroOptimizers, HaveTheSameBitsInEveryStage) {
  const Mesh mesh{2, 1, 2};
  auto flags = [](const std::string &stage) {
    return std::vector<std::string>{
        "--zero", stage, "--gradient-reduction", "micro_batch", "--stage3-param-persistence-threshold", "5000"};
  };
  Trained whole = trainWith(mesh, GetParam(), "0", flags("0"));
  for (const char *stage : {"1", "2", "3"}) {
    Trained flat = trainWith(mesh, GetParam(), stage, flags(stage));
    EXPECT_EQ(flat.log.losses, whole.log.losses) << stage;
    EXPECT_EQ(flat.log.norms, whole.log.norms) << stage;
    EXPECT_TRUE(flat.weights == whole.weights) << stage;
    EXPECT_TRUE(flat.gradients == whole.gradients) << stage;
  }
}

INSTANTIATE_TEST_SUITE_P(AllButAdamW, ZeroOptimizers, testing::Values("adam", "lamb", "lion", "sgd"),
                         [](const auto &info) { return std::string(info.param); });

INSTANTIATE_TEST_SUITE_P(Layouts, ZeroStages, testing::Values(Mesh{2, 2, 2}, Mesh{1, 1, 4}),
                         [](const auto &info) { return info.param.name(); });

} // namespace
