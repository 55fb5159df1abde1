// Loops and scans of so many steps that they become one op: their values, what their bodies may take from around them,
// and what cannot be rolled.
#include "OnnxTesting.h"
#include "dialects/Hyc/HycDialect.h"

#include <gtest/gtest.h>

using namespace hyc;
using namespace hyc::onnx;

namespace {
constexpr int64_t kSteps = 20;

onnxfile::Graph &addBody(onnxfile::Node &node, const std::vector<std::string> &inputs) {
  onnxfile::Attribute &attribute = *node.add_attribute();
  attribute.set_name("body");
  attribute.set_type(5); // GRAPH
  for (const std::string &input : inputs)
    attribute.mutable_g()->add_input()->set_name(input);
  return *attribute.mutable_g();
}

void give(onnxfile::Graph &graph, const std::vector<std::string> &outputs) {
  for (const std::string &output : outputs)
    graph.add_output()->set_name(output);
}

interpreter::Tensor vector(const std::vector<double> &values) {
  return interpreter::Tensor::fromDoubles(interpreter::ElementKind::F32, {static_cast<int64_t>(values.size())}, values);
}

int64_t countScans(Imported &imported) {
  int64_t count = 0;
  imported.module->walk([&](ScanOp) { ++count; });
  return count;
}

/// Of h, `steps` times what `fill` makes of it: "next" is carried on, "given" stacked.
ModelBuilder loop(llvm::function_ref<void(onnxfile::Graph &)> fill,
                  std::vector<std::string> results = {"last", "all"}) {
  ModelBuilder model;
  model.input("h", kF32, {2});
  model.input("y", kF32, {2});
  model.integers("steps", {}, {kSteps});
  onnxfile::Graph &body = addBody(model.node("Loop", {"steps", "", "h"}, results), {"i", "goes_on", "own"});
  addNode(body, "Identity", {"goes_on"}, "still");
  fill(body);
  give(body, {"still", "next", "given"});
  for (const std::string &result : results)
    model.output(result);
  return model;
}

void expectValues(const ModelBuilder &model, int64_t scans, const std::vector<std::vector<double>> &expected) {
  Imported imported = importModel(model);
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_EQ(countScans(imported), scans);
  auto results = execute(imported, {vector({1, -2}), vector({0.5, 3})});
  ASSERT_EQ(results.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(results[i].toDoubles(), expected[i]) << "result " << i;
}

/// `of(t)` for every step.
std::vector<double> stack(llvm::function_ref<std::vector<double>(int64_t)> of) {
  std::vector<double> all;
  for (int64_t t = 0; t < kSteps; ++t)
    llvm::append_range(all, of(t));
  return all;
}

TEST(RolledLoop, CarriesOnAndStacks) {
  expectValues(loop([](onnxfile::Graph &body) {
                 addNode(body, "Add", {"own", "y"}, "next");
                 addNode(body, "Neg", {"own"}, "given");
               }),
               1, {{1 + kSteps * 0.5, -2 + kSteps * 3.0}, stack([](int64_t t) {
                     return std::vector<double>{-(1 + t * 0.5), -(-2 + t * 3.0)};
                   })});
}

TEST(RolledLoop, MayGiveWhatIsTheSameInEveryStep) {
  expectValues(loop([](onnxfile::Graph &body) {
                 addNode(body, "Relu", {"y"}, "next");
                 addNode(body, "Identity", {"y"}, "given");
               }),
               1, {{0.5, 3}, stack([](int64_t) { return std::vector<double>{0.5, 3}; })});
}

TEST(RolledLoop, ThatAsksForItsStepIsWrittenOut) {
  expectValues(loop([](onnxfile::Graph &body) {
                 onnxfile::Node &cast = *body.add_node();
                 cast.set_op_type("Cast");
                 cast.add_input("i");
                 cast.add_output("number");
                 ModelBuilder::setInt(cast, "to", 1); // FLOAT
                 addNode(body, "Add", {"own", "number"}, "next");
                 addNode(body, "Identity", {"own"}, "given");
               }),
               0, {{1 + kSteps * (kSteps - 1) / 2.0, -2 + kSteps * (kSteps - 1) / 2.0}, stack([](int64_t t) {
                     double sum = t * (t - 1) / 2.0;
                     return std::vector<double>{1 + sum, -2 + sum};
                   })});
}

TEST(RolledLoop, OfMoreResultsThanItsBodyGivesIsRefused) {
  expectError(importModel(loop(
                  [](onnxfile::Graph &body) {
                    addNode(body, "Add", {"own", "y"}, "next");
                    addNode(body, "Neg", {"own"}, "given");
                  },
                  {"last", "all", "more"})),
              {"has 3 results of a graph with 3 outputs"});
}

/// Steps of one loop inside of those of another: the inner ones are rolled.
TEST(RolledLoop, InsideOfAnotherIsRolledItself) {
  ModelBuilder model = loop([](onnxfile::Graph &body) {
    onnxfile::Node &inner = *body.add_node();
    inner.set_op_type("Loop");
    for (const char *input : {"steps", "", "own"})
      inner.add_input(input);
    inner.add_output("next");
    onnxfile::Graph &innerBody = addBody(inner, {"j", "inner_goes_on", "inner_own"});
    addNode(innerBody, "Identity", {"inner_goes_on"}, "inner_still");
    addNode(innerBody, "Add", {"inner_own", "y"}, "inner_next");
    give(innerBody, {"inner_still", "inner_next"});
    addNode(body, "Identity", {"own"}, "given");
  });
  expectValues(model, kSteps, {{1 + kSteps * kSteps * 0.5, -2 + kSteps * kSteps * 3.0}, stack([](int64_t t) {
                                 return std::vector<double>{1 + t * kSteps * 0.5, -2 + t * kSteps * 3.0};
                               })});
}

/// Sums of the rows of x, from the last one on, beside one another along axis 1.
TEST(RolledScan, GoesEitherWayAlongAnyAxis) {
  ModelBuilder model;
  model.input("h", kF32, {2});
  model.input("x", kF32, {2, kSteps});
  onnxfile::Node &node = model.node("Scan", {"h", "x"}, {"last", "all"});
  ModelBuilder::setInt(node, "num_scan_inputs", 1);
  for (const char *name : {"scan_input_axes", "scan_output_axes", "scan_input_directions", "scan_output_directions"})
    ModelBuilder::setInts(node, name, {1});
  onnxfile::Graph &body = addBody(node, {"own", "each"});
  addNode(body, "Add", {"own", "each"}, "next");
  addNode(body, "Identity", {"next"}, "given");
  give(body, {"next", "given"});
  model.output("last");
  model.output("all");
  Imported imported = importModel(model);
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_EQ(countScans(imported), 1);
  std::vector<double> x(2 * kSteps), all(2 * kSteps);
  for (int64_t row = 0; row < 2; ++row)
    for (int64_t t = 0; t < kSteps; ++t)
      x[row * kSteps + t] = static_cast<double>(t + row);
  for (int64_t row = 0; row < 2; ++row) {
    double sum = row == 0 ? 1 : -2;
    for (int64_t t = kSteps; t-- > 0;)
      all[row * kSteps + t] = sum += x[row * kSteps + t];
  }
  auto results = execute(
      imported, {vector({1, -2}), interpreter::Tensor::fromDoubles(interpreter::ElementKind::F32, {2, kSteps}, x)});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].toDoubles(), (std::vector<double>{all[0], all[kSteps]}));
  EXPECT_EQ(results[1].toDoubles(), all);
}
} // namespace
