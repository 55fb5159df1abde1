// Every family of decoders, encoders, both and towers that hyc builds from a config.json, in test/models/families: the
// logits and the losses of training that PyTorch computes with transformers' class and the same weights, on one rank
// and on eight.
#include "PyTorchModels.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Import/HuggingFace/Import.h"
#include "hyc/Interpreter/MeshInterpreter.h"
#include "test/Places.h"

#include <gtest/gtest.h>

using namespace hyc::equivalence;
using namespace hyc::interpreter;

namespace {
/// Steps that have samples of their own; further ones have them again.
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

/// Of an encoder, or null.
const hyc_e2e::HostTensor *referenceOf(const std::string &family, const char *what) {
  auto found = referenceOf(kAll).find(family + what);
  return found == referenceOf(kAll).end() ? nullptr : &found->second;
}

/// Whether its loss compares the samples of a micro-batch with each other, which is the model's own.
bool comparesSamples(const std::string &family) { return referenceOf(family, ".accumulated") != nullptr; }

hyc::Plan optionsOfFamily(const std::string &family) {
  hyc::Plan options = optionsOf(kAll);
  if (referenceOf(family, ".labels"))
    options.loss = "cross_entropy";
  if (comparesSamples(family))
    options.loss = "loss";
  return options;
}

/// `form`: which of several folders with the same values.
TrainedModule importFamily(const std::string &family, int64_t samples, const std::string &form = "") {
  const std::string path = hyc::places::model("families/") + family + form + "/config.json";
  return {path, samples, hyc::ModelMode::AsExported,
          referenceOf(family, ".pixels") ? std::nullopt : std::optional(kFolderSequence),
          referenceOf(family, ".attention_mask") != nullptr};
}

NamedTensors batchOfFamily(const std::string &family, int64_t step, int64_t samples) {
  step %= kFamilySteps;
  NamedTensors batch = batchOf(kAll, step, samples);
  if (const hyc_e2e::HostTensor *labels = referenceOf(family, ".labels"))
    batch["labels"] =
        part(*labels, ElementKind::I64, step, 0, samples, 0, labels->shape.size() > 2 ? labels->shape.back() : 1);
  for (const char *name : {"input_ids", "decoder_input_ids", "attention_mask"})
    if (const hyc_e2e::HostTensor *values = referenceOf(family, (std::string(".") + name).c_str()))
      batch[name] = part(*values, ElementKind::I64, step, 0, samples, 0, values->shape.back());
  for (const char *name : {"input_features", "pixel_values"})
    if (const hyc_e2e::HostTensor *values = referenceOf(family, (std::string(".") + name).c_str()))
      batch[name] = part(*values, ElementKind::F32, step, 0, samples, 0, values->shape.back());
  if (const hyc_e2e::HostTensor *pixels = referenceOf(family, ".pixels")) {
    batch.erase("input_ids");
    batch["pixel_values"] = part(*pixels, ElementKind::F32, step, 0, samples, 0, pixels->shape.back());
  }
  return batch;
}

std::string nameOfFamily(const testing::TestParamInfo<std::string> &info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

/// The number of the output that the reference calls logits.
size_t logitsOf(mlir::ModuleOp module) {
  auto train = module.lookupSymbol<hyc::FuncOp>("train");
  for (unsigned index = 0; index < train.getNumResults(); ++index)
    if (auto name = train.getResultAttrOfType<mlir::StringAttr>(index, "hyc.output");
        name && name.getValue() == "logits_per_text")
      return index;
  return 0;
}

class Families : public testing::TestWithParam<std::string> {};

TEST_P(Families, LogitsArePyTorchs) {
  const hyc_e2e::HostTensor &expected = referenceOf(kAll).at(GetParam() + ".logits");
  const int64_t samples = expected.shape[0];
  TrainedModule module = importFamily(GetParam(), samples);
  ASSERT_TRUE(module && module.enter(hyc::Phase::Model, optionsOfFamily(GetParam()))) << module.diagnostics();
  EXPECT_EQ(module.diagnostics(), ""); // every key of the family's configuration is known
  llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get());
  ASSERT_TRUE(succeeded(interpreter)) << module.diagnostics();
  NamedTensors batch = batchOfFamily(GetParam(), 0, samples);
  batch.erase("labels"); // an input of the loss alone
  auto results = interpreter->call("train", batch);
  ASSERT_TRUE(succeeded(results)) << module.diagnostics();
  std::vector<double> actual = (*results)[logitsOf(module.get())].toDoubles(), values = expected.values;
  if (const hyc_e2e::HostTensor *mask = referenceOf(GetParam(), ".attention_mask")) // nobody reads those of padding
    for (size_t i = 0; i < actual.size(); ++i)
      if (mask->values[i / static_cast<size_t>(expected.shape.back())] == 0)
        actual[i] = values[i] = 0;
  EXPECT_LT(relativeDifference(actual, values), 1e-5);
}

/// By a row of `losses` a step. `which`: of several of PyTorch's.
void expectPyTorchs(const std::string &family, llvm::ArrayRef<double> losses, const char *which = ".losses") {
  const std::vector<double> &expected = referenceOf(kAll).at(family + which).values;
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t step = 0; step < losses.size(); ++step)
    EXPECT_NEAR(losses[step] / expected[step], 1, 1e-5) << "step " << step;
}

int64_t stepsOf(const std::string &family) { return referenceOf(kAll).at(family + ".losses").shape[0]; }

/// A row a step, of as many steps as succeed.
std::vector<double> lossesOnOneRank(TrainedModule &module, const std::string &family) {
  const hyc::Plan options = optionsOfFamily(family);
  std::vector<double> losses;
  if (!module || !module.enter(hyc::Phase::Model, options) || !module.enter(hyc::Phase::Train, options))
    return losses;
  llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get());
  for (int64_t step = 0; succeeded(interpreter) && step < stepsOf(family); ++step)
    if (auto result = runTrainStep(*interpreter, {batchOfFamily(family, step, batchSize(kAll))}, kRate);
        succeeded(result))
      losses.push_back(result->meanLoss());
  return losses;
}

std::vector<double> lossesOnMesh(TrainedModule &module, const std::string &family, const hyc::Plan &options) {
  bool compiled = static_cast<bool>(module);
  for (hyc::Phase phase : {hyc::Phase::Model, hyc::Phase::Train, hyc::Phase::Plan, hyc::Phase::Local})
    compiled = compiled && module.enter(phase, options);
  std::vector<double> losses;
  if (!compiled)
    return losses;
  llvm::FailureOr<MeshInterpreter> interpreter = MeshInterpreter::create(module.get());
  for (int64_t step = 0; succeeded(interpreter) && step < stepsOf(family); ++step)
    if (auto result = interpreter->runStep(batchOfFamily(family, step, batchSize(kAll)), kRate); succeeded(result))
      losses.push_back(result->meanLoss());
  return losses;
}

TEST_P(Families, TrainAsPyTorchDoes) {
  TrainedModule module = importFamily(GetParam(), batchSize(kAll));
  const std::vector<double> losses = lossesOnOneRank(module, GetParam());
  expectPyTorchs(GetParam(), losses);
  EXPECT_FALSE(losses.empty()) << module.diagnostics();
}

/// All ranks of tp 2 × pp 2 × dp 2, two micro-batches a step, or one where its samples are compared.
TEST_P(Families, TrainOnAMeshAsPyTorchDoes) {
  hyc::Plan options = optionsOfFamily(GetParam());
  options.tp = options.pp = options.dp = 2;
  options.gradAccum = comparesSamples(GetParam()) ? 1 : 2;
  TrainedModule module = importFamily(GetParam(), batchSize(kAll) / options.gradAccum);
  const std::vector<double> losses = lossesOnMesh(module, GetParam(), options);
  expectPyTorchs(GetParam(), losses);
  EXPECT_FALSE(losses.empty()) << module.diagnostics();
}

/// What is compared are the samples of a micro-batch, on however many ranks they are, and not those of two.
class Compared : public testing::TestWithParam<const char *> {};

TEST_P(Compared, AccumulatesAsPyTorchDoes) {
  for (int64_t ranks : {1, 2}) {
    hyc::Plan options = optionsOfFamily(GetParam());
    options.gradAccum = 2;
    options.dp = ranks;
    options.zero = ranks == 2 ? 3 : 0;
    options.persistenceThreshold = 0;
    TrainedModule module = importFamily(GetParam(), batchSize(kAll) / 2);
    const std::vector<double> losses = lossesOnMesh(module, GetParam(), options);
    expectPyTorchs(GetParam(), losses, ".accumulated");
    EXPECT_FALSE(losses.empty()) << module.diagnostics();
  }
}

/// Sinusoids that the folder's files have, too: transformers' own, which nobody trains.
TEST(Folders, OfWhisperHaveTheSamePositionsByRule) {
  mlir::MLIRContext context;
  std::vector<double> read[2];
  for (auto [values, weights] :
       llvm::zip_equal(read, std::array{hyc::FolderWeights::Read, hyc::FolderWeights::Initialise})) {
    hyc::HuggingFaceOptions options;
    options.weights = weights;
    auto module = hyc::importHuggingFace(context, hyc::places::model("families/whisper/config.json"), options);
    ASSERT_TRUE(succeeded(module));
    llvm::FailureOr<Interpreter> interpreter = Interpreter::create(**module);
    ASSERT_TRUE(succeeded(interpreter));
    values = interpreter->getState("model.encoder.embed_positions.weight")->toDoubles();
  }
  ASSERT_EQ(read[0].size(), 10U * 16);
  for (size_t i = 0; i < read[0].size(); ++i)
    EXPECT_NEAR(read[0][i], read[1][i], 1e-6) << i;
}

/// Folders of mixtures of experts, as the model has its weights and as files mostly have them: a tensor for each
/// expert, in several files. Both are the same numbers, so whatever reads them gives the same bits.
class Experts : public testing::TestWithParam<const char *> {
protected:
  TrainedModule apart(int64_t samples) { return importFamily(GetParam(), samples, "-apart"); }
};

TEST_P(Experts, ThatAreStoredApartTrainToTheSameBits) {
  TrainedModule together = importFamily(GetParam(), batchSize(kAll)), each = apart(batchSize(kAll));
  const std::vector<double> losses = lossesOnOneRank(each, GetParam());
  EXPECT_EQ(each.diagnostics(), "");
  EXPECT_EQ(losses, lossesOnOneRank(together, GetParam()));
  expectPyTorchs(GetParam(), losses);
}

TEST_P(Experts, ThatAreStoredApartTrainToTheSameBitsInShards) {
  hyc::Plan options = optionsOfFamily(GetParam());
  options.tp = options.dp = 2;
  options.zero = 3;
  options.persistenceThreshold = 0;
  TrainedModule together = importFamily(GetParam(), batchSize(kAll)), each = apart(batchSize(kAll));
  const std::vector<double> losses = lossesOnMesh(each, GetParam(), options);
  EXPECT_EQ(each.diagnostics(), "");
  EXPECT_EQ(losses, lossesOnMesh(together, GetParam(), options));
  expectPyTorchs(GetParam(), losses);
}

INSTANTIATE_TEST_SUITE_P(Folders, Experts, testing::Values("mixtral", "qwen3_moe", "deepseek_v3"),
                         [](const testing::TestParamInfo<const char *> &info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(Folders, Compared, testing::Values("clip", "clip-greatest"), [](const auto &info) {
  return llvm::StringRef(info.param) == "clip" ? "clip" : "clip_greatest";
});
INSTANTIATE_TEST_SUITE_P(Folders, Families, testing::ValuesIn(familyNames()), nameOfFamily);
} // namespace
