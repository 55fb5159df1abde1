// Parameters and operations of the models of Narayanan et al. 2021, "Efficient Large-Scale Language Model Training on
// GPU Clusters Using Megatron-LM", table 1 and equations 2 and 3. Vocabulary 51,200, sequence 2,048.
#include "PlannedModel.h"
#include "dialects/Hyc/HycDialect.h"

#include <gtest/gtest.h>

using namespace hyc;
using namespace hyc::oracles;

namespace {

constexpr double kTolerance = 0.005; // of truncated figures
constexpr double kVocabulary = 51200, kSequence = 2048;

struct Model {
  const char *name;
  double billions; // as printed
  int64_t heads, width, layers;
};

std::ostream &operator<<(std::ostream &stream, const Model &model) { return stream << model.name; }

constexpr Model kModels[] = {
    {"1.7B", 1.7, 24, 2304, 24},      {"7.5B", 7.5, 32, 4096, 36},        {"39.1B", 39.1, 64, 8192, 48},
    {"145.6B", 145.6, 96, 12288, 80}, {"1008B", 1008.0, 160, 25600, 128},
};

DecoderConfig configOf(const Model &model) {
  DecoderConfig config = defaultDecoder("gpt2");
  config.layers = model.layers;
  config.heads = model.heads;
  config.width = model.width;
  config.positions = static_cast<int64_t>(kSequence);
  config.vocabulary = static_cast<int64_t>(kVocabulary);
  return config;
}

/// P = 12lh²(1 + 13/(12h) + (V+s)/(12lh)).
double publishedParameters(const Model &model) {
  double l = model.layers, h = model.width;
  return 12 * l * h * h * (1 + 13 / (12 * h) + (kVocabulary + kSequence) / (12 * l * h));
}

/// F = 96Bslh²(1 + s/(6h) + V/(16lh)): forward, backward and a second forward of the layers.
double publishedOperations(const Model &model, double samples) {
  double l = model.layers, h = model.width;
  return 96 * samples * kSequence * l * h * h * (1 + kSequence / (6 * h) + kVocabulary / (16 * l * h));
}

/// Operations of products; the published figure counts the whole score matrix, masked or not.
struct Operations {
  double layers = 0, head = 0;
};

Operations countOperations(mlir::Operation *root) {
  Operations sum;
  root->walk([&](mlir::Operation *op) {
    if (!llvm::isa<EinsumOp, AttentionOp, AttentionGradOp>(op))
      return;
    double flops = static_cast<double>(llvm::cast<CostOpInterface>(op).getFlops());
    auto attention = llvm::dyn_cast<AttentionOp>(op);
    if (attention && attention.getCausal())
      flops *= 2;
    (getId(op).starts_with("lm_head") ? sum.head : sum.layers) += flops;
  });
  return sum;
}

class Narayanan : public testing::TestWithParam<Model> {};

TEST_P(Narayanan, ParametersAreThoseOfEquationTwo) {
  PlannedModel model(configOf(GetParam()), 1);
  double count = static_cast<double>(countParameters(model.get())), expected = publishedParameters(GetParam());
  EXPECT_NEAR(count, expected, kTolerance * expected);
  // Printed with one digit after the point: 1.7 is cut from 1.66 to 1.75.
  EXPECT_NEAR(count / 1e9, GetParam().billions, std::max(0.05, kTolerance * GetParam().billions));
}

TEST_P(Narayanan, OperationsAreThoseOfEquationThree) {
  constexpr int64_t kSamples = 2;
  PlannedModel model(configOf(GetParam()), kSamples);
  Operations forward = countOperations(model.get());
  double expected = publishedOperations(GetParam(), kSamples);
  EXPECT_NEAR(4 * forward.layers + 3 * forward.head, expected, kTolerance * expected);
}

INSTANTIATE_TEST_SUITE_P(Models, Narayanan, testing::ValuesIn(kModels));

TEST(Operations, BackwardTakesTwiceTheProductsOfForward) {
  DecoderConfig config = configOf(kModels[0]);
  config.layers = 2;
  PlannedModel forward(config, 1), trained(config, 1);
  ASSERT_TRUE(trained.plan(Plan(), Phase::Train));
  auto products = [](mlir::Operation *root) {
    double sum = 0;
    root->walk([&](EinsumOp op) { sum += static_cast<double>(op.getFlops()); });
    return sum;
  };
  EXPECT_EQ(products(trained.get().lookupSymbol("microbatch")), 3 * products(forward.get()));
}

} // namespace
