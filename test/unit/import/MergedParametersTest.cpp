// Tensors that an exporter has merged become parameters of their modules again; and graphs within the graph.
#include "OnnxTesting.h"
#include "dialects/Hyc/HycDialect.h"

using namespace hyc;
using namespace hyc::onnx;

namespace {
std::vector<std::string> parametersOf(Imported &imported) {
  std::vector<std::string> names;
  for (ParamOp param : imported.module->getOps<ParamOp>())
    names.push_back(param.getSymName().str());
  std::sort(names.begin(), names.end());
  return names;
}

/// Two norms whose scale is one tensor, and a third in the first one's module.
ModelBuilder twoNorms(const std::vector<float> &scale) {
  ModelBuilder model;
  model.input("x", kF32, {2, 4});
  model.floats("h.0.norm.weight", {4}, scale);
  model.node("LayerNormalization", {"x", "h.0.norm.weight"}, {"a"}).set_name("/h.0/norm/LayerNormalization");
  model.node("LayerNormalization", {"a", "h.0.norm.weight"}, {"b"}).set_name("/h.1/norm/LayerNormalization");
  model.node("LayerNormalization", {"b", "h.0.norm.weight"}, {"y"}).set_name("/h.0/norm/LayerNormalization_1");
  model.output("y");
  return model;
}

using Names = std::vector<std::string>;

TEST(MergedParameters, of_one_value_are_each_modules_own) {
  Imported imported = importModel(twoNorms({1, 1, 1, 1}));
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_EQ(parametersOf(imported), (Names{"h.0.norm.weight", "h.1.norm.weight"}));
  ASSERT_FALSE(imported.warnings.empty());
  EXPECT_NE(imported.warnings[0].find("--keep-merged"), std::string::npos) << imported.warnings[0];
}

TEST(MergedParameters, stay_one_where_asked) {
  ImportOptions options;
  options.keepsMerged = true;
  Imported imported = importModel(twoNorms({1, 1, 1, 1}), options);
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_EQ(parametersOf(imported), (Names{"h.0.norm.weight"}));
}

TEST(MergedParameters, of_several_values_are_shared_on_purpose) {
  Imported imported = importModel(twoNorms({1, 2, 1, 1}));
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_EQ(parametersOf(imported), (Names{"h.0.norm.weight"}));
}

onnxfile::Graph &addGraph(onnxfile::Node &node, const std::string &name) {
  onnxfile::Attribute *attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(5);
  return *attribute->mutable_g();
}

void addNode(onnxfile::Graph &graph, const std::string &type, const std::vector<std::string> &inputs,
             const std::string &output) {
  onnxfile::Node &node = *graph.add_node();
  node.set_op_type(type);
  for (const std::string &input : inputs)
    node.add_input(input);
  node.add_output(output);
}

/// y = c ? log(x) : -x, whose condition is an input.
ModelBuilder branches() {
  ModelBuilder model;
  model.input("c", kBool, {1});
  model.input("x", kF32, {2});
  onnxfile::Node &node = model.node("If", {"c"}, {"y"});
  for (auto [name, op] : {std::pair("then_branch", "Log"), {"else_branch", "Neg"}}) {
    onnxfile::Graph &graph = addGraph(node, name);
    addNode(graph, op, {"x"}, "inner");
    graph.add_output()->set_name("inner");
  }
  model.output("y");
  return model;
}

TEST(Branches, whose_condition_is_computed_are_both_computed) {
  for (bool isTaken : {true, false}) {
    Imported imported = importModel(branches());
    ASSERT_TRUE(imported) << imported.allErrors();
    auto condition = interpreter::Tensor::fromDoubles(interpreter::ElementKind::I1, {1}, {isTaken ? 1.0 : 0.0});
    auto x = interpreter::Tensor::fromDoubles(interpreter::ElementKind::F32, {2}, {1, 1});
    auto results = execute(imported, {condition, x});
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(results[0].toDoubles(), isTaken ? (std::vector<double>{0, 0}) : (std::vector<double>{-1, -1}));
  }
}

/// Doubles x as long as the condition holds that its body gives.
ModelBuilder loop(int64_t steps, bool countsByConstants) {
  ModelBuilder model;
  model.input("x", kF32, {2});
  model.integers("steps", {}, {steps});
  onnxfile::Node &node = model.node("Loop", {countsByConstants ? "steps" : "", "", "x"}, {"y"});
  onnxfile::Graph &graph = addGraph(node, "body");
  for (const char *input : {"i", "goes_on", "h"})
    graph.add_input()->set_name(input);
  addNode(graph, "Add", {"h", "h"}, "twice");
  addNode(graph, "ReduceMax", {"twice"}, "largest");
  addNode(graph, "Less", {"largest", "largest"}, "is_less");
  addNode(graph, "Identity", {"goes_on"}, "still");
  graph.add_output()->set_name(countsByConstants ? "still" : "is_less");
  graph.add_output()->set_name("twice");
  model.output("y");
  return model;
}

TEST(Loops, are_written_out) {
  EXPECT_EQ(evaluate(loop(3, true), {interpreter::Tensor::fromDoubles(interpreter::ElementKind::F32, {2}, {1, 3})}),
            (std::vector<double>{8, 24}));
}

TEST(Loops, that_values_end_are_refused) {
  expectError(importModel(loop(3, false)), {"Loop", "known only when it runs"});
}

TEST(Loops, of_too_many_steps_are_refused) {
  expectError(importModel(loop(int64_t(1) << 40, true)), {"more than 131072 nodes"});
}
} // namespace
