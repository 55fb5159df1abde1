// The tiny GPT-2, imported from ONNX, in every layout of eight ranks under both schedules: its losses are those of one
// rank, and those of one rank are PyTorch's. The executables are held to the same in test/e2e, on fewer layouts.
#include "SafeTensors.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Import/ONNX/Import.h"
#include "hyc/Interpreter/MeshInterpreter.h"
#include "hyc/Pipelines/Pipelines.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <cmath>
#include <gtest/gtest.h>
#include <map>

using namespace hyc;
using namespace hyc::interpreter;

namespace {

constexpr int64_t kBatch = 16, kSequence = 64;

struct Layout {
  int64_t tp, pp, dp;
  std::string schedule, optimizer;
};

const std::map<std::string, hyc_e2e::HostTensor> &reference() {
  static const auto tensors = hyc_e2e::readSafeTensors(HYC_MODELS_DIR "/gpt2-tiny.reference.safetensors");
  return tensors;
}

/// Tokens `shift` … of every window of one step's global batch.
Tensor tokens(int64_t step, int64_t shift) {
  std::vector<int64_t> values;
  const std::vector<double> &all = reference().at("tokens").values;
  for (int64_t i = 0; i < kBatch; ++i)
    for (int64_t j = 0; j < kSequence; ++j)
      values.push_back(static_cast<int64_t>(all[(step * kBatch + i) * (kSequence + 1) + j + shift]));
  return Tensor::fromIntegers(ElementKind::I64, {kBatch, kSequence}, values);
}

/// The losses of the first `steps` steps.
std::vector<double> train(const Layout &layout, int64_t steps) {
  mlir::MLIRContext context;
  context.disableMultithreading();
  context.loadDialect<HycDialect, dist::DistDialect>();
  ImportOptions import;
  PipelineOptions options;
  options.logits = "logits";
  options.tp = layout.tp, options.pp = layout.pp, options.dp = layout.dp;
  options.microBatches = layout.dp == 8 ? 2 : 4;
  options.schedule = layout.schedule;
  options.optimizer = layout.optimizer;
  options.weightDecay = layout.optimizer == "adamw" ? 0.01 : 0;
  import.batch = kBatch / options.microBatches;
  auto module = importOnnx(context, HYC_MODELS_DIR "/gpt2-tiny.onnx", import);
  if (failed(module))
    return {};
  mlir::PassManager passes(&context);
  for (Phase phase : {Phase::Model, Phase::Train, Phase::Plan, Phase::Local}) {
    buildPhase(phase, passes, options);
    buildVerification(phase, passes);
  }
  if (failed(passes.run(**module)))
    return {};
  Options interpretation;
  interpretation.baseDirectory = HYC_MODELS_DIR;
  auto ranks = MeshInterpreter::create(**module, interpretation);
  std::vector<double> losses;
  for (int64_t step = 0; succeeded(ranks) && step < steps; ++step) {
    auto result = ranks->runStep({{"input_ids", tokens(step, 0)}, {"labels", tokens(step, 1)}},
                                 layout.optimizer == "adamw" ? 1e-3 : 0.1);
    if (failed(result))
      return losses;
    losses.push_back(result->meanLoss());
  }
  return losses;
}

void expectLosses(const std::vector<double> &actual, const std::vector<double> &expected, double tolerance) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t step = 0; step < actual.size(); ++step)
    EXPECT_NEAR(actual[step] / expected[step], 1.0, tolerance)
        << "step " << step + 1 << ": " << actual[step] << " and " << expected[step];
}

const std::vector<double> &oneRank(const std::string &optimizer) {
  static std::map<std::string, std::vector<double>> losses;
  auto [entry, inserted] = losses.try_emplace(optimizer);
  if (inserted)
    entry->second = train({1, 1, 1, "1f1b", optimizer}, 20);
  return entry->second;
}

TEST(Gpt2OneRankInterpreted, LossesArePyTorchs) {
  expectLosses(oneRank("adamw"), reference().at("losses.adamw").values, 1e-4);
  expectLosses(oneRank("sgd"), reference().at("losses.sgd").values, 1e-4);
}

class Gpt2EveryLayout : public testing::TestWithParam<Layout> {};

TEST_P(Gpt2EveryLayout, LossesAreThoseOfOneRank) {
  const Layout &layout = GetParam();
  expectLosses(train(layout, 20), oneRank(layout.optimizer), layout.optimizer == "sgd" ? 1e-5 : 1e-4);
}

/// All ten meshes of eight ranks; both schedules where there is a pipeline; the optimizers in turn.
std::vector<Layout> everyLayout() {
  std::vector<Layout> layouts;
  for (int64_t tp : {1, 2, 4, 8})
    for (int64_t pp : {1, 2, 4, 8}) {
      if (8 % (tp * pp) != 0)
        continue;
      for (const char *schedule : {"1f1b", "gpipe"})
        if (pp > 1 || std::string(schedule) == "1f1b")
          layouts.push_back({tp, pp, 8 / (tp * pp), schedule, layouts.size() % 2 ? "adamw" : "sgd"});
    }
  return layouts;
}

INSTANTIATE_TEST_SUITE_P(EightRanks, Gpt2EveryLayout, testing::ValuesIn(everyLayout()), [](const auto &info) {
  const Layout &layout = info.param;
  return "tp" + std::to_string(layout.tp) + "pp" + std::to_string(layout.pp) + "dp" + std::to_string(layout.dp) + "_" +
         layout.schedule + "_" + layout.optimizer;
});

} // namespace
