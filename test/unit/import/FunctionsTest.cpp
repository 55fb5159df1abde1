// Local functions, which are written out where they are called, and inputs that are known when compiling.
#include "OnnxTesting.h"

using namespace hyc;
using namespace hyc::onnx;
using Values = std::vector<double>;

namespace {
onnxfile::Node &addNode(onnxfile::Function &function, const std::string &type, const std::vector<std::string> &inputs,
                        const std::string &output) {
  onnxfile::Node &node = *function.add_node();
  node.set_op_type(type);
  node.set_name(output);
  for (const std::string &input : inputs)
    node.add_input(input);
  node.add_output(output);
  return node;
}

onnxfile::Function &addFunction(ModelBuilder &model, const std::string &name, const std::vector<std::string> &inputs,
                                const std::string &output) {
  onnxfile::Function &function = *model.model.add_functions();
  function.set_name(name);
  function.set_domain("local");
  for (const std::string &input : inputs)
    function.add_input(input);
  function.add_output(output);
  return function;
}

interpreter::Tensor f32(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<double> values) {
  return interpreter::Tensor::fromDoubles(interpreter::ElementKind::F32, shape, values);
}

/// twice(a) = a + a; shifted(a, b) = twice(a) - b, along `axis` summed.
ModelBuilder makeModel() {
  ModelBuilder model;
  onnxfile::Function &twice = addFunction(model, "twice", {"a"}, "r");
  addNode(twice, "Add", {"a", "a"}, "r");
  onnxfile::Function &shifted = addFunction(model, "shifted", {"a", "b"}, "r");
  addNode(shifted, "twice", {"a"}, "t").set_domain("local");
  addNode(shifted, "Sub", {"t", "b"}, "r");
  model.input("x", kF32, {3});
  model.input("y", kF32, {3});
  model.node("shifted", {"x", "y"}, {"u"}).set_domain("local");
  model.node("shifted", {"u", "x"}, {"v"}).set_domain("local");
  model.output("v");
  return model;
}

TEST(Functions, are_written_out_wherever_they_are_called) {
  // 2 (2x - y) - x
  EXPECT_EQ(evaluate(makeModel(), {f32({3}, {1, 2, 3}), f32({3}, {5, -1, 0})}), (Values{-7, 8, 9}));
}

TEST(Functions, take_attributes_from_their_call_or_their_default) {
  for (bool isGiven : {false, true}) {
    ModelBuilder model;
    onnxfile::Function &sum = addFunction(model, "leaky", {"a"}, "r");
    onnxfile::Attribute &slope = *addNode(sum, "LeakyRelu", {"a"}, "r").add_attribute();
    slope.set_name("alpha");
    slope.set_type(1);
    slope.set_function_attribute("slope");
    onnxfile::Attribute &otherwise = *sum.add_attribute_default();
    otherwise.set_name("slope");
    otherwise.set_type(1);
    otherwise.set_f(0.5);
    model.input("x", kF32, {2});
    onnxfile::Node &call = model.node("leaky", {"x"}, {"y"});
    call.set_domain("local");
    if (isGiven)
      ModelBuilder::setFloat(call, "slope", 0.25);
    model.output("y");
    EXPECT_EQ(evaluate(model, {f32({2}, {-4, 3})}), (Values{isGiven ? -1.0 : -2.0, 3}));
  }
}

TEST(Functions, that_give_an_input_back_are_an_identity) {
  ModelBuilder model;
  addFunction(model, "same", {"a"}, "a");
  model.input("x", kF32, {2});
  model.node("same", {"x"}, {"y"}).set_domain("local");
  model.output("y");
  EXPECT_EQ(evaluate(model, {f32({2}, {7, 8})}), (Values{7, 8}));
}

TEST(Functions, that_call_themselves_are_refused) {
  ModelBuilder model;
  onnxfile::Function &endless = addFunction(model, "endless", {"a"}, "r");
  addNode(endless, "endless", {"a"}, "r").set_domain("local");
  model.input("x", kF32, {2});
  model.node("endless", {"x"}, {"y"}).set_domain("local");
  model.output("y");
  expectError(importModel(model), {"\"endless\"", "calls itself"});
}

/// Forty functions, each calling the next ten times: no node is left, but the calls would take for ever.
TEST(Functions, that_call_others_for_ever_without_a_node_are_refused) {
  ModelBuilder model;
  for (int i = 0; i < 40; ++i) {
    onnxfile::Function &function = addFunction(model, "f" + std::to_string(i), {"a"}, "a");
    for (int call = 0; call < 10 && i > 0; ++call)
      addNode(function, "f" + std::to_string(i - 1), {"a"}, "r" + std::to_string(call)).set_domain("local");
  }
  model.input("x", kF32, {2});
  model.node("f39", {"x"}, {"y"}).set_domain("local");
  model.output("y");
  expectError(importModel(model), {"more than 131072 nodes and calls"});
}

/// A node with a value of 1 MiB in a function that is called 2^16 times would take 64 GiB.
TEST(Functions, that_repeat_a_large_node_are_refused) {
  ModelBuilder model;
  onnxfile::Node &large = addNode(addFunction(model, "f0", {"a"}, "r"), "Neg", {"a"}, "r");
  onnxfile::Attribute &note = *large.add_attribute();
  note.set_name("note");
  note.set_type(3);
  note.set_s(std::string(1 << 20, 'n'));
  for (int i = 1; i <= 16; ++i) {
    onnxfile::Function &function = addFunction(model, "f" + std::to_string(i), {"a"}, "r");
    std::string before = "f" + std::to_string(i - 1);
    addNode(function, before, {"a"}, "t").set_domain("local");
    addNode(function, before, {"t"}, "r").set_domain("local");
  }
  model.input("x", kF32, {2});
  model.node("f16", {"x"}, {"y"}).set_domain("local");
  model.output("y");
  expectError(importModel(model), {"take more than 64 MiB and 4 times its own size"});
}

/// Each of thirty functions calls the one before it twice.
TEST(Functions, that_would_make_too_many_nodes_are_refused) {
  ModelBuilder model;
  addNode(addFunction(model, "f0", {"a"}, "r"), "Neg", {"a"}, "r");
  for (int i = 1; i <= 30; ++i) {
    onnxfile::Function &function = addFunction(model, "f" + std::to_string(i), {"a"}, "r");
    std::string before = "f" + std::to_string(i - 1);
    addNode(function, before, {"a"}, "t").set_domain("local");
    addNode(function, before, {"t"}, "r").set_domain("local");
  }
  model.input("x", kF32, {2});
  model.node("f30", {"x"}, {"y"}).set_domain("local");
  model.output("y");
  expectError(importModel(model), {"more than 131072 nodes"});
}

TEST(Functions, of_another_operator_set_are_refused) {
  ModelBuilder model = makeModel();
  model.model.mutable_functions(0)->add_opset_import()->set_version(9);
  expectError(importModel(model), {"\"twice\"", "operator set 9", "18"});
}

TEST(InputValues, make_shapes_that_are_inputs_known) {
  ModelBuilder model;
  model.input("x", kF32, {2, 3});
  model.input("shape", kI64, {1});
  model.node("Reshape", {"x", "shape"}, {"y"});
  model.output("y");
  expectError(importModel(model), {"\"shape\"", "when compiling"});
  TemporaryFolder folder;
  onnxfile::Tensor shape;
  shape.set_data_type(kI64);
  shape.add_dims(1);
  shape.add_int64_data(6);
  folder.write("shape.pb", shape.SerializeAsString());
  folder.write("bad.pb", "\xff\xff\xff");
  ImportOptions options;
  options.inputValues["shape"] = (folder / "shape.pb").string();
  Imported imported = importBytes(folder, model.bytes(), options);
  std::vector<interpreter::Tensor> results = execute(imported, {f32({2, 3}, {1, 2, 3, 4, 5, 6})});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].getShape(), llvm::ArrayRef<int64_t>({6}));
  options.inputValues["shape"] = (folder / "bad.pb").string();
  expectError(importBytes(folder, model.bytes(), options), {"bad.pb", "does not hold a tensor"});
}
} // namespace
