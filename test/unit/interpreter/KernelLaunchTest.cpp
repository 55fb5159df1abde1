// Kernels of phase 5 that combine: one launch over a rank's memory, against values worked out by hand.
#include "InterpreterTesting.h"

#include "hyc/Interpreter/RankInterpreter.h"

using namespace hyc::interpreter;

namespace {
/// Launches @k once a micro-batch, two a step, from the parameter @w (2×3: 1 … 6) into the gradients @g and @h.
std::string program(const std::string &kernel, const std::string &launch, const std::string &gShape,
                    const std::string &hShape) {
  auto state = [](const std::string &name, const std::string &role, int offset, const std::string &shape,
                  const std::string &init) {
    std::string dims = shape.substr(0, shape.rfind('x')), list, splits;
    for (char c : dims) {
      list += c == 'x' ? ", " : std::string(1, c);
      if (c == 'x')
        splits += ", #dist.axes<{}>";
    }
    return "rank.state @" + name + " \"" + role + "\" of \"w\" in @memory at " + std::to_string(offset) +
           " : !rank.buffer<" + shape + "> logical [" + list + "] global [" + list + "] splits [#dist.axes<{}>" +
           splits + "] init " + init + "\n";
  };
  std::string text = "dist.mesh @mesh axes [\"dp\"] sizes [1] stages 1 batch <{dp}>\n" + kernel + R"(
    dist.schedule stage 0 slots 1 [#dist.do<begin_step>,
      #dist.do<forward micro_batch 0 slot 0>, #dist.do<backward micro_batch 0 slot 0>,
      #dist.do<forward micro_batch 1 slot 0>, #dist.do<backward micro_batch 1 slot 0>, #dist.do<reduce>, #dist.do<apply>]
    rank.program @stage0 stage 0 slots 1 {
      rank.arena @memory bytes 256
      rank.arena @host bytes 64
      rank.input @ids source "token" bound 9 in @host at 0 : !rank.buffer<2xi64>
    )" + state("w", "parameter", 0, "2x3xf32", "dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>") +
                     state("g", "gradient", 64, gShape, "#hyc.fill<0.0 : f64>") +
                     state("h", "optimizer", 128, hShape, "#hyc.fill<0.0 : f64>");
  text += "rank.func @backward() {\n  %w = rank.at @memory 0 : !rank.buffer<2x3xf32>\n  %g = rank.at @memory 64 : "
          "!rank.buffer<" +
          gShape + ">\n  %h = rank.at @memory 128 : !rank.buffer<" + hShape + ">\n  " + launch + "\n}\n";
  for (const char *name : {"forward", "reduce", "apply"})
    text += std::string("rank.func @") + name + "() {}\n";
  return text + "}\n";
}

/// @g and @h after one step.
std::pair<Tensor, Tensor> step(const std::string &text, Arithmetic arithmetic) {
  TestModule module(text);
  Options options;
  options.arithmetic = arithmetic;
  llvm::FailureOr<RankInterpreter> ranks = RankInterpreter::create(module.get(), options);
  NamedTensors batch;
  batch["ids"] = Tensor(ElementKind::I64, {4});
  if (failed(ranks) || failed(ranks->runStep(batch, 0))) {
    ADD_FAILURE() << module.diagnostics() << text;
    return {};
  }
  llvm::FailureOr<Tensor> g = ranks->gatherState("g"), h = ranks->gatherState("h");
  if (failed(g) || failed(h)) {
    ADD_FAILURE() << module.diagnostics();
    return {};
  }
  return {g->converted(ElementKind::F32), h->converted(ElementKind::F32)};
}
} // namespace

TEST(KernelLaunch, WholeResultsAreOverwrittenWhereSumsAreAdded) {
  std::string text = program(R"(
    rank.kernel @k space [2, 3] reduced [0] strides [array<i64: 3, 1>, array<i64: 3, 1>, array<i64: 0, 1>] results [f32, f32] {
    ^bb0(%x: f32):
      %0 = rank.compute "add" %x, %x : (f32, f32) -> f32
      %1 = rank.combine sum %0 : f32
      rank.yield %0, %1 : f32, f32
    })",
                             R"(rank.launch @k %h, %g = %w {mode = #rank<mode first>}
                                : !rank.buffer<2x3xf32>, !rank.buffer<3xf32>, !rank.buffer<2x3xf32>)",
                             "3xf32", "2x3xf32");
  for (Arithmetic arithmetic : {Arithmetic::AsTyped, Arithmetic::Wide}) {
    auto [sums, doubled] = step(text, arithmetic);
    // Twice: one micro-batch overwrites, the next adds.
    EXPECT_TRUE(isNear(sums, f32({3}, {20, 28, 36})));
    EXPECT_TRUE(isNear(doubled, f32({2, 3}, {2, 4, 6, 8, 10, 12})));
  }
}

TEST(KernelLaunch, ResultsOfCombinationsAreComputedOnWith) {
  // h = max over rows, times the first element of the row; g = minimum of everything, minus 1.
  std::string text =
      program(R"(
    rank.kernel @k space [2, 3] reduced [1] strides [array<i64: 3, 1>, array<i64: 3, 0>, array<i64: 1, 0>] results [f32] {
    ^bb0(%x: f32, %first: f32):
      %0 = rank.combine max %x : f32
      %1 = rank.compute "mul" %0, %first : (f32, f32) -> f32
      rank.yield %1 : f32
    }
    rank.kernel @l space [6] reduced [0] strides [array<i64: 1>, array<i64: 0>] results [f32] {
    ^bb0(%x: f32):
      %0 = rank.combine min %x : f32
      %1 = rank.literal 1.0 : f32
      %2 = rank.compute "sub" %0, %1 : (f32, f32) -> f32
      rank.yield %2 : f32
    })",
              R"(rank.launch @k %h = %w, %w : !rank.buffer<2xf32>, !rank.buffer<2x3xf32>, !rank.buffer<2x3xf32>
                                rank.launch @l %g = %w : !rank.buffer<1xf32>, !rank.buffer<2x3xf32>)",
              "1xf32", "2xf32");
  auto [least, products] = step(text, Arithmetic::AsTyped);
  EXPECT_TRUE(isNear(least, f32({1}, {0})));
  EXPECT_TRUE(isNear(products, f32({2}, {3, 24})));
}

TEST(KernelLaunch, OuterAndInnerDimensionsAreReducedTogether) {
  // w as (1, 2, 3) in the middle of nothing: over dimensions 0 and 2 of a space that repeats it twice.
  std::string text = program(R"(
    rank.kernel @k space [2, 2, 3] reduced [0, 2] strides [array<i64: 0, 3, 1>, array<i64: 0, 1, 0>] results [f32] {
    ^bb0(%x: f32):
      %0 = rank.combine sum %x : f32
      rank.yield %0 : f32
    })",
                             "rank.launch @k %h = %w : !rank.buffer<2xf32>, !rank.buffer<2x3xf32>", "1xf32", "2xf32");
  EXPECT_TRUE(isNear(step(text, Arithmetic::AsTyped).second, f32({2}, {12, 30})));
}
