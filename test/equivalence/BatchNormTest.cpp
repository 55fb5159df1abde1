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
  const Model &model = GetParam();
  const bool isOnnx = llvm::StringRef(model.file).ends_with(".onnx");
  const OneDevice &run = oneDevice(model);
  size_t compared = 0;
  for (const auto &[name, expected] : referenceOf(model)) {
    llvm::StringRef buffer = name;
    if (!buffer.consume_front("buffers.") || (isOnnx && buffer.ends_with("num_batches_tracked")))
      continue;
    auto found = run.buffers.find(buffer);
    ASSERT_TRUE(found != run.buffers.end()) << name;
    bool isVariance = buffer.ends_with("running_var");
    const std::vector<double> &wanted =
        isVariance && isOnnx ? referenceOf(model).at("population." + buffer.str()).values : expected.values;
    EXPECT_LT(relativeDifference(found->second.toDoubles(), wanted), 1e-5) << name;
    ++compared;
  }
  EXPECT_EQ(compared, run.buffers.size());
  EXPECT_EQ(compared, isOnnx ? 18u : 27u);
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
  hyc::PipelineOptions options = optionsOf(kResnet);
  options.tp = mesh.tp;
  options.pp = mesh.pp;
  options.dp = mesh.dp;
  options.virtualStages = mesh.virtualStages;
  options.zero = mesh.zero;
  options.gradientReduction = mesh.zero >= 2 ? "micro_batch" : "step";
  options.persistenceThreshold = 0;
  options.recompute = mesh.recompute;
  options.schedule = mesh.schedule;
  options.microBatches = 2;
  expectMeshToTrainAlike(kResnet, options, oneDevice(kResnet, 2));
}

INSTANTIATE_TEST_SUITE_P(Meshes, BatchNormMesh,
                         testing::Values(Mesh{"dp2", 1, 1, 2}, Mesh{"dp2_zero1", 1, 1, 2, 1},
                                         Mesh{"dp2_zero3", 1, 1, 2, 3}, Mesh{"tp2", 2, 1, 1}, Mesh{"pp2", 1, 2, 1},
                                         Mesh{"pp2_gpipe", 1, 2, 1, 0, 1, "none", "gpipe"},
                                         Mesh{"pp2_virtual2", 1, 2, 1, 0, 2}, Mesh{"tp2_pp2_dp2", 2, 2, 2},
                                         Mesh{"dp2_recomputed", 1, 1, 2, 0, 1, "layer"},
                                         Mesh{"tp2_pp2_dp2_zero3_recomputed", 2, 2, 2, 3, 1, "layer"}),
                         [](const auto &info) { return std::string(info.param.name); });

/// Micro-batches of two statistics are not one of both: what the tests above compare would differ otherwise.
TEST(BatchNorm, StatisticsAreThoseOfAMicroBatch) {
  EXPECT_NE(oneDevice(kResnet, 2).losses.front(), oneDevice(kResnet).losses.front());
}

} // namespace
