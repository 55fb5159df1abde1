// Small models of transformers, from each format that they are there in: PyTorch's logits, gradients and losses on one
// device, and the same over a mesh of eight ranks, under ZeRO-3 as well.
#include "PyTorchModels.h"
#include "dialects/Hyc/HycDialect.h"
#include "llvm/Support/Regex.h"

#include <gtest/gtest.h>

using namespace hyc::equivalence;
using namespace hyc::interpreter;

namespace {
const Model kLlamaFolder{"llama/config.json", "llama", "causal_lm"}, kLlama{"llama.pt2", "llama", "causal_lm"},
    kQwenFolder{"qwen2/config.json", "qwen2", "causal_lm"}, kQwen{"qwen2.pt2", "qwen2", "causal_lm"},
    kBert{"bert.pt2", "bert", "cross_entropy"}, kVit{"vit.pt2", "vit", "cross_entropy"},
    kLlamaOnnx{"llama.onnx", "llama", "causal_lm"}, kLlamaLegacy{"llama-legacy.onnx", "llama", "causal_lm"},
    kQwenOnnx{"qwen2.onnx", "qwen2", "causal_lm"}, kQwenLegacy{"qwen2-legacy.onnx", "qwen2", "causal_lm"},
    kBertOnnx{"bert.onnx", "bert", "cross_entropy"}, kBertLegacy{"bert-legacy.onnx", "bert", "cross_entropy"},
    kVitOnnx{"vit.onnx", "vit", "cross_entropy"}, kVitLegacy{"vit-legacy.onnx", "vit", "cross_entropy"};

class Transformers : public testing::TestWithParam<Model> {};

TEST_P(Transformers, LogitsArePyTorchs) {
  const Model &model = GetParam();
  const hyc_e2e::HostTensor &expected = referenceOf(model).at("logits");
  int64_t samples = expected.shape[0];
  TrainedModule module(pathOf(model), samples);
  for (bool raised : {false, true}) {
    ASSERT_TRUE(module && (!raised || module.enter(hyc::Phase::Model, optionsOf(model)))) << module.diagnostics();
    llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get());
    ASSERT_TRUE(succeeded(interpreter)) << module.diagnostics();
    NamedTensors batch = batchOf(model, 0, samples);
    batch.erase("labels"); // an input of the loss alone
    auto results = interpreter->call("train", batch);
    ASSERT_TRUE(succeeded(results)) << module.diagnostics();
    EXPECT_LT(relativeDifference((*results)[0].toDoubles(), expected.values), 1e-5) << (raised ? "raised" : "imported");
  }
}

TEST_P(Transformers, OneDeviceTrainsAsPyTorchDoes) { expectPyTorchsTraining(GetParam()); }

/// All ranks of tp 2 × pp 2 × dp 2.
void expectMeshToTrainAlike(const Model &model, int64_t zero, bool sequenceParallel = false) {
  hyc::Plan options = optionsOf(model);
  options.tp = options.pp = options.dp = 2;
  options.gradAccum = 2;
  options.zero = zero;
  options.gradientReduction = zero >= 2 ? "micro_batch" : "step";
  options.persistenceThreshold = 500; // norms and biases stay whole
  options.sequenceParallel = sequenceParallel;
  hyc::equivalence::expectMeshToTrainAlike(model, options, oneDevice(model));
}

class TransformersMesh : public testing::TestWithParam<Model> {};

TEST_P(TransformersMesh, TrainsAsOneDevice) { expectMeshToTrainAlike(GetParam(), 0); }
TEST_P(TransformersMesh, TrainsAsOneDeviceUnderZero3) { expectMeshToTrainAlike(GetParam(), 3); }

/// As a program of phase 5.
TEST_P(TransformersMesh, LoweredTrainsAsOneDevice) {
  hyc::Plan options = optionsOf(GetParam());
  options.tp = options.dp = options.gradAccum = 2;
  hyc::equivalence::expectMeshToTrainAlike(GetParam(), options, oneDevice(GetParam()), hyc::Phase::Rank);
}

TEST(Transformers, LlamaTrainsAsOneDeviceWithItsSequenceSplit) { expectMeshToTrainAlike(kLlama, 0, true); }

/// More ranks of tensor parallelism than key heads: each of these on two ranks, its gradient summed over them.
class RepeatedKeyHeads : public testing::TestWithParam<Model> {};

hyc::Plan fourWays(const Model &model) {
  hyc::Plan options = optionsOf(model);
  options.tp = 4;
  options.gradAccum = 2;
  options.persistenceThreshold = 500;
  return options;
}

TEST_P(RepeatedKeyHeads, TrainAsOneDevice) {
  expectMeshToTrainAlike(GetParam(), fourWays(GetParam()), oneDevice(GetParam()));
}
TEST_P(RepeatedKeyHeads, TrainAsOneDeviceUnderZero3WithTheSequenceSplit) {
  hyc::Plan options = fourWays(GetParam());
  options.dp = 2;
  options.zero = 3;
  options.gradientReduction = "micro_batch";
  options.sequenceParallel = true;
  hyc::equivalence::expectMeshToTrainAlike(GetParam(), options, oneDevice(GetParam()));
}
TEST_P(RepeatedKeyHeads, TrainAsOneDeviceLowered) {
  hyc::Plan options = fourWays(GetParam());
  options.pp = 2;
  options.zero = 1;
  hyc::equivalence::expectMeshToTrainAlike(GetParam(), options, oneDevice(GetParam()), hyc::Phase::Rank);
}

std::string nameOfTest(const testing::TestParamInfo<Model> &info) { return nameOf(info.param); }

INSTANTIATE_TEST_SUITE_P(Formats, Transformers,
                         testing::Values(kLlamaFolder, kLlama, kLlamaOnnx, kLlamaLegacy, kQwenFolder, kQwen, kQwenOnnx,
                                         kQwenLegacy, kBert, kBertOnnx, kBertLegacy, kVit, kVitOnnx, kVitLegacy),
                         nameOfTest);
INSTANTIATE_TEST_SUITE_P(Models, RepeatedKeyHeads, testing::Values(kLlama, kQwenFolder), nameOfTest);
INSTANTIATE_TEST_SUITE_P(Models, TransformersMesh, testing::Values(kLlama, kQwenFolder, kBert, kVit), nameOfTest);

//===----------------------------------------------------------------------===//
// One model, one text
//===----------------------------------------------------------------------===//

/// The text of phase 1 without where values lie; of a tied weight's names the embedding's.
std::string textOf(const Model &model) {
  TrainedModule module(pathOf(model), 2);
  EXPECT_TRUE(module && module.enter(hyc::Phase::Model, optionsOf(model))) << module.diagnostics();
  if (!module)
    return "";
  module.get()->removeAttr("hyc.model_folder");
  std::string text = module.print(), result;
  llvm::Regex place("#hyc\\.file<\"[^\"]*\", offset = [0-9]+>"), tied("@lm_head\\.weight");
  bool isTied = !module.get().lookupSymbol<hyc::ParamOp>("lm_head.weight") ||
                !module.get().lookupSymbol<hyc::ParamOp>("model.embed_tokens.weight");
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(text).split(lines, '\n');
  for (llvm::StringRef line : lines) {
    std::string placed = place.sub("#hyc.file", line);
    result += (isTied ? tied.sub("@model.embed_tokens.weight", placed) : placed) + "\n";
  }
  return result;
}

TEST(TransformersText, IsOneThroughTorchExportAndTheFolder) {
  for (auto [folder, archive] : {std::pair(kLlamaFolder, kLlama), std::pair(kQwenFolder, kQwen)}) {
    std::string expected = textOf(folder);
    for (const char *op : {"hyc.rms_norm", "hyc.rope", "hyc.rotary_table", "hyc.attention causal"})
      EXPECT_NE(expected.find(op), std::string::npos) << op;
    EXPECT_EQ(textOf(archive), expected) << archive.file;
  }
}
} // namespace
