// Parameters that PyTorch's ONNX exporters cut, fold or rename train as they do in PyTorch.
#include "PyTorchModels.h"
#include "dialects/Hyc/HycDialect.h"

#include <gtest/gtest.h>

using namespace hyc::equivalence;

namespace {

const Model kCut{"cut.onnx", "cut", "cross_entropy"}, kGenerated{"generated-legacy.onnx", "generated", "cross_entropy"};

TEST(FoldedParameters, ThatWereCutToTwoLengthsAreOne) {
  expectPyTorchsTraining(kCut);
  EXPECT_EQ(oneDevice(kCut).gradients.size(), 6u);
}

/// What the LSTM has is laid out as ONNX wants it; the losses tell of it.
TEST(FoldedParameters, WithoutNamesAndOfOneElementAreTrained) {
  const std::vector<double> &expected = referenceOf(kGenerated).at("losses.adamw").values;
  const OneDevice &run = oneDevice(kGenerated);
  ASSERT_EQ(run.losses.size(), static_cast<size_t>(kSteps));
  for (int64_t step = 0; step < kSteps; ++step)
    EXPECT_NEAR(run.losses[step], expected[step], 1e-4 * expected[step]) << "step " << step;
  EXPECT_EQ(run.gradients.size(), 9u);
  for (const char *name : {"act.weight", "gate.bias", "gate.scale", "gate.weight", "head.bias", "head.weight"}) {
    auto gradient = run.gradients.find(name);
    ASSERT_TRUE(gradient != run.gradients.end()) << name;
    std::vector<double> mean = gradient->second.toDoubles();
    for (double &value : mean)
      value /= run.counted;
    EXPECT_LT(gradientDifference(mean, referenceOf(kGenerated).at(name), true), 1e-4) << name;
  }
}

} // namespace
