// Every family of decoders that hyc builds from a config.json, in test/models/families: the logits and the losses of
// training that PyTorch computes with transformers' class and the same weights.
#include "PyTorchModels.h"
#include "dialects/Hyc/HycDialect.h"

#include <gtest/gtest.h>

using namespace hyc::equivalence;
using namespace hyc::interpreter;

namespace {
constexpr int64_t kFamilySteps = 4;

/// The values of all families, in one file.
const Model kAll{"families", "families", "causal_lm"};

std::vector<std::string> familyNames() {
  std::vector<std::string> names;
  for (const auto &[name, tensor] : referenceOf(kAll))
    if (llvm::StringRef family = name; family.consume_back(".logits"))
      names.push_back(family.str());
  return names;
}

std::string pathOf(const std::string &family) {
  return std::string(HYC_MODELS_DIR "/families/") + family + "/config.json";
}

std::string nameOfFamily(const testing::TestParamInfo<std::string> &info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class Families : public testing::TestWithParam<std::string> {};

TEST_P(Families, LogitsArePyTorchs) {
  const hyc_e2e::HostTensor &expected = referenceOf(kAll).at(GetParam() + ".logits");
  const int64_t samples = expected.shape[0];
  TrainedModule module(pathOf(GetParam()), samples);
  ASSERT_TRUE(module && module.enter(hyc::Phase::Model, optionsOf(kAll))) << module.diagnostics();
  EXPECT_EQ(module.diagnostics(), ""); // every key of the family's configuration is known
  llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get());
  ASSERT_TRUE(succeeded(interpreter)) << module.diagnostics();
  NamedTensors batch = batchOf(kAll, 0, samples);
  batch.erase("labels"); // an input of the loss alone
  auto results = interpreter->call("train", batch);
  ASSERT_TRUE(succeeded(results)) << module.diagnostics();
  EXPECT_LT(relativeDifference((*results)[0].toDoubles(), expected.values), 1e-5);
}

std::vector<double> lossesOf(TrainedModule &module, int64_t samples) {
  std::vector<double> losses;
  llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get());
  for (int64_t step = 0; succeeded(interpreter) && step < kFamilySteps; ++step) {
    llvm::FailureOr<StepResult> result = runTrainStep(*interpreter, {batchOf(kAll, step, samples)}, kRate);
    if (failed(result))
      break;
    losses.push_back(result->meanLoss());
  }
  return losses;
}

TEST_P(Families, TrainAsPyTorchDoes) {
  const hyc_e2e::HostTensor &expected = referenceOf(kAll).at(GetParam() + ".losses");
  const int64_t samples = batchSize(kAll);
  TrainedModule module(pathOf(GetParam()), samples);
  const hyc::Plan options = optionsOf(kAll);
  ASSERT_TRUE(module && module.enter(hyc::Phase::Model, options) && module.enter(hyc::Phase::Train, options))
      << module.diagnostics();
  const std::vector<double> losses = lossesOf(module, samples);
  ASSERT_EQ(losses.size(), expected.values.size()) << module.diagnostics();
  for (size_t step = 0; step < losses.size(); ++step)
    EXPECT_NEAR(losses[step] / expected.values[step], 1, 1e-5) << "step " << step;
}

INSTANTIATE_TEST_SUITE_P(Folders, Families, testing::ValuesIn(familyNames()), nameOfFamily);
} // namespace
