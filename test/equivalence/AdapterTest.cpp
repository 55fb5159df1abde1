// Adapters over frozen weights: meshes train them as one device does, what is frozen stays as it is, and ZeRO divides
// it without a change of a bit.
#include "PyTorchModels.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/Adapters.h"
#include "hyc/Interpreter/MeshInterpreter.h"
#include "hyc/Interpreter/RankInterpreter.h"

#include <gtest/gtest.h>

using namespace hyc::equivalence;
using namespace hyc::interpreter;

namespace {
const Model kLlama{"llama/config.json", "llama", "causal_lm"},
    kGpt2{"gpt2-formats/config.json", "gpt2-formats", "causal_lm"};

hyc::Plan adapted(const Model &model, std::vector<std::string> targets) {
  hyc::Plan options = optionsOf(model);
  options.adapters = hyc::AdapterSettings{4, 8, "lora", std::move(targets)};
  options.train = std::vector<std::string>{"norm.weight$|ln_f"};
  return options;
}

const std::vector<std::string> kOfLlama{"q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"},
    kOfGpt2{"c_attn", "c_proj"};

struct Layout {
  const char *name;
  int64_t tp, pp, dp, zero;
  const char *recompute = "none";
  bool sequenceParallel = false;
};

void PrintTo(const Layout &layout, std::ostream *out) { *out << layout.name; }

class AdapterMesh : public testing::TestWithParam<Layout> {};

hyc::Plan over(hyc::Plan options, const Layout &layout) {
  options.tp = layout.tp;
  options.pp = layout.pp;
  options.dp = layout.dp;
  options.gradAccum = 2;
  options.zero = layout.zero;
  options.gradientReduction = layout.zero >= 2 ? "micro_batch" : "step";
  options.persistenceThreshold = 100; // A and B are divided, too
  options.recompute = layout.recompute;
  options.sequenceParallel = layout.sequenceParallel;
  return options;
}

TEST_P(AdapterMesh, TrainsAsOneDevice) {
  const hyc::Plan options = adapted(kLlama, kOfLlama);
  static const OneDevice expected(kLlama, 1, options);
  // A and B in each of two layers, and five norms.
  EXPECT_EQ(expected.gradients.size(), 2 * 2 * kOfLlama.size() + 5);
  expectMeshToTrainAlike(kLlama, over(options, GetParam()), expected);
}

INSTANTIATE_TEST_SUITE_P(Layouts, AdapterMesh,
                         testing::Values(Layout{"tp2dp2", 2, 1, 2, 0}, Layout{"zero3", 1, 1, 4, 3},
                                         Layout{"pp2tp2zero3", 2, 2, 2, 3, "layer"},
                                         Layout{"sequence", 2, 1, 1, 0, "none", true}),
                         [](const auto &info) { return std::string(info.param.name); });

TEST(Adapters, OfFusedWeightsTrainAsOneDevice) {
  const hyc::Plan options = adapted(kGpt2, kOfGpt2);
  const OneDevice expected(kGpt2, 1, options);
  expectMeshToTrainAlike(kGpt2, over(options, {"tp2dp2", 2, 1, 2, 3}), expected);
}

/// A third parameter for each layer, and lengths of which both splits leave a part.
TEST(Adapters, WithMagnitudesTrainAsOneDevice) {
  for (const auto &[model, targets] : {std::pair(&kLlama, &kOfLlama), std::pair(&kGpt2, &kOfGpt2)}) {
    hyc::Plan options = adapted(*model, *targets);
    options.adapters->variant = "dora";
    const OneDevice expected(*model, 1, options);
    size_t magnitudes = 0;
    for (const auto &[name, gradient] : expected.gradients)
      magnitudes += llvm::StringRef(name).ends_with(hyc::kMagnitudeName);
    EXPECT_GE(magnitudes, 2 * targets->size());
    expectMeshToTrainAlike(*model, over(options, {"tp2dp2", 2, 1, 2, 0}), expected);
    expectMeshToTrainAlike(*model, over(options, {"pp2tp2zero3", 2, 2, 2, 3, "layer"}), expected);
  }
}

struct Quantized {
  const Model &model;
  const std::vector<std::string> &targets;
  const char *kind;
  Layout layout;
  const char *variant = "lora";
};

void PrintTo(const Quantized &c, std::ostream *out) { *out << c.kind << "_" << c.layout.name; }

class QuantizedMesh : public testing::TestWithParam<Quantized> {};

// Blocks lie across rows, heads and shards here: no layer has 64 inputs a rank.
TEST_P(QuantizedMesh, TrainsAsOneDevice) {
  const Quantized &c = GetParam();
  hyc::Plan options = adapted(c.model, c.targets);
  options.frozenWeights = std::string(c.kind);
  options.adapters->variant = c.variant;
  const OneDevice expected(c.model, 1, options);
  expectMeshToTrainAlike(c.model, over(options, c.layout), expected);
}

const Layout kTensor{"tp2dp2", 2, 1, 2, 0}, kAll{"pp2tp2zero3", 2, 2, 2, 3, "layer"}, kZero{"tp2zero3", 2, 1, 2, 3};

INSTANTIATE_TEST_SUITE_P(
    Layouts, QuantizedMesh,
    testing::Values(Quantized{kLlama, kOfLlama, "int8", kTensor}, Quantized{kLlama, kOfLlama, "int8", kAll},
                    Quantized{kLlama, kOfLlama, "nf4", kTensor}, Quantized{kLlama, kOfLlama, "nf4", kAll},
                    Quantized{kGpt2, kOfGpt2, "int8", kZero}, Quantized{kGpt2, kOfGpt2, "nf4", kZero},
                    Quantized{kLlama, kOfLlama, "int8", kAll, "dora"}, Quantized{kGpt2, kOfGpt2, "nf4", kZero, "dora"}),
    [](const auto &info) {
      return std::string(&info.param.model == &kLlama ? "llama_" : "gpt2_") + info.param.kind + "_" +
             info.param.layout.name + "_" + info.param.variant;
    });

/// The losses of ten steps, and what parameters then hold.
std::pair<std::vector<double>, std::map<std::string, std::vector<double>>> trainedOver(const hyc::Plan &options) {
  TrainedModule module(pathOf(kLlama), batchSize(kLlama) / options.gradAccum);
  for (hyc::Phase phase : {hyc::Phase::Model, hyc::Phase::Train, hyc::Phase::Plan, hyc::Phase::Local})
    EXPECT_TRUE(module && module.enter(phase, options)) << module.diagnostics();
  llvm::FailureOr<MeshInterpreter> interpreter = MeshInterpreter::create(module.get());
  std::vector<double> losses;
  std::map<std::string, std::vector<double>> values;
  for (int64_t step = 0; succeeded(interpreter) && step < kSteps; ++step)
    if (auto result = interpreter->runStep(batchOf(kLlama, step, batchSize(kLlama)), kRate); succeeded(result))
      losses.push_back(result->meanLoss());
  for (auto param : module.get().getOps<hyc::ParamOp>())
    if (succeeded(interpreter))
      if (auto value = interpreter->gatherState(param.getSymName().str()); succeeded(value))
        values[param.getSymName().str()] = value->toDoubles();
  EXPECT_EQ(losses.size(), static_cast<size_t>(kSteps)) << module.diagnostics();
  return {losses, values};
}

/// The losses of ten steps in a phase, as one rank.
template <typename Job> std::vector<double> lossesIn(hyc::Phase last, const hyc::Plan &options, const Model &model) {
  TrainedModule module(pathOf(model), batchSize(model));
  bool compiled = static_cast<bool>(module);
  for (hyc::Phase phase : {hyc::Phase::Model, hyc::Phase::Train, hyc::Phase::Plan, hyc::Phase::Local, hyc::Phase::Rank})
    compiled = compiled && (phase > last || module.enter(phase, options));
  EXPECT_TRUE(compiled) << module.diagnostics();
  llvm::FailureOr<Job> interpreter = Job::create(module.get());
  std::vector<double> losses;
  for (int64_t step = 0; compiled && succeeded(interpreter) && step < kSteps; ++step) {
    NamedTensors batch = batchOf(model, step, batchSize(model));
    llvm::FailureOr<StepResult> result = llvm::failure();
    if constexpr (std::is_same_v<Job, Interpreter>)
      result = runTrainStep(*interpreter, {batch}, kRate);
    else
      result = interpreter->runStep(batch, kRate);
    if (succeeded(result))
      losses.push_back(result->meanLoss());
  }
  EXPECT_EQ(losses.size(), static_cast<size_t>(kSteps)) << module.diagnostics();
  return losses;
}

/// Scales have more bits than the weights that they give.
TEST(Adapters, OverCodesIn16BitsHaveTheSameLossesInEveryPhase) {
  for (const Model *model : {&kLlama, &kGpt2})
    for (const char *kind : {"int8", "nf4"}) {
      SCOPED_TRACE(std::string(model->name) + " " + kind);
      hyc::Plan options = adapted(*model, model == &kLlama ? kOfLlama : kOfGpt2);
      options.frozenWeights = std::string(kind);
      options.precision = "bf16";
      const std::vector<double> expected = lossesIn<Interpreter>(hyc::Phase::Train, options, *model);
      EXPECT_EQ(lossesIn<MeshInterpreter>(hyc::Phase::Local, options, *model), expected);
      EXPECT_EQ(lossesIn<RankInterpreter>(hyc::Phase::Rank, options, *model), expected);
    }
}

/// What is frozen is there in 16 bits alone, and starts from a file's f32 values.
TEST(Adapters, WithoutFrozenMastersHaveTheSameLossesInEveryPhase) {
  for (const char *precision : {"bf16", "fp16"}) {
    SCOPED_TRACE(precision);
    hyc::Plan options = adapted(kLlama, kOfLlama);
    options.precision = precision;
    options.frozenMasters = false;
    const std::vector<double> expected = lossesIn<Interpreter>(hyc::Phase::Train, options, kLlama);
    EXPECT_EQ(lossesIn<MeshInterpreter>(hyc::Phase::Local, options, kLlama), expected);
    EXPECT_EQ(lossesIn<RankInterpreter>(hyc::Phase::Rank, options, kLlama), expected);
  }
}

TEST(Adapters, HaveTheSameBitsInEveryZeroStage) {
  hyc::Plan options = over(adapted(kLlama, kOfLlama), {"", 1, 1, 4, 0});
  options.gradientReduction = "micro_batch";
  const auto [losses, values] = trainedOver(options);
  EXPECT_LT(losses.back(), losses.front());
  for (int64_t zero : {1, 2, 3}) {
    options.zero = zero;
    const auto [divided, parts] = trainedOver(options);
    EXPECT_EQ(divided, losses) << "ZeRO " << zero;
    EXPECT_EQ(parts, values) << "ZeRO " << zero;
  }
}

TEST(Adapters, OverCodesHaveTheSameBitsWhereTheseAreDivided) {
  for (const char *kind : {"int8", "nf4"}) {
    hyc::Plan options = over(adapted(kLlama, kOfLlama), {"", 1, 1, 4, 0});
    options.gradientReduction = "micro_batch";
    options.frozenWeights = std::string(kind);
    const auto [losses, values] = trainedOver(options);
    options.zero = 3;
    const auto [divided, parts] = trainedOver(options);
    EXPECT_EQ(divided, losses) << kind;
    EXPECT_EQ(parts, values) << kind;
  }
}
} // namespace
