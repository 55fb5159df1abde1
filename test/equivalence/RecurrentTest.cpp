// Recurrent layers as torch.export leaves them, whole: PyTorch's logits, gradients and losses, and the same over a
// mesh.
#include "PyTorchModels.h"
#include "dialects/Hyc/HycDialect.h"

#include <gtest/gtest.h>

using namespace hyc::equivalence;
using namespace hyc::interpreter;

namespace {
const Model kRecurrent{"recurrent.pt2", "recurrent", "cross_entropy"};
/// Of so many steps that they are rolled.
const Model kLong{"recurrent_long.pt2", "recurrent_long", "cross_entropy"};
/// Of as many, each of which its exporter wrote out.
const Model kDecomposed{"recurrent_decomposed.pt2", "recurrent_decomposed", "cross_entropy"};

class RecurrentModel : public testing::TestWithParam<Model> {};
INSTANTIATE_TEST_SUITE_P(, RecurrentModel, testing::Values(kRecurrent, kLong, kDecomposed),
                         [](const auto &info) { return std::string(info.param.name); });

TEST_P(RecurrentModel, LogitsArePyTorchs) {
  const hyc_e2e::HostTensor &expected = referenceOf(GetParam()).at("logits");
  TrainedModule module(pathOf(GetParam()), expected.shape[0]);
  ASSERT_TRUE(module && module.enter(hyc::Phase::Model, optionsOf(GetParam()))) << module.diagnostics();
  llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get());
  ASSERT_TRUE(succeeded(interpreter)) << module.diagnostics();
  NamedTensors batch = batchOf(GetParam(), 0, expected.shape[0]);
  batch.erase("labels"); // an input of the loss alone
  auto results = interpreter->call("train", batch);
  ASSERT_TRUE(succeeded(results)) << module.diagnostics();
  EXPECT_LT(relativeDifference((*results)[0].toDoubles(), expected.values), 1e-5);
}

TEST_P(RecurrentModel, TrainsAsPyTorchDoes) { expectPyTorchsTraining(GetParam()); }

TEST_P(RecurrentModel, TrainsBySgdAsPyTorchDoes) {
  constexpr double kSgdRate = 0.1;
  hyc::Plan options = optionsOf(GetParam());
  options.optimizer = "sgd";
  options.weightDecay = 0;
  TrainedModule module(pathOf(GetParam()), batchSize(GetParam()));
  ASSERT_TRUE(module && module.enter(hyc::Phase::Model, options) && module.enter(hyc::Phase::Train, options))
      << module.diagnostics();
  llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get());
  ASSERT_TRUE(succeeded(interpreter)) << module.diagnostics();
  const std::vector<double> &expected = referenceOf(GetParam()).at("losses.sgd").values;
  for (int64_t step = 0; step < kSteps; ++step) {
    auto result = runTrainStep(*interpreter, {batchOf(GetParam(), step, batchSize(GetParam()))}, kSgdRate);
    ASSERT_TRUE(succeeded(result)) << module.diagnostics();
    EXPECT_NEAR(result->meanLoss(), expected[step], 1e-5 * expected[step]) << "step " << step;
  }
}

TEST_P(RecurrentModel, TrainsAlikeOverMeshes) {
  for (int64_t zero : {0, 3})
    for (hyc::Phase last : {hyc::Phase::Local, hyc::Phase::Rank}) {
      SCOPED_TRACE("zero " + std::to_string(zero) + (last == hyc::Phase::Rank ? ", lowered" : ""));
      hyc::Plan options = optionsOf(GetParam());
      options.tp = options.dp = options.gradAccum = 2;
      options.zero = zero;
      options.gradientReduction = zero >= 2 ? "micro_batch" : "step";
      options.persistenceThreshold = 0;
      expectMeshToTrainAlike(GetParam(), options, oneDevice(GetParam()), last);
    }
}

/// The bias of a GRU's state has several contributions, each summed over dp in backward: one is added behind what makes
/// the next one, and the gradient that both are added to is fetched.
TEST(Recurrent, TrainsAlikeWithGradientsOnTheHost) {
  for (int64_t zero : {0, 1, 2, 3}) {
    SCOPED_TRACE("zero " + std::to_string(zero));
    hyc::Plan options = optionsOf(kRecurrent);
    options.dp = options.gradAccum = 2;
    options.zero = zero;
    options.gradientReduction = zero >= 2 ? "micro_batch" : "step";
    options.persistenceThreshold = 0;
    options.offloadOptimizer = options.offloadParam = options.offloadGradients = "cpu";
    expectMeshToTrainAlike(kRecurrent, options, oneDevice(kRecurrent), hyc::Phase::Rank);
  }
}

/// One product of all steps' inputs a direction, and one of the state for each step but the first, whose state is zero.
TEST(Recurrent, MultipliesTheInputsOfAllStepsAtOnce) {
  TrainedModule module(pathOf(kRecurrent), 2);
  ASSERT_TRUE(module) << module.diagnostics();
  constexpr int64_t kLength = 6, kDirections = 5, kHead = 1;
  int64_t products = 0;
  module.get().walk([&](hyc::EinsumOp) { ++products; });
  EXPECT_EQ(products, kDirections * (1 + kLength - 1) + kHead);
}

/// One op for all steps of a direction, and as many that go back.
void expectScans(const Model &model, int64_t directions) {
  hyc::Plan options = optionsOf(model);
  TrainedModule module(pathOf(model), batchSize(model));
  ASSERT_TRUE(module && module.enter(hyc::Phase::Model, options) && module.enter(hyc::Phase::Train, options))
      << module.diagnostics();
  int64_t forward = 0, backward = 0;
  module.get().walk([&](hyc::ScanOp scan) { ++(scan->hasAttr("hyc.backward") ? backward : forward); });
  EXPECT_EQ(forward, directions);
  EXPECT_EQ(backward, directions);
}

TEST(RolledRecurrent, GrowsWithLayersAlone) {
  expectScans(kLong, 6);
  expectScans(kDecomposed, 3);
}

TEST(RolledRecurrent, TrainsAlikeInStages) {
  for (hyc::Phase last : {hyc::Phase::Local, hyc::Phase::Rank}) {
    hyc::Plan options = optionsOf(kLong);
    options.tp = options.dp = options.pp = options.gradAccum = 2;
    expectMeshToTrainAlike(kLong, options, oneDevice(kLong), last);
  }
}
} // namespace
