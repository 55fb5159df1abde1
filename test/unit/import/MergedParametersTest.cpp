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

//===----------------------------------------------------------------------===//
// What the dynamo exporter notes
//===----------------------------------------------------------------------===//

void note(google::protobuf::RepeatedPtrField<onnxfile::Entry> &metadata, const std::string &key,
          const std::string &value) {
  onnxfile::Entry &entry = *metadata.Add();
  entry.set_key(key);
  entry.set_value(value);
}

/// The parameters of the program, as its signature lists them.
void declare(ModelBuilder &model, const std::vector<std::string> &parameters) {
  std::string text = "# inputs\nx: USER_INPUT\n";
  for (std::string name : parameters) {
    const std::string target = name;
    std::replace(name.begin(), name.end(), '.', '_');
    text += "p_" + name + ": PARAMETER target='" + target + "'\n";
  }
  note(*model.graph().mutable_metadata(), "pkg.torch.export.ExportedProgram.graph_signature", text);
}

/// That a node belongs to `module`, and was a call of `target` with `arguments`.
void trace(onnxfile::Node &node, const std::string &module, const std::string &target, const std::string &arguments) {
  note(*node.mutable_metadata(), "pkg.torch.onnx.name_scopes", "['', '" + module + "', 'node']");
  note(*node.mutable_metadata(), "pkg.torch.onnx.fx_node",
       "%node : [num_users=1] = call_function[target=torch.ops." + target + "](args = (" + arguments +
           "), kwargs = {})");
}

/// A product whose bias of zeros is gone, in front of another that has one.
ModelBuilder withoutBias() {
  ModelBuilder model;
  model.input("x", kF32, {2, 3});
  model.floats("a.weight", {4, 3}, std::vector<float>(12, 0.5f));
  declare(model, {"a.weight", "a.bias"});
  onnxfile::Node &node = model.node("Gemm", {"x", "a.weight"}, {"y"});
  ModelBuilder::setInt(node, "transB", 1);
  trace(node, "a", "aten.linear.default", "%x, %p_a_weight, %p_a_bias");
  model.output("y");
  return model;
}

TEST(DroppedParameters, biases_are_put_back) {
  Imported imported = importModel(withoutBias());
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_EQ(parametersOf(imported), (Names{"a.bias", "a.weight"}));
  EXPECT_EQ(imported.warnings, Names{});
  auto bias = imported.module->lookupSymbol<ParamOp>("a.bias");
  EXPECT_EQ(bias.getTensorType().getShape(), llvm::ArrayRef<int64_t>({4}));
  EXPECT_FALSE(bias.getFrozen());
  EXPECT_EQ(mlir::cast<FillAttr>(bias.getInit()).getValue().getValueAsDouble(), 0);
}

TEST(DroppedParameters, that_no_node_has_a_place_for_are_told_of) {
  ModelBuilder model = withoutBias();
  note(*model.graph().mutable_metadata(), "other", "text");
  model.graph().mutable_metadata(0)->mutable_value()->append("p_b_scale: PARAMETER target='b.scale'\n");
  trace(model.node("Neg", {"y"}, {"z"}), "b", "aten.mul.Tensor", "%linear, %p_b_scale");
  model.output("z");
  Imported imported = importModel(model);
  ASSERT_TRUE(imported) << imported.allErrors();
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_NE(imported.warnings[0].find("\"b.scale\" away"), std::string::npos) << imported.warnings[0];
}

/// A tensor of two values that two modules read, the second one under `argument`.
ModelBuilder twoReaders(const std::string &argument) {
  ModelBuilder model;
  model.input("x", kF32, {2});
  model.floats("h.0.decay", {2}, {1, 2});
  declare(model, {"h.0.decay", "h.1.decay"});
  trace(model.node("Mul", {"x", "h.0.decay"}, {"a"}), "h.0", "aten.mul.Tensor", "%x, %p_h_0_decay");
  trace(model.node("Mul", {"a", "h.0.decay"}, {"y"}), "h.1", "aten.mul.Tensor", "%a, " + argument);
  model.output("y");
  return model;
}

TEST(MergedParameters, of_several_values_are_apart_where_the_program_had_one_for_each) {
  for (const char *argument : {"%p_h_1_decay", "%exp_1"}) {
    Imported imported = importModel(twoReaders(argument));
    ASSERT_TRUE(imported) << imported.allErrors();
    EXPECT_EQ(parametersOf(imported), (Names{"h.0.decay", "h.1.decay"})) << argument;
  }
}

TEST(MergedParameters, of_several_values_that_are_tied_stay_one) {
  Imported imported = importModel(twoReaders("%p_h_0_decay"));
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_EQ(parametersOf(imported), (Names{"h.0.decay"}));
}

/// Parameters of a graph in which module `first` reads a tensor under its own name, and module `second` the same
/// tensor, which the program had as `other`.
Names namesOfTwo(const std::string &first, const std::string &name, const std::string &second, const std::string &other,
                 const std::vector<float> &values) {
  auto argument = [](std::string of) {
    std::replace(of.begin(), of.end(), '.', '_');
    return "%p_" + of;
  };
  ModelBuilder model;
  model.input("x", kF32, {2});
  model.floats(name, {2}, values);
  declare(model, {name, other});
  trace(model.node("Mul", {"x", name}, {"a"}), first, "aten.mul.Tensor", "%x, " + argument(name));
  trace(model.node("Mul", {"a", name}, {"y"}), second, "aten.mul.Tensor", "%a, " + argument(other));
  model.output("y");
  Imported imported = importModel(model);
  EXPECT_TRUE(imported) << imported.allErrors();
  return imported ? parametersOf(imported) : Names();
}

/// As in nn.MultiheadAttention, which reads the weight of a linear layer inside it.
TEST(MergedParameters, are_named_as_inside_the_module_that_reads_them) {
  EXPECT_EQ(namesOfTwo("h.0.attn", "h.0.attn.out.decay", "h.1.attn", "h.1.attn.out.decay", {1, 2}),
            (Names{"h.0.attn.out.decay", "h.1.attn.out.decay"}));
}

/// Of readers of unequal depth the path inside one says nothing of another: the last word does.
TEST(MergedParameters, are_named_by_their_last_word_where_the_program_has_no_longer_name) {
  EXPECT_EQ(namesOfTwo("enc", "enc.a.bias", "dec.a", "dec.a.bias", {0, 0}), (Names{"dec.a.bias", "enc.a.bias"}));
}

/// A bias of zeros whose halves two modules read, of one node that belongs to neither.
TEST(MergedParameters, are_apart_where_what_is_computed_of_them_was_merged_too) {
  ModelBuilder model;
  model.input("x", kF32, {2});
  model.floats("h.0.bias", {4}, {0, 0, 0, 0});
  declare(model, {"h.0.bias", "h.1.bias"});
  model.node("Split", {"h.0.bias"}, {"low", "high"});
  trace(model.node("Add", {"x", "low"}, {"a"}), "h.0", "aten.linear.default", "%x, %w, %getitem");
  trace(model.node("Add", {"a", "low"}, {"b"}), "h.1", "aten.linear.default", "%a, %w, %getitem_2");
  trace(model.node("Add", {"b", "high"}, {"y"}), "h.1", "aten.linear.default", "%b, %w, %getitem_3");
  model.output("y");
  Imported imported = importModel(model);
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_EQ(parametersOf(imported), (Names{"h.0.bias", "h.1.bias"}));
}

/// Rows of a table, (2,2,2), that the exporter has looked up for two samples.
ModelBuilder lookedUp(const std::vector<float> &rows) {
  ModelBuilder model;
  model.input("x", kF32, {2, 2, 2});
  model.floats("embedding", {2, 2, 2}, rows);
  declare(model, {"positions.weight"});
  onnxfile::Value &value = *model.graph().add_value_info();
  value.set_name("embedding");
  note(*value.mutable_metadata(), "pkg.onnxscript.optimizer.folded_from", "['cumsum', 'positions.weight']");
  model.node("Add", {"x", "embedding"}, {"y"});
  model.output("y");
  return model;
}

TEST(FoldedParameters, of_all_samples_are_one_tables_rows) {
  for (float last : {4.0f, 5.0f}) {
    Imported imported = importModel(lookedUp({1, 2, 3, 4, 1, 2, 3, last}));
    ASSERT_TRUE(imported) << imported.allErrors();
    auto table = imported.module->lookupSymbol<ParamOp>("positions.weight");
    ASSERT_TRUE(table);
    EXPECT_EQ(table.getTensorType().getRank(), last == 4 ? 2 : 3);
  }
}

onnxfile::Graph &addGraph(onnxfile::Node &node, const std::string &name) {
  onnxfile::Attribute *attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(5);
  return *attribute->mutable_g();
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
