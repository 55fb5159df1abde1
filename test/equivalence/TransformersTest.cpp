// Small models of transformers, from each format that they are there in: PyTorch's logits, gradients and losses on one
// device, and the same over a mesh of eight ranks, under ZeRO-3 as well.
#include "SafeTensors.h"
#include "TrainedModule.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Interpreter/MeshInterpreter.h"
#include "llvm/Support/Regex.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace hyc::equivalence;
using namespace hyc::interpreter;

namespace {
constexpr int64_t kSteps = 10;
constexpr double kRate = 1e-3;

struct Model {
  const char *file; ///< "llama.pt2"
  const char *name; ///< "llama": whose reference it is held to
  const char *loss;
  friend void PrintTo(const Model &model, std::ostream *out) { *out << model.file; }
};

const Model kLlamaFolder{"llama/config.json", "llama", "causal_lm"}, kLlama{"llama.pt2", "llama", "causal_lm"},
    kQwenFolder{"qwen2/config.json", "qwen2", "causal_lm"}, kQwen{"qwen2.pt2", "qwen2", "causal_lm"},
    kBert{"bert.pt2", "bert", "cross_entropy"}, kVit{"vit.pt2", "vit", "cross_entropy"},
    kLlamaOnnx{"llama.onnx", "llama", "causal_lm"}, kLlamaLegacy{"llama-legacy.onnx", "llama", "causal_lm"},
    kQwenOnnx{"qwen2.onnx", "qwen2", "causal_lm"}, kQwenLegacy{"qwen2-legacy.onnx", "qwen2", "causal_lm"},
    kBertOnnx{"bert.onnx", "bert", "cross_entropy"};

using Reference = std::map<std::string, hyc_e2e::HostTensor>;

/// What PyTorch computed, read once a model.
const Reference &referenceOf(const Model &model) {
  static std::map<std::string, Reference> known;
  auto [entry, isNew] = known.try_emplace(model.name);
  if (isNew)
    entry->second = hyc_e2e::readSafeTensors(std::string(HYC_MODELS_DIR "/") + model.name + ".reference.safetensors");
  return entry->second;
}

std::string pathOf(const Model &model) { return std::string(HYC_MODELS_DIR "/") + model.file; }

/// Of what is [steps, samples, …]: `samples` of one step, of the last dimension elements [begin, end).
Tensor part(const hyc_e2e::HostTensor &all, ElementKind kind, int64_t step, int64_t samples, int64_t begin,
            int64_t end) {
  std::vector<int64_t> shape(all.shape.begin() + 1, all.shape.end());
  int64_t whole = shape.size() > 1 ? shape.back() : 1, rows = samples;
  for (size_t dim = 1; dim + 1 < shape.size(); ++dim)
    rows *= shape[dim];
  int64_t first = step * shape[0] * (rows / samples) * whole;
  shape[0] = samples;
  if (shape.size() > 1)
    shape.back() = end - begin;
  Tensor result(kind, shape);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = begin; i < end; ++i)
      result.set(row * (end - begin) + i - begin, all.values[first + row * whole + i]);
  return result;
}

/// The inputs of one step, or of its first `samples`.
NamedTensors batchOf(const Model &model, int64_t step, int64_t samples) {
  const Reference &reference = referenceOf(model);
  NamedTensors batch;
  if (auto pixels = reference.find("pixel_values"); pixels != reference.end()) {
    batch["pixel_values"] = part(pixels->second, ElementKind::F32, step, samples, 0, pixels->second.shape.back());
    batch["labels"] = part(reference.at("labels"), ElementKind::I64, step, samples, 0, 1);
    return batch;
  }
  const hyc_e2e::HostTensor &tokens = reference.at("tokens");
  int64_t window = tokens.shape.back();
  bool shifts = std::string(model.loss) == "causal_lm";
  batch["input_ids"] = part(tokens, ElementKind::I64, step, samples, 0, window - 1);
  batch["labels"] = part(tokens, ElementKind::I64, step, samples, shifts ? 0 : 1, shifts ? window - 1 : window);
  return batch;
}

int64_t batchSize(const Model &model) {
  const Reference &reference = referenceOf(model);
  auto tokens = reference.find("tokens");
  return (tokens == reference.end() ? reference.at("labels") : tokens->second).shape[1];
}

hyc::PipelineOptions optionsOf(const Model &model) {
  hyc::PipelineOptions options;
  options.loss = model.loss;
  options.logits = "logits";
  options.optimizer = "adamw";
  options.weightDecay = 0.01;
  return options;
}

/// max |a - b| over max |b|.
double relativeDifference(llvm::ArrayRef<double> actual, llvm::ArrayRef<double> expected) {
  if (actual.size() != expected.size())
    return INFINITY;
  double difference = 0, magnitude = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference = std::fmax(difference, std::fabs(actual[i] - expected[i]));
    magnitude = std::fmax(magnitude, std::fabs(expected[i]));
  }
  return difference / magnitude;
}

/// That of `actual`, or of its transpose where that is nearer: ONNX's exporters store the weights of products
/// transposed.
double gradientDifference(const std::vector<double> &actual, const hyc_e2e::HostTensor &expected,
                          bool mayBeTransposed) {
  double asIs = relativeDifference(actual, expected.values);
  if (!mayBeTransposed || expected.shape.size() != 2 || actual.size() != expected.values.size())
    return asIs;
  int64_t rows = expected.shape[0], columns = expected.shape[1];
  std::vector<double> turned(actual.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      turned[i * columns + j] = actual[j * rows + i];
  return std::min(asIs, relativeDifference(turned, expected.values));
}

/// Whether a gradient is nothing but the rounding of zeros, beside the model's largest. A bias of keys that are not
/// turned adds one number to each row of scores, which softmax does not see.
bool isZero(llvm::ArrayRef<double> gradient, double largest) {
  return llvm::all_of(gradient, [&](double value) { return std::fabs(value) < 1e-6 * largest; });
}

/// One device: its losses, and the gradients of the first step, sums over what is counted, by parameter.
struct OneDevice {
  explicit OneDevice(const Model &model);

  TrainedModule module;
  std::vector<double> losses;
  NamedTensors gradients;
  double counted = 0, largest = 0; ///< largest: element of all gradients
};

OneDevice::OneDevice(const Model &model) : module(pathOf(model), batchSize(model)) {
  hyc::PipelineOptions options = optionsOf(model);
  bool compiled = module && module.enter(hyc::Phase::Model, options) && module.enter(hyc::Phase::Train, options);
  llvm::FailureOr<Interpreter> interpreter = llvm::failure();
  if (compiled)
    interpreter = Interpreter::create(module.get());
  for (int64_t step = 0; succeeded(interpreter) && step < kSteps; ++step) {
    llvm::FailureOr<StepResult> result = runTrainStep(*interpreter, {batchOf(model, step, batchSize(model))}, kRate);
    if (failed(result))
      break;
    losses.push_back(result->meanLoss());
    counted = static_cast<double>(result->tokenCount);
    for (hyc::ParamOp param : module.get().getOps<hyc::ParamOp>())
      if (const Tensor *gradient = interpreter->getState(param.getSymName().str() + ".grad"); gradient && step == 0)
        gradients[param.getSymName()] = *gradient;
  }
  for (const auto &entry : gradients)
    for (double value : entry.second.toDoubles())
      largest = std::max(largest, std::fabs(value));
  EXPECT_EQ(losses.size(), static_cast<size_t>(kSteps)) << module.diagnostics();
}

/// The same run for every test that compares with it.
const OneDevice &oneDevice(const Model &model) {
  static std::map<std::string, OneDevice> known;
  auto found = known.find(model.file);
  return found != known.end() ? found->second : known.try_emplace(model.file, model).first->second;
}

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

TEST_P(Transformers, OneDeviceTrainsAsPyTorchDoes) {
  const Model &model = GetParam();
  const std::vector<double> &expected = referenceOf(model).at("losses.adamw").values;
  const OneDevice &run = oneDevice(model);
  ASSERT_EQ(run.losses.size(), static_cast<size_t>(kSteps));
  for (int64_t step = 0; step < kSteps; ++step)
    EXPECT_NEAR(run.losses[step], expected[step], 1e-4 * expected[step]) << "step " << step;
  double largest = 0;
  for (const auto &[name, tensor] : referenceOf(model))
    for (double value : name.find('.') == std::string::npos ? std::vector<double>() : tensor.values)
      largest = std::max(largest, std::fabs(value));
  size_t compared = 0;
  for (const auto &entry : run.gradients) {
    auto gradient = referenceOf(model).find(entry.first().str());
    if (gradient == referenceOf(model).end())
      continue; // ONNX's exporters rename what they fold or tie
    std::vector<double> mean = entry.second.toDoubles();
    for (double &value : mean)
      value /= run.counted;
    bool isOnnx = llvm::StringRef(model.file).ends_with(".onnx");
    if (isZero(gradient->second.values, largest))
      EXPECT_TRUE(isZero(mean, largest)) << entry.first().str();
    else
      EXPECT_LT(gradientDifference(mean, gradient->second, isOnnx), 1e-4) << entry.first().str();
    ++compared;
  }
  EXPECT_GE(compared + 2, run.gradients.size()); // a tied weight and a tied bias may have their other names
  EXPECT_GE(compared, 20u);
}

/// All ranks of tp 2 × pp 2 × dp 2.
void expectMeshToTrainAlike(const Model &model, int64_t zero, bool sequenceParallel = false) {
  const OneDevice &expected = oneDevice(model);
  hyc::PipelineOptions options = optionsOf(model);
  options.tp = options.pp = options.dp = 2;
  options.microBatches = 2;
  options.zero = zero;
  options.gradientReduction = zero >= 2 ? "micro_batch" : "step";
  options.persistenceThreshold = 500; // norms and biases stay whole
  options.sequenceParallel = sequenceParallel;
  TrainedModule module(pathOf(model), batchSize(model) / options.microBatches);
  bool compiled = static_cast<bool>(module);
  for (hyc::Phase phase : {hyc::Phase::Model, hyc::Phase::Train, hyc::Phase::Plan, hyc::Phase::Local})
    compiled = compiled && module.enter(phase, options);
  ASSERT_TRUE(compiled) << module.diagnostics();
  llvm::FailureOr<MeshInterpreter> interpreter = MeshInterpreter::create(module.get());
  ASSERT_TRUE(succeeded(interpreter)) << module.diagnostics();
  for (int64_t step = 0; step < kSteps; ++step) {
    llvm::FailureOr<StepResult> result = interpreter->runStep(batchOf(model, step, batchSize(model)), kRate);
    ASSERT_TRUE(succeeded(result)) << module.diagnostics();
    EXPECT_NEAR(result->meanLoss(), expected.losses[step], 1e-4 * expected.losses[step]) << "step " << step;
    if (step > 0 || zero > 0)
      continue;
    for (const auto &entry : expected.gradients) {
      llvm::FailureOr<Tensor> gradient = interpreter->gatherState(entry.first().str() + ".grad");
      ASSERT_TRUE(succeeded(gradient)) << module.diagnostics();
      std::vector<double> sums = gradient->toDoubles(), one = entry.second.toDoubles();
      if (isZero(one, expected.largest))
        EXPECT_TRUE(isZero(sums, expected.largest)) << entry.first().str();
      else
        EXPECT_LT(relativeDifference(sums, one), 1e-4) << entry.first().str();
    }
  }
}

class TransformersMesh : public testing::TestWithParam<Model> {};

TEST_P(TransformersMesh, TrainsAsOneDevice) { expectMeshToTrainAlike(GetParam(), 0); }
TEST_P(TransformersMesh, TrainsAsOneDeviceUnderZero3) { expectMeshToTrainAlike(GetParam(), 3); }

TEST(Transformers, LlamaTrainsAsOneDeviceWithItsSequenceSplit) { expectMeshToTrainAlike(kLlama, 0, true); }

std::string nameOf(const testing::TestParamInfo<Model> &info) {
  std::string name = info.param.file;
  for (char &c : name)
    c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Formats, Transformers,
                         testing::Values(kLlamaFolder, kLlama, kLlamaOnnx, kLlamaLegacy, kQwenFolder, kQwen, kQwenOnnx,
                                         kQwenLegacy, kBert, kBertOnnx, kVit),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Models, TransformersMesh, testing::Values(kLlama, kQwenFolder, kBert, kVit), nameOf);

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
