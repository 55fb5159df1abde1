// The tiny GPT-2 in fp8, in the interpreter, against what PyTorch computed with linear layers and delayed scaling of
// its own (test/models/export_gpt2_fp8.py): losses, the greatest magnitudes of the first step, and scales after the
// fourth.
#include "SafeTensors.h"
#include "TrainedModule.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Interpreter/Interpreter.h"
#include "test/Places.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace hyc::equivalence;
using namespace hyc::interpreter;

namespace {

constexpr int64_t kSamples = 16, kSequence = 64, kSteps = 4;

NamedTensors batchOf(int64_t step) {
  static const auto tokens =
      hyc_e2e::readSafeTensors(hyc::places::model("gpt2-tiny.reference.safetensors")).at("tokens");
  NamedTensors batch;
  Tensor &ids = batch["input_ids"] = Tensor(ElementKind::I64, {kSamples, kSequence});
  Tensor &labels = batch["labels"] = Tensor(ElementKind::I64, {kSamples, kSequence});
  for (int64_t sample = 0; sample < kSamples; ++sample)
    for (int64_t i = 0; i < kSequence; ++i) {
      size_t at = static_cast<size_t>((step * kSamples + sample) * (kSequence + 1) + i);
      ids.set(sample * kSequence + i, tokens.values[at]);
      labels.set(sample * kSequence + i, tokens.values[at + 1]);
    }
  return batch;
}

/// The state of a layer's input, weight or cotangent ("x", "w" or "g"): its scale, or its history.
const Tensor *findState(Interpreter &interpreter, mlir::ModuleOp module, const std::string &layer,
                        const std::string &tensor, const std::string &what) {
  for (hyc::StateOp state : module.getOps<hyc::StateOp>())
    if (llvm::StringRef name = state.getSymName();
        name.starts_with(layer + ".") && name.ends_with(".fp8." + tensor + "." + what))
      return interpreter.getState(name);
  return nullptr;
}

} // namespace

TEST(Fp8Gpt2, LossesMagnitudesAndScalesAreNearPyTorchs) {
  const auto expected = hyc_e2e::readSafeTensors(hyc::places::model("gpt2-tiny.fp8.safetensors"));
  hyc::Plan options;
  options.logits = "logits";
  options.weightDecay = 0.01;
  options.precision = "fp8";
  TrainedModule module(hyc::places::model("gpt2-tiny.onnx"), kSamples);
  ASSERT_TRUE(module.enter(hyc::Phase::Model, options) && module.enter(hyc::Phase::Train, options))
      << module.diagnostics();
  llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get());
  ASSERT_TRUE(succeeded(interpreter)) << module.diagnostics();
  int64_t compared = 0, scales = 0, equalScales = 0;
  auto compareTensors = [&](const std::string &kind, auto compare) {
    for (const auto &[name, values] : expected)
      if (name.rfind(kind + ".", 0) == 0)
        for (size_t i = 0; i < 3; ++i) {
          const Tensor *state = findState(*interpreter, module.get(), name.substr(kind.size() + 1),
                                          std::string(1, "xwg"[i]), kind == "amax" ? "history" : "scale");
          ASSERT_TRUE(state) << name;
          compare(name + "[" + std::to_string(i) + "]", state->getDouble(), values.values[i]);
        }
  };
  for (int64_t step = 0; step < kSteps; ++step) {
    llvm::FailureOr<StepResult> result = runTrainStep(*interpreter, {batchOf(step)}, 1e-3);
    ASSERT_TRUE(succeeded(result)) << module.diagnostics();
    // The weights drift apart by less than they do between bf16 and f32.
    EXPECT_NEAR(result->meanLoss() / expected.at("losses.adamw").values[static_cast<size_t>(step)], 1, 0x1p-10)
        << "step " << step + 1;
    if (step == 0)
      compareTensors("amax", [&](const std::string &name, double actual, double wanted) {
        ++compared;
        // One number out of thousands, rounded to bf16 on another way.
        EXPECT_NEAR(actual / wanted, 1, 0x1p-4) << name;
      });
  }
  compareTensors("scale", [&](const std::string &name, double actual, double wanted) {
    ++scales;
    equalScales += actual == wanted;
    EXPECT_TRUE(actual == wanted || actual == 2 * wanted || 2 * actual == wanted)
        << name << ": " << actual << " and " << wanted;
  });
  // Eight layers of four products; near a power of two either of its neighbours will do.
  EXPECT_EQ(compared, 8 * 4 * 3);
  EXPECT_EQ(scales, 8 * 4 * 3);
  EXPECT_GE(equalScales, scales * 9 / 10);
}
