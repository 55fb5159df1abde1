// Programs that compute in 16 bits. In f64, where nothing is rounded, such a program has to give what it gave in f32
// and what its parts give together; as typed, what its parts give has to stay as near as the roundings allow.
#include "Comparison.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Interpreter/MeshInterpreter.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace hyc::equivalence;
using namespace hyc::interpreter;

static const char *kBf16 = "hyc-convert-precision{precision=bf16},";
static const char *kScaledF16 = "hyc-convert-precision{precision=fp16},hyc-scale-loss{initial-scale=64},";

static RandomGraph graphOf(uint64_t seed) {
  RandomGraphOptions options;
  options.blocks = 3 + static_cast<int64_t>(seed % 6);
  return makeRandomGraph(seed, options);
}

static std::string pipeline(const std::string &precision) {
  return "hyc-differentiate," + precision + "hyc-attach-optimizer,hyc-verify-train";
}

/// Whether rounding them to bf16 changes no constant, which would be another program.
static bool constantsAreExact(mlir::ModuleOp module) {
  bool exact = true;
  module.walk([&](hyc::ConstantOp constant) {
    auto values = mlir::dyn_cast<mlir::DenseFPElementsAttr>(constant.getValue());
    if (values)
      for (const llvm::APFloat &value : values.getValues<llvm::APFloat>()) {
        float number = static_cast<float>(value.convertToDouble());
        exact &= roundTo(ElementKind::BF16, number) == number;
      }
  });
  return exact;
}

/// |a - b| in terms of b, or of 1e-3 where b is smaller.
static double relative(double a, double b) { return std::fabs(a - b) / std::fmax(std::fabs(b), 1e-3); }

TEST(Precision, WithoutRoundingTheConvertedProgramIsTheProgram) {
  Options wide;
  wide.arithmetic = Arithmetic::Wide;
  int compared = 0, narrow = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomGraph graph = graphOf(seed);
    TrainedModule before(graph.module, pipeline("")), after(graph.module, pipeline(kBf16));
    ASSERT_TRUE(before && after) << "seed " << seed << "\n" << after.diagnostics() << graph.module;
    narrow += after.print().find("xbf16>") != std::string::npos;
    if (!constantsAreExact(before.get()))
      continue;
    llvm::FailureOr<Interpreter> a = Interpreter::create(before.get(), wide),
                                 b = Interpreter::create(after.get(), wide);
    ASSERT_TRUE(succeeded(a) && succeeded(b)) << after.diagnostics();
    for (int64_t step = 0; step < 2; ++step) {
      NamedTensors batch = makeRandomBatch(graph, seed * 100 + static_cast<uint64_t>(step), 1);
      llvm::FailureOr<StepResult> x = runTrainStep(*a, {batch}, 0.05), y = runTrainStep(*b, {batch}, 0.05);
      ASSERT_TRUE(succeeded(x) && succeeded(y)) << "seed " << seed << "\n" << after.diagnostics();
      EXPECT_LT(relative(y->lossSum, x->lossSum), 1e-9) << "seed " << seed << " step " << step;
      EXPECT_LT(relative(y->gradNorm, x->gradNorm), 1e-6) << "seed " << seed << " step " << step;
    }
    ++compared;
  }
  EXPECT_GE(compared, 20);
  EXPECT_GE(narrow, 285);
}

/// All ranks of the converted program against one device, in f64, at phases 4 and 5.
class ConvertedAndPartitioned : public testing::TestWithParam<uint64_t> {};

TEST_P(ConvertedAndPartitioned, Bf16ComputesWhatOneDeviceComputes) {
  Comparison comparison(GetParam());
  comparison.precision = kBf16;
  comparison.run();
}

TEST_P(ConvertedAndPartitioned, ScaledF16ComputesWhatOneDeviceComputes) {
  Comparison comparison(GetParam() + 1000);
  comparison.precision = kScaledF16;
  comparison.run();
}

INSTANTIATE_TEST_SUITE_P(RandomGraphs, ConvertedAndPartitioned, testing::Range<uint64_t>(0, 40));

//===----------------------------------------------------------------------===//
// Loss scaling
//===----------------------------------------------------------------------===//

namespace {
/// Trains w of loss = Σ x · w in f16, where a step whose x is large overflows.
const char *kLine = R"(
hyc.param @w : tensor<4xf32> from #hyc.fill<0.5>
hyc.func @train(%x: tensor<2x4xf32> {hyc.input = "x", hyc.source = "token"}) -> (tensor<f32>, tensor<i64>) {
  %w = hyc.read @w : tensor<4xf32>
  %y = hyc.einsum "bk,k->b" %x, %w {id = "y"} : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2xf32>
  %loss = hyc.reduce sum %y [0] {id = "loss"} : (tensor<2xf32>) -> tensor<f32>
  %count = hyc.constant {id = "count"} dense<2> : tensor<i64>
  hyc.return %loss, %count : tensor<f32>, tensor<i64>
}
)";

NamedTensors lineBatch(double x) {
  NamedTensors batch;
  batch["x"] = Tensor::splat(ElementKind::F32, {2, 4}, x);
  return batch;
}
} // namespace

/// Overflows where the table says; the scale follows DeepSpeed's rules, and a step that overflowed changes nothing
/// else.
static void expectSkippedSteps(const std::string &optimizer, const std::vector<std::string> &kept) {
  TrainedModule module(kLine,
                       "hyc-differentiate,hyc-convert-precision{precision=fp16},hyc-scale-loss{initial-scale=16},"
                       "hyc-attach-optimizer{loss-scale-window=2 hysteresis=2 " +
                           optimizer + "},hyc-verify-train");
  ASSERT_TRUE(module) << module.diagnostics();
  llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get());
  ASSERT_TRUE(succeeded(interpreter)) << module.diagnostics();
  struct Step {
    bool overflows;
    double scaleAfter;
    int64_t appliedAfter;
  };
  // Window 2, hysteresis 2: the first overflow is forgiven, the second halves; two good steps double and forgive again.
  const Step steps[] = {{false, 16, 1}, {true, 16, 1}, {true, 8, 1}, {false, 8, 2}, {false, 16, 3},
                        {true, 16, 3},  {true, 8, 3},  {true, 4, 3}, {false, 4, 4}, {false, 8, 5}};
  int64_t number = 0;
  for (const Step &step : steps) {
    ++number;
    std::vector<Tensor> before;
    for (const std::string &name : kept)
      before.push_back(*interpreter->getState(name));
    // 1e6 is infinite in f16.
    ASSERT_TRUE(succeeded(runTrainStep(*interpreter, {lineBatch(step.overflows ? 1e6 : 1.0)}, 0.1)))
        << module.diagnostics();
    EXPECT_EQ(interpreter->getState("loss_scale")->getDouble(), step.scaleAfter) << "step " << number;
    EXPECT_EQ(interpreter->getState("applied_step")->getInteger(), step.appliedAfter) << "step " << number;
    EXPECT_EQ(interpreter->getState("step")->getInteger(), number);
    for (size_t i = 0; i < kept.size(); ++i)
      EXPECT_EQ(interpreter->getState(kept[i])->isIdenticalTo(before[i]), step.overflows)
          << optimizer << ", @" << kept[i] << ", step " << number;
  }
}

TEST(LossScaling, AStepThatOverflowsIsSkippedAndTheScaleFollows) {
  for (const char *optimizer : {"adamw", "adam"})
    expectSkippedSteps(std::string("optimizer=") + optimizer, {"w", "w.compute", "w.adam.m", "w.adam.v"});
  expectSkippedSteps("optimizer=lamb weight-decay=0.1", {"w", "w.compute", "w.lamb.m", "w.lamb.v"});
  expectSkippedSteps("optimizer=lion", {"w", "w.compute", "w.lion.m"});
  expectSkippedSteps("optimizer=sgd momentum=0.9", {"w", "w.compute", "w.momentum"});
}

/// Norm and update do not know of the scale: powers of two come and go without a trace.
TEST(LossScaling, TheScaleLeavesNormAndUpdateAlone) {
  TrainedModule plain(kLine, "hyc-differentiate,hyc-convert-precision{precision=fp16},hyc-attach-optimizer");
  TrainedModule scaled(kLine,
                       "hyc-differentiate,hyc-convert-precision{precision=fp16},hyc-scale-loss{initial-scale=1024},"
                       "hyc-attach-optimizer");
  ASSERT_TRUE(plain && scaled) << plain.diagnostics() << scaled.diagnostics();
  llvm::FailureOr<Interpreter> a = Interpreter::create(plain.get()), b = Interpreter::create(scaled.get());
  ASSERT_TRUE(succeeded(a) && succeeded(b));
  for (int step = 0; step < 3; ++step) {
    llvm::FailureOr<StepResult> x = runTrainStep(*a, {lineBatch(1.5)}, 0.1),
                                y = runTrainStep(*b, {lineBatch(1.5)}, 0.1);
    ASSERT_TRUE(succeeded(x) && succeeded(y));
    EXPECT_EQ(x->gradNorm, y->gradNorm);
    EXPECT_TRUE(a->getState("w")->isIdenticalTo(*b->getState("w")));
  }
}
