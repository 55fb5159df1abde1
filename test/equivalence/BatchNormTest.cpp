// A ResNet, whose batch norm keeps running averages: PyTorch's logits, gradients, losses and averages from each format,
// and the same over meshes, where a batch is that of all ranks of dp.
#include "PyTorchModels.h"
#include "dialects/Hyc/HycDialect.h"

#include <gtest/gtest.h>

using namespace hyc::equivalence;
using namespace hyc::interpreter;

namespace {

// PyTorch's dynamo exporter writes the model of evaluation, whatever it is given.
const Model kResnet{"resnet.pt2", "resnet", "cross_entropy"}, kLegacy{"resnet-legacy.onnx", "resnet", "cross_entropy"},
    kDynamo{"resnet.onnx", "resnet", "cross_entropy", hyc::ModelMode::Train};

std::string nameOfTest(const testing::TestParamInfo<Model> &info) { return nameOf(info.param); }

class BatchNorm : public testing::TestWithParam<Model> {};

void expectLogits(const Model &model, hyc::ModelMode mode, const char *reference) {
  const hyc_e2e::HostTensor &expected = referenceOf(model).at(reference);
  int64_t samples = expected.shape[0];
  TrainedModule module(pathOf(model), samples, mode);
  for (bool raised : {false, true}) {
    ASSERT_TRUE(module && (!raised || module.enter(hyc::Phase::Model, optionsOf(model)))) << module.diagnostics();
    llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get());
    ASSERT_TRUE(succeeded(interpreter)) << module.diagnostics();
    NamedTensors batch = batchOf(model, 0, samples);
    batch.erase("labels");
    auto results = interpreter->call("train", batch);
    ASSERT_TRUE(succeeded(results)) << module.diagnostics();
    EXPECT_LT(relativeDifference((*results)[0].toDoubles(), expected.values), 1e-5) << (raised ? "raised" : "imported");
  }
}

TEST_P(BatchNorm, LogitsArePyTorchsInTraining) { expectLogits(GetParam(), GetParam().mode, "logits.train"); }
TEST_P(BatchNorm, LogitsArePyTorchsInEvaluation) { expectLogits(GetParam(), hyc::ModelMode::Evaluate, "logits"); }
TEST_P(BatchNorm, OneDeviceTrainsAsPyTorchDoes) { expectPyTorchsTraining(GetParam()); }

/// torch.export's averages are PyTorch's. ONNX's operator averages the variance without PyTorch's correction for bias,
/// and its exporters leave out how many batches there were.
TEST_P(BatchNorm, AveragesArePyTorchsAfterTenSteps) {
  EXPECT_EQ(expectPyTorchsBuffers(GetParam()), GetParam().isOnnx() ? 18u : 27u);
}

INSTANTIATE_TEST_SUITE_P(Formats, BatchNorm, testing::Values(kResnet, kLegacy, kDynamo), nameOfTest);

struct Mesh {
  const char *name;
  int64_t tp, pp, dp, zero = 0, virtualStages = 1;
  const char *recompute = "none", *schedule = "1f1b";
  friend void PrintTo(const Mesh &mesh, std::ostream *out) { *out << mesh.name; }
};

class BatchNormMesh : public testing::TestWithParam<Mesh> {};

/// Two micro-batches of four samples, whose statistics are those of all four wherever they lie.
TEST_P(BatchNormMesh, TrainsAsOneDeviceWithItsMicroBatches) {
  const Mesh &mesh = GetParam();
  hyc::Plan options = optionsOf(kResnet);
  options.tp = mesh.tp;
  options.pp = mesh.pp;
  options.dp = mesh.dp;
  options.virtualStages = mesh.virtualStages;
  options.zero = mesh.zero;
  options.gradientReduction = mesh.zero >= 2 ? "micro_batch" : "step";
  options.persistenceThreshold = 0;
  options.recompute = mesh.recompute;
  options.schedule = mesh.schedule;
  options.gradAccum = 2;
  expectMeshToTrainAlike(kResnet, options, oneDevice(kResnet, 2), hyc::Phase::Rank);
}

INSTANTIATE_TEST_SUITE_P(Meshes, BatchNormMesh,
                         testing::Values(Mesh{"dp2", 1, 1, 2}, Mesh{"dp2_zero1", 1, 1, 2, 1},
                                         Mesh{"dp2_zero3", 1, 1, 2, 3}, Mesh{"tp2", 2, 1, 1}, Mesh{"pp2", 1, 2, 1},
                                         Mesh{"pp2_gpipe", 1, 2, 1, 0, 1, "none", "gpipe"},
                                         Mesh{"pp2_virtual2", 1, 2, 1, 0, 2}, Mesh{"tp2_pp2_dp2", 2, 2, 2},
                                         Mesh{"dp2_recomputed", 1, 1, 2, 0, 1, "layer"},
                                         Mesh{"tp2_pp2_dp2_zero3_recomputed", 2, 2, 2, 3, 1, "layer"}),
                         [](const auto &info) { return std::string(info.param.name); });

/// Averages stay f32 beside values of 16 bits.
TEST(BatchNorm, AveragesAreF32InMixedPrecision) {
  hyc::Plan options = optionsOf(kResnet);
  options.precision = "bf16";
  TrainedModule module(pathOf(kResnet), batchSize(kResnet));
  ASSERT_TRUE(module && module.enter(hyc::Phase::Model, options) && module.enter(hyc::Phase::Train, options))
      << module.diagnostics();
  llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get());
  ASSERT_TRUE(succeeded(interpreter)) << module.diagnostics();
  for (int64_t step = 0; step < kSteps; ++step)
    ASSERT_TRUE(succeeded(runTrainStep(*interpreter, {batchOf(kResnet, step, batchSize(kResnet))}, kRate)))
        << module.diagnostics();
  for (const auto &entry : oneDevice(kResnet).buffers) {
    const Tensor *average = interpreter->getState(entry.first());
    ASSERT_TRUE(average) << entry.first().str();
    EXPECT_EQ(average->getKind(), entry.second.getKind()) << entry.first().str();
    EXPECT_LT(relativeDifference(average->toDoubles(), entry.second.toDoubles()), 0.05) << entry.first().str();
  }
}

//===----------------------------------------------------------------------===//
// Buffers of any kind
//===----------------------------------------------------------------------===//

const Model kBuffers{"buffers.pt2", "buffers", "cross_entropy"},
    kFunctional{"buffers-functional.pt2", "buffers", "cross_entropy"};

class WrittenBuffers : public testing::TestWithParam<Model> {};

TEST_P(WrittenBuffers, TrainAsPyTorchDoes) {
  expectPyTorchsTraining(GetParam());
  EXPECT_EQ(expectPyTorchsBuffers(GetParam()), 4u);
}

/// Backward wants what a buffer held before, which later micro-batches of a pipeline have long replaced.
TEST_P(WrittenBuffers, TrainAlikeOverMeshes) {
  for (int64_t pp : {1, 2})
    for (const char *recompute : {"none", "layer"}) {
      SCOPED_TRACE("pp " + std::to_string(pp) + ", recompute " + recompute);
      hyc::Plan options = optionsOf(GetParam());
      options.dp = 2;
      options.pp = pp;
      options.gradAccum = 4;
      options.recompute = recompute;
      options.rules.cuts = pp == 2 ? std::vector<std::string>{"second.einsum"} : std::vector<std::string>();
      expectMeshToTrainAlike(GetParam(), options, oneDevice(GetParam(), 4), hyc::Phase::Rank);
    }
}

INSTANTIATE_TEST_SUITE_P(Exports, WrittenBuffers, testing::Values(kBuffers, kFunctional), nameOfTest);

/// Micro-batches of two statistics are not one of both: what the tests above compare would differ otherwise.
TEST(BatchNorm, StatisticsAreThoseOfAMicroBatch) {
  EXPECT_NE(oneDevice(kResnet, 2).losses.front(), oneDevice(kResnet).losses.front());
}

} // namespace
