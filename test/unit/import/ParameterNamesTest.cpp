// Which tensors of a file are parameters, and under which names: what PyTorch's exporters leave of a module's state.
#include "OnnxTesting.h"
#include "dialects/Hyc/HycDialect.h"

using namespace hyc;
using namespace hyc::onnx;
using Names = std::vector<std::string>;

namespace {
Names parametersOf(Imported &imported) {
  Names names;
  for (ParamOp param : imported.module->getOps<ParamOp>())
    names.push_back(param.getSymName().str());
  std::sort(names.begin(), names.end());
  return names;
}

//===----------------------------------------------------------------------===//
// Of one element
//===----------------------------------------------------------------------===//

/// A vector times, or plus, one number of a name.
Imported withNumber(const std::string &producer, const std::string &name, const std::string &op = "Mul") {
  ModelBuilder model;
  model.model.set_producer_name(producer);
  model.input("x", kF32, {2});
  model.floats(name, {}, {3});
  model.node(op, {"x", name}, {"y"}).set_name("/" + op);
  model.output("y");
  return importModel(model);
}

TEST(ParametersOfOneElement, are_those_of_modules) {
  for (const char *name : {"logit_scale", "head.temperature", "head.bias", "reconstruction.bias"}) {
    Imported imported = withNumber("pytorch", name);
    ASSERT_TRUE(imported) << imported.allErrors();
    EXPECT_EQ(parametersOf(imported), Names{name});
  }
  Imported imported = withNumber("another", "head.bias", "Add");
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_EQ(parametersOf(imported), Names{"head.bias"});
}

TEST(ParametersOfOneElement, are_not_exporters_constants) {
  for (auto [producer, name] : {std::pair("pytorch", "/act/Constant_3_output_0"),
                                {"pytorch", "onnx::Mul_12"},
                                {"pytorch", "val_12"},
                                {"pytorch", "12"},
                                {"pytorch", "_lifted_tensor_constant0"},
                                {"tf2onnx", "norm/batchnorm/add/y:0"},
                                {"tf2onnx", "const_fold_opt__12"},
                                {"paddle", "p2o.helper.constant.0"},
                                {"", "epsilon"}}) {
    Imported imported = withNumber(producer, name);
    ASSERT_TRUE(imported) << imported.allErrors();
    EXPECT_EQ(parametersOf(imported), Names{}) << name;
    EXPECT_EQ(imported.warnings, Names{}) << name;
  }
  Imported imported = withNumber("pytorch", "attn.masked_bias_value", "Max");
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_EQ(parametersOf(imported), Names{});
}

TEST(ParametersOfOneElement, are_what_operators_have_as_weights) {
  ModelBuilder model;
  model.model.set_producer_name("another");
  model.input("x", kF32, {2, 3});
  model.floats("w", {3, 1}, {1, 2, 3});
  model.floats("b", {1}, {1});
  model.floats("slope", {1}, {0.25});
  model.node("Gemm", {"x", "w", "b"}, {"z"});
  model.node("PRelu", {"z", "slope"}, {"y"});
  model.output("y");
  Imported imported = importModel(model);
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_EQ(parametersOf(imported), (Names{"b", "slope", "w"}));
}

//===----------------------------------------------------------------------===//
// With names that the legacy exporter made up
//===----------------------------------------------------------------------===//

TEST(GeneratedNames, of_constants_are_told_of) {
  ModelBuilder model;
  model.model.set_producer_name("pytorch");
  model.input("x", kF32, {1, 2});
  model.floats("onnx::Mul_12", {2}, {1, 2});
  model.node("Mul", {"x", "onnx::Mul_12"}, {"y"}).set_name("/Mul");
  model.output("y");
  Imported imported = importModel(model);
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_EQ(parametersOf(imported), Names{});
  ASSERT_EQ(imported.warnings.size(), 1u);
  for (const char *part : {"\"onnx::Mul_12\"", "do_constant_folding=False"})
    EXPECT_NE(imported.warnings[0].find(part), std::string::npos) << imported.warnings[0];
}

/// As torch.onnx.export writes an LSTM: its gates in ONNX's order, in tensors that it has put together.
TEST(GeneratedNames, of_recurrent_layers_are_parameters) {
  ModelBuilder model;
  model.model.set_producer_name("pytorch");
  model.input("x", kF32, {2, 1, 3});
  model.floats("onnx::LSTM_10", {1, 12, 3}, std::vector<float>(36, 0.5f));
  model.floats("onnx::LSTM_11", {1, 12, 3}, std::vector<float>(36, 0.25f));
  model.floats("onnx::LSTM_12", {1, 24}, std::vector<float>(24, 0.125f));
  model.floats("onnx::LSTM_13", {1, 1, 3}, std::vector<float>(3, 0));
  const std::vector<std::string> inputs{"onnx::LSTM_10", "onnx::LSTM_11", "onnx::LSTM_12", "", "onnx::LSTM_13"};
  for (const char *layer : {"", "_1"}) {
    std::vector<std::string> all{*layer ? "h" : "x"};
    all.insert(all.end(), inputs.begin(), inputs.end());
    onnxfile::Node &node = model.node("LSTM", all, {std::string("y") + layer});
    node.set_name("/lstm/LSTM" + std::string(layer));
    ModelBuilder::setInt(node, "hidden_size", 3);
    if (!*layer) {
      model.integers("one", {1}, {1});
      ModelBuilder::setInt(model.node("ReduceSum", {"y", "one"}, {"h"}), "keepdims", 0);
    }
  }
  model.output("y_1");
  Imported imported = importModel(model);
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_EQ(parametersOf(imported), (Names{"lstm.B", "lstm.R", "lstm.W"}));
  EXPECT_EQ(imported.warnings, Names{});
}

//===----------------------------------------------------------------------===//
// Cut by the dynamo exporter
//===----------------------------------------------------------------------===//

void note(google::protobuf::RepeatedPtrField<onnxfile::Entry> &metadata, const std::string &key,
          const std::string &value) {
  onnxfile::Entry &entry = *metadata.Add();
  entry.set_key(key);
  entry.set_value(value);
}

/// x of 6 rows plus what is left of a table "p", and y of 2 rows of x plus the rest of it.
ModelBuilder cut(const std::vector<float> &first, const std::vector<float> &second) {
  ModelBuilder model;
  model.input("x", kF32, {6, 2});
  note(*model.graph().mutable_metadata(), "pkg.torch.export.ExportedProgram.graph_signature",
       "p_p: PARAMETER target='p'\n");
  auto rows = [](const std::vector<float> &values) { return static_cast<int64_t>(values.size()) / 2; };
  for (auto [name, values] : {std::pair("slice_1", &first), {"slice_2", &second}}) {
    model.floats(name, {rows(*values), 2}, *values);
    onnxfile::Value &value = *model.graph().add_value_info();
    value.set_name(name);
    note(*value.mutable_metadata(), "pkg.onnxscript.optimizer.folded_from", "['p']");
  }
  model.integers("start", {1}, {0});
  model.integers("end", {1}, {rows(first)});
  model.node("Slice", {"x", "start", "end", "start"}, {"few"});
  model.node("Add", {"few", "slice_1"}, {"a"});
  model.integers("end_2", {1}, {rows(second)});
  model.node("Slice", {"x", "start", "end_2", "start"}, {"many"});
  model.node("Add", {"many", "slice_2"}, {"b"});
  model.output("a");
  model.output("b");
  return model;
}

TEST(CutParameters, are_slices_of_the_longest) {
  TemporaryFolder folder;
  Imported imported = importBytes(folder, cut({3, 4, 5, 6}, {1, 2, 3, 4, 5, 6, 7, 8}).bytes());
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_EQ(parametersOf(imported), Names{"p"});
  EXPECT_EQ(imported.warnings, Names{});
  auto zeros = interpreter::Tensor::fromDoubles(interpreter::ElementKind::F32, {6, 2}, std::vector<double>(12, 0));
  auto results = execute(imported, {zeros}, folder.path);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].toDoubles(), (std::vector<double>{3, 4, 5, 6}));
  EXPECT_EQ(results[1].toDoubles(), (std::vector<double>{1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST(CutParameters, that_overlap_only_in_part_are_told_of) {
  Imported imported = importModel(cut({1, 2, 3, 4}, {3, 4, 5, 6, 7, 8}));
  ASSERT_TRUE(imported) << imported.allErrors();
  EXPECT_EQ(parametersOf(imported), (Names{"p", "p.1"}));
  ASSERT_EQ(imported.warnings.size(), 1u);
  EXPECT_NE(imported.warnings[0].find("made of \"p\" several tensors that share values"), std::string::npos)
      << imported.warnings[0];
}

/// As the three parts of an attention's weight are.
TEST(CutParameters, that_share_nothing_are_several) {
  for (const std::vector<float> &second : {std::vector<float>{5, 6, 7, 8, 9, 10}, std::vector<float>(6, 0)}) {
    Imported imported = importModel(cut({1, 2, 3, 4}, second));
    ASSERT_TRUE(imported) << imported.allErrors();
    EXPECT_EQ(parametersOf(imported), (Names{"p", "p.1"}));
    EXPECT_EQ(imported.warnings, Names{});
  }
}
} // namespace
