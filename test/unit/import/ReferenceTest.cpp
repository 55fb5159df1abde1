// Every exported model gives the logits that PyTorch computed, as it was imported and with all passes of phase 1 run.
#include "../../e2e/SafeTensors.h"
#include "OnnxTesting.h"
#include "hyc/Pipelines/Pipelines.h"
#include "mlir/Pass/PassManager.h"
#include "test/Places.h"
#include <cmath>

using namespace hyc;
using namespace hyc::onnx;

namespace {
struct Fixture {
  const char *name;
  bool raised;
};

std::ostream &operator<<(std::ostream &stream, const Fixture &fixture) {
  return stream << fixture.name << (fixture.raised ? " raised" : " as imported");
}

class Reference : public testing::TestWithParam<Fixture> {};

/// The tokens but the last of each window: what logits are computed for.
interpreter::Tensor getInputs(const hyc_e2e::HostTensor &tokens, int64_t samples) {
  int64_t window = tokens.shape[2];
  std::vector<int64_t> ids;
  for (int64_t sample = 0; sample < samples; ++sample)
    for (int64_t i = 0; i + 1 < window; ++i)
      ids.push_back(static_cast<int64_t>(tokens.values[sample * window + i]));
  return interpreter::Tensor::fromIntegers(interpreter::ElementKind::I64, {samples, window - 1}, ids);
}

TEST_P(Reference, logits_are_those_of_pytorch) {
  std::string base = hyc::places::model(GetParam().name);
  auto reference = hyc_e2e::readSafeTensors(base + ".reference.safetensors");
  const hyc_e2e::HostTensor &expected = reference.at("logits");
  ImportOptions options;
  options.batch = expected.shape[0];
  Imported imported = importFile(base + ".onnx", options);
  ASSERT_TRUE(imported) << imported.allErrors();
  if (GetParam().raised) {
    mlir::PassManager passes(imported.context.get());
    buildPhase(Phase::Model, passes, Plan());
    ASSERT_TRUE(mlir::succeeded(passes.run(*imported.module)));
  }
  auto results = execute(imported, {getInputs(reference.at("tokens"), expected.shape[0])}, hyc::places::model(""));
  ASSERT_EQ(results.size(), 1u);
  ASSERT_EQ(results[0].getNumElements(), static_cast<int64_t>(expected.values.size()));
  double largest = 0, difference = 0;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    largest = std::max(largest, std::fabs(expected.values[i]));
    difference = std::max(difference, std::fabs(results[0].getDouble(static_cast<int64_t>(i)) - expected.values[i]));
  }
  EXPECT_GT(largest, 0.1);
  EXPECT_LT(difference, 1e-5 * largest);
}

INSTANTIATE_TEST_SUITE_P(Models, Reference,
                         testing::Values(Fixture{"gpt2-tiny", false}, Fixture{"gpt2-tiny", true},
                                         Fixture{"gpt2-5layer", true}, Fixture{"gpt2-3heads", true},
                                         Fixture{"gpt2-plain", false}, Fixture{"gpt2-plain", true},
                                         Fixture{"gpt2-tiny-legacy", false}, Fixture{"gpt2-tiny-legacy", true}));
} // namespace
