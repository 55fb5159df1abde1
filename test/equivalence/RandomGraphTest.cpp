// The random graphs themselves: one seed gives one graph, every graph trains, and its gradient is the slope of its
// loss.
#include "RandomGraph.h"
#include "TrainedModule.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Interpreter/Interpreter.h"

#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace hyc::equivalence;
using namespace hyc::interpreter;

namespace {
const char *kTrain = "hyc-differentiate,hyc-attach-optimizer{optimizer=sgd},hyc-verify-train";

Options wide() {
  Options options;
  options.arithmetic = Arithmetic::Wide;
  return options;
}

/// Σ gradient · direction over all trainable parameters, and a module whose parameters are moved along the direction.
struct Probe {
  std::vector<std::string> parameters;
  std::vector<Tensor> directions;

  /// The loss with every parameter moved by `distance` along its direction.
  double lossAt(Interpreter &interpreter, const NamedTensors &batch, double distance) {
    std::vector<Tensor> before;
    for (size_t i = 0; i < parameters.size(); ++i) {
      Tensor moved = *interpreter.getState(parameters[i]);
      before.push_back(moved);
      for (int64_t e = 0; e < moved.getNumElements(); ++e)
        moved.set(e, moved.getDouble(e) + distance * directions[i].getDouble(e));
      EXPECT_TRUE(succeeded(interpreter.setState(parameters[i], moved)));
    }
    interpreter.beginStep();
    EXPECT_TRUE(succeeded(interpreter.call("microbatch", batch)));
    double loss = interpreter.getState("loss_sum")->getDouble();
    for (size_t i = 0; i < parameters.size(); ++i)
      EXPECT_TRUE(succeeded(interpreter.setState(parameters[i], before[i])));
    return loss;
  }
};
} // namespace

TEST(RandomGraph, SeedDecidesTheGraph) {
  std::set<std::string> graphs;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::string text = makeRandomGraph(seed, {}).module;
    EXPECT_EQ(text, makeRandomGraph(seed, {}).module);
    graphs.insert(text);
  }
  EXPECT_EQ(graphs.size(), 20u);
}

namespace {
void expectSlope(uint64_t seed, const RandomGraphOptions &options) {
  RandomGraph graph = makeRandomGraph(seed, options);
  TrainedModule module(graph.module, kTrain);
  ASSERT_TRUE(module) << "seed " << seed << "\n" << module.diagnostics() << graph.module;
  llvm::FailureOr<Interpreter> interpreter = Interpreter::create(module.get(), wide());
  ASSERT_TRUE(succeeded(interpreter)) << "seed " << seed << "\n" << module.diagnostics();
  NamedTensors batch = makeRandomBatch(graph, seed, 1);
  Probe probe;
  std::mt19937_64 random(seed);
  for (const std::string &parameter : graph.parameters) {
    if (!interpreter->getState(parameter + ".grad"))
      continue;
    Tensor direction(ElementKind::F64, interpreter->getState(parameter)->getShape());
    for (int64_t e = 0; e < direction.getNumElements(); ++e)
      direction.set(e, static_cast<double>(random() >> 11) * 0x1p-52 - 1);
    probe.parameters.push_back(parameter);
    probe.directions.push_back(direction);
  }
  ASSERT_TRUE(std::isfinite(probe.lossAt(*interpreter, batch, 0))) << "seed " << seed << module.diagnostics();
  double slope = 0, scale = 1;
  for (size_t i = 0; i < probe.parameters.size(); ++i) {
    const Tensor &gradient = *interpreter->getState(probe.parameters[i] + ".grad");
    for (int64_t e = 0; e < gradient.getNumElements(); ++e) {
      slope += gradient.getDouble(e) * probe.directions[i].getDouble(e);
      scale += std::fabs(gradient.getDouble(e) * probe.directions[i].getDouble(e));
    }
  }
  const double h = 1e-6;
  double measured = (probe.lossAt(*interpreter, batch, h) - probe.lossAt(*interpreter, batch, -h)) / (2 * h);
  EXPECT_NEAR(measured / scale, slope / scale, 1e-6) << "seed " << seed << "\n" << graph.module;
}
} // namespace

TEST(RandomGraph, GradientIsTheSlopeOfTheLoss) {
  for (uint64_t seed = 0; seed < 60; ++seed)
    expectSlope(seed, {});
}

TEST(RandomGraph, GradientOfScansIsTheSlopeOfTheLoss) {
  RandomGraphOptions options;
  options.recurs = true;
  for (uint64_t seed = 0; seed < 60; ++seed)
    expectSlope(seed, options);
}
