// The tiny GPT-2 in fp8, as executables.
#include "CompiledRun.h"
#include "SafeTensors.h"

#include "gtest/gtest.h"
#include <cmath>
#include <fstream>
#include <iterator>

using namespace hyc_e2e;

namespace {

constexpr int kSteps = 20;

void expectNear(const std::vector<double> &actual, const std::vector<double> &expected, double tolerance) {
  ASSERT_LE(actual.size(), expected.size());
  for (size_t step = 0; step < actual.size(); ++step)
    EXPECT_NEAR(actual[step] / expected[step], 1.0, tolerance)
        << "step " << step + 1 << ": " << actual[step] << " and " << expected[step];
}

Layout layoutOf(int size, std::vector<std::string> further = {}) {
  return {size, size, size, "1f1b", "adamw", "fp8", std::move(further)};
}

/// The recipe written in PyTorch, and PyTorch's own bf16, from which rounding to 8 bits may lead away by some more.
TEST(Fp8, LossesAreNearPyTorchsInFp8AndInBf16) {
  Log log = train(compiled(layoutOf(1)), kSteps);
  ASSERT_EQ(log.losses.size(), static_cast<size_t>(kSteps));
  expectNear(log.losses, readSafeTensors(model("gpt2-tiny.fp8.safetensors")).at("losses.adamw").values, 0x1p-10);
  expectNear(log.losses, readSafeTensors(model("gpt2-tiny.bf16.safetensors")).at("losses.adamw").values, 0x1p-8);
}

struct Trained {
  Log log;
  std::string weights;
};

Trained trainWith(std::vector<std::string> further) {
  std::string folder = compiled(layoutOf(2, std::move(further))), weights = folder + "/weights.safetensors";
  Trained trained{train(folder, 6, {"--save-weights", weights}), {}};
  std::ifstream file(weights, std::ios::binary);
  trained.weights.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  return trained;
}

/// Eight ranks: tensors, stages and samples split, then parameters and states flat and activations computed again.
TEST(Fp8, EightRanksAreNearPyTorchAndZeroAndRecomputationChangeNoBit) {
  Trained whole = trainWith({"--gradient-reduction", "micro_batch"});
  expectNear(whole.log.losses, readSafeTensors(model("gpt2-tiny.fp8.safetensors")).at("losses.adamw").values, 0x1p-9);
  Trained flat = trainWith({"--gradient-reduction", "micro_batch", "--zero", "3",
                            "--stage3-param-persistence-threshold", "3000", "--recompute", "layer"});
  EXPECT_EQ(flat.log.losses, whole.log.losses);
  EXPECT_EQ(flat.log.norms, whole.log.norms);
  EXPECT_FALSE(whole.weights.empty());
  EXPECT_TRUE(flat.weights == whole.weights);
}

} // namespace
