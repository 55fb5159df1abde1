// The tiny GPT-2, imported from ONNX, in the interpreter: one device against what PyTorch computed, and every layout of
// eight ranks against one device. The executables are held to the same in test/e2e, on fewer layouts.
#include "SafeTensors.h"
#include "TrainedModule.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Interpreter/MeshInterpreter.h"
#include "test/Places.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace hyc::equivalence;
using namespace hyc::interpreter;

namespace {
const std::string kModel = hyc::places::model("gpt2-tiny.onnx");
constexpr int64_t kSamples = 16, kSequence = 64, kSteps = 20;

/// What PyTorch computed, read once.
const std::map<std::string, hyc_e2e::HostTensor> &reference() {
  static const auto tensors = hyc_e2e::readSafeTensors(hyc::places::model("gpt2-tiny.reference.safetensors"));
  return tensors;
}

/// The inputs of one step: windows of sequence + 1 tokens.
NamedTensors batchOf(int64_t step) {
  const std::vector<double> &tokens = reference().at("tokens").values;
  NamedTensors batch;
  Tensor &ids = batch["input_ids"] = Tensor(ElementKind::I64, {kSamples, kSequence});
  Tensor &labels = batch["labels"] = Tensor(ElementKind::I64, {kSamples, kSequence});
  for (int64_t sample = 0; sample < kSamples; ++sample)
    for (int64_t i = 0; i < kSequence; ++i) {
      size_t at = static_cast<size_t>((step * kSamples + sample) * (kSequence + 1) + i);
      ids.set(sample * kSequence + i, tokens[at]);
      labels.set(sample * kSequence + i, tokens[at + 1]);
    }
  return batch;
}

struct Optimizer {
  std::string name;
  double lr, weightDecay;
};
const Optimizer kAdamW{"adamw", 1e-3, 0.01}, kSgd{"sgd", 0.1, 0};

hyc::Plan optionsOf(const Optimizer &optimizer) {
  hyc::Plan options;
  options.logits = "logits";
  options.optimizer = optimizer.name;
  options.weightDecay = optimizer.weightDecay;
  return options;
}

/// One device and its losses.
struct OneDevice {
  explicit OneDevice(const Optimizer &optimizer);
  const Tensor &state(const std::string &symbol) const { return *interpreter->getState(symbol); }

  TrainedModule module;
  llvm::FailureOr<Interpreter> interpreter;
  std::vector<double> losses;
  /// Gradients of the first step, sums over tokens, by parameter.
  NamedTensors gradients;
};

OneDevice::OneDevice(const Optimizer &optimizer) : module(kModel, kSamples) {
  hyc::Plan options = optionsOf(optimizer);
  bool compiled = module.enter(hyc::Phase::Model, options) && module.enter(hyc::Phase::Train, options);
  if (compiled)
    interpreter = Interpreter::create(module.get());
  for (int64_t step = 0; succeeded(interpreter) && step < kSteps; ++step) {
    llvm::FailureOr<StepResult> result = runTrainStep(*interpreter, {batchOf(step)}, optimizer.lr);
    if (failed(result))
      break;
    losses.push_back(result->meanLoss());
    for (hyc::ParamOp param : module.get().getOps<hyc::ParamOp>())
      if (const Tensor *gradient = interpreter->getState(param.getSymName().str() + ".grad"); gradient && step == 0)
        gradients[param.getSymName()] = *gradient;
  }
  EXPECT_EQ(losses.size(), static_cast<size_t>(kSteps)) << module.diagnostics();
}

/// The same run for every test that compares with it.
const OneDevice &oneDevice(const Optimizer &optimizer) {
  static const OneDevice adamw(kAdamW), sgd(kSgd);
  return optimizer.name == "sgd" ? sgd : adamw;
}

/// max |a - b| over max |b|.
double relativeDifference(llvm::ArrayRef<double> actual, llvm::ArrayRef<double> expected) {
  double difference = 0, magnitude = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference = std::fmax(difference, std::fabs(actual[i] - expected[i]));
    magnitude = std::fmax(magnitude, std::fabs(expected[i]));
  }
  return difference / magnitude;
}

struct Mesh {
  int64_t tp, pp, dp, virtualStages = 1;
};
std::string describe(const Mesh &mesh) {
  return "tp" + std::to_string(mesh.tp) + "_pp" + std::to_string(mesh.pp) + "_dp" + std::to_string(mesh.dp) +
         (mesh.virtualStages > 1 ? "_v" + std::to_string(mesh.virtualStages) : "");
}
/// For GoogleTest, which would list its bytes otherwise.
void PrintTo(const Mesh &mesh, std::ostream *out) { *out << describe(mesh); }

/// What ZeRO adds to a layout.
struct Zero {
  int64_t stage = 0;
  std::string gradientReduction = "step";
  double clipGradNorm = 0;
  int64_t prefetch = 0;
};

/// All ranks of a mesh, partitioned and ready.
struct Ranks {
  Ranks(const Mesh &mesh, const Optimizer &optimizer, const std::string &schedule, const Zero &zero = {})
      : microBatches(mesh.dp == 8 ? 2 : 4), module(kModel, kSamples / microBatches) {
    hyc::Plan options = optionsOf(optimizer);
    options.tp = mesh.tp, options.pp = mesh.pp, options.dp = mesh.dp;
    options.virtualStages = mesh.virtualStages;
    options.gradAccum = microBatches;
    options.schedule = schedule;
    options.zero = zero.stage;
    options.gradientReduction = zero.gradientReduction;
    options.clipGradNorm = zero.clipGradNorm;
    options.persistenceThreshold = 5000; // some matrices stay whole
    options.prefetch = zero.prefetch;
    bool compiled = true;
    for (hyc::Phase phase : {hyc::Phase::Model, hyc::Phase::Train, hyc::Phase::Plan, hyc::Phase::Local})
      compiled = compiled && module.enter(phase, options);
    if (compiled)
      interpreter = MeshInterpreter::create(module.get());
    EXPECT_TRUE(succeeded(interpreter)) << module.diagnostics();
  }

  int64_t microBatches;
  TrainedModule module;
  llvm::FailureOr<MeshInterpreter> interpreter;
};
} // namespace

TEST(Gpt2, OneDeviceTrainsAsPyTorchDoes) {
  for (const Optimizer &optimizer : {kAdamW, kSgd}) {
    const std::vector<double> &expected = reference().at("losses." + optimizer.name).values;
    const std::vector<double> &losses = oneDevice(optimizer).losses;
    ASSERT_EQ(losses.size(), expected.size());
    for (size_t step = 0; step < expected.size(); ++step)
      EXPECT_NEAR(losses[step], expected[step], 1e-4 * expected[step]) << optimizer.name << " step " << step;
  }
}

TEST(Gpt2, FirstGradientsArePyTorchs) {
  int compared = 0;
  for (const auto &entry : oneDevice(kSgd).gradients) {
    auto expected = reference().find(entry.first().str());
    if (expected == reference().end())
      continue; // the exporter keeps the position table under another name
    std::vector<double> gradient = entry.second.toDoubles();
    ASSERT_EQ(gradient.size(), expected->second.values.size()) << entry.first().str();
    for (double &value : gradient) // PyTorch's is of the mean
      value /= static_cast<double>(kSamples * kSequence);
    EXPECT_LT(relativeDifference(gradient, expected->second.values), 1e-4) << entry.first().str();
    ++compared;
  }
  EXPECT_GE(compared, 8 * 12) << "a layer has 12 parameters";
}

class Gpt2Mesh : public testing::TestWithParam<Mesh> {};

TEST_P(Gpt2Mesh, LossesAndGradientsAreOneDevices) {
  for (const Optimizer &optimizer : {kSgd, kAdamW}) {
    const OneDevice &expected = oneDevice(optimizer);
    Ranks ranks(GetParam(), optimizer, "1f1b");
    ASSERT_TRUE(succeeded(ranks.interpreter));
    const double tolerance = optimizer.name == "sgd" ? 1e-5 : 1e-4;
    for (int64_t step = 0; step < kSteps; ++step) {
      llvm::FailureOr<StepResult> result = ranks.interpreter->runStep(batchOf(step), optimizer.lr);
      ASSERT_TRUE(succeeded(result)) << ranks.module.diagnostics();
      EXPECT_NEAR(result->meanLoss(), expected.losses[step], tolerance * expected.losses[step])
          << optimizer.name << " step " << step;
      for (const auto &entry : expected.gradients) {
        if (step > 0)
          break;
        llvm::FailureOr<Tensor> gradient = ranks.interpreter->gatherState(entry.first().str() + ".grad");
        ASSERT_TRUE(succeeded(gradient)) << ranks.module.diagnostics();
        EXPECT_LT(relativeDifference(gradient->toDoubles(), entry.second.toDoubles()), 1e-4) << entry.first().str();
      }
    }
  }
}

/// Backwards of a layer run in the order of micro-batches in all schedules, so that not a bit may differ, wherever the
/// layer is.
TEST_P(Gpt2Mesh, SchedulesAgreeToTheBit) {
  Mesh oneChunk = GetParam();
  oneChunk.virtualStages = 1;
  Ranks gpipe(oneChunk, kAdamW, "gpipe"), alternating(GetParam(), kAdamW, "1f1b");
  ASSERT_TRUE(succeeded(gpipe.interpreter) && succeeded(alternating.interpreter));
  for (int64_t step = 0; step < 2; ++step) {
    llvm::FailureOr<StepResult> a = gpipe.interpreter->runStep(batchOf(step), kAdamW.lr);
    llvm::FailureOr<StepResult> b = alternating.interpreter->runStep(batchOf(step), kAdamW.lr);
    ASSERT_TRUE(succeeded(a) && succeeded(b)) << gpipe.module.diagnostics() << alternating.module.diagnostics();
    EXPECT_EQ(a->lossSum, b->lossSum);
    EXPECT_EQ(a->gradNorm, b->gradNorm);
  }
  for (hyc::ParamOp param : gpipe.module.get().getOps<hyc::ParamOp>()) {
    llvm::FailureOr<Tensor> a = gpipe.interpreter->gatherState(param.getSymName());
    llvm::FailureOr<Tensor> b = alternating.interpreter->gatherState(param.getSymName());
    ASSERT_TRUE(succeeded(a) && succeeded(b)) << gpipe.module.diagnostics() << alternating.module.diagnostics();
    EXPECT_TRUE(a->isIdenticalTo(*b)) << param.getSymName().str();
  }
}

/// Losses, norms and weights after some steps under one ZeRO stage.
struct ZeroRun {
  std::vector<StepResult> steps;
  NamedTensors weights;
};

void runZero(const Mesh &mesh, const Zero &zero, ZeroRun &run) {
  Ranks ranks(mesh, kAdamW, "1f1b", zero);
  ASSERT_TRUE(succeeded(ranks.interpreter));
  for (int64_t step = 0; step < 3; ++step) {
    llvm::FailureOr<StepResult> result = ranks.interpreter->runStep(batchOf(step), kAdamW.lr);
    ASSERT_TRUE(succeeded(result)) << ranks.module.diagnostics();
    run.steps.push_back(*result);
  }
  for (hyc::ParamOp param : ranks.module.get().getOps<hyc::ParamOp>()) {
    llvm::FailureOr<Tensor> weight = ranks.interpreter->gatherState(param.getSymName());
    ASSERT_TRUE(succeeded(weight)) << ranks.module.diagnostics();
    run.weights[param.getSymName()] = *weight;
  }
}

class Gpt2Zero : public testing::TestWithParam<Mesh> {};

/// What is stored where changes no value, as long as gradients are summed at the same time.
TEST_P(Gpt2Zero, StagesAgreeToTheBit) {
  for (const char *reduction : {"step", "micro_batch"}) {
    ZeroRun whole;
    runZero(GetParam(), {0, reduction, 0.5}, whole);
    for (int64_t stage : {1, 2, 3}) {
      ZeroRun run;
      runZero(GetParam(), {stage, reduction, 0.5, stage == 3 ? 2 : 0}, run);
      ASSERT_FALSE(testing::Test::HasFailure()) << "stage " << stage << ", " << reduction;
      for (size_t step = 0; step < run.steps.size(); ++step) {
        EXPECT_EQ(run.steps[step].lossSum, whole.steps[step].lossSum) << "stage " << stage << ", " << reduction;
        EXPECT_EQ(run.steps[step].gradNorm, whole.steps[step].gradNorm) << "stage " << stage << ", " << reduction;
        EXPECT_GT(run.steps[step].gradNorm, 0.5) << "clipping is meant to be active";
      }
      for (const auto &weight : whole.weights)
        EXPECT_TRUE(weight.second.isIdenticalTo(run.weights.lookup(weight.first())))
            << weight.first().str() << ", stage " << stage << ", " << reduction;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Gpt2Zero, testing::Values(Mesh{1, 1, 4}, Mesh{2, 2, 2}, Mesh{1, 4, 2}, Mesh{2, 1, 4}),
                         [](const testing::TestParamInfo<Mesh> &info) { return describe(info.param); });

INSTANTIATE_TEST_SUITE_P(EightRanks, Gpt2Mesh,
                         testing::Values(Mesh{8, 1, 1}, Mesh{1, 8, 1}, Mesh{1, 1, 8}, Mesh{4, 2, 1}, Mesh{4, 1, 2},
                                         Mesh{2, 4, 1}, Mesh{1, 4, 2}, Mesh{2, 1, 4}, Mesh{1, 2, 4}, Mesh{2, 2, 2}),
                         [](const testing::TestParamInfo<Mesh> &info) { return describe(info.param); });

INSTANTIATE_TEST_SUITE_P(Interleaved, Gpt2Mesh, testing::Values(Mesh{1, 4, 1, 2}, Mesh{2, 2, 2, 2}),
                         [](const testing::TestParamInfo<Mesh> &info) { return describe(info.param); });
