// What is wrong with a model is said once, with its place; nothing crashes, and nothing is allocated by a number that
// the model alone vouches for.
#include "OnnxTesting.h"
#include "test/Places.h"
#include <cstring>
#include <fstream>
#include <sstream>

using namespace hyc;
using namespace hyc::onnx;

namespace {
/// y = x · w + b, small enough to be cut at every byte.
ModelBuilder makeLinear() {
  ModelBuilder model;
  model.input("x", kF32, {"batch", 2});
  model.floats("w", {2, 3}, {1, 2, 3, 4, 5, 6});
  model.floats("b", {3}, {0, 0, 1});
  model.node("MatMul", {"x", "w"}, {"product"});
  model.node("Add", {"product", "b"}, {"y"});
  model.output("y");
  return model;
}

ImportOptions withBatch(int64_t batch) {
  ImportOptions options;
  options.batch = batch;
  return options;
}

std::string readBytes(const std::string &path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

//===----------------------------------------------------------------------===//
// 1: files that end early
//===----------------------------------------------------------------------===//

TEST(TruncatedModel, is_refused_at_every_byte) {
  TemporaryFolder folder;
  std::string bytes = makeLinear().bytes();
  ASSERT_TRUE(importBytes(folder, bytes, withBatch(2)));
  for (size_t size = 0; size < bytes.size(); ++size) {
    Imported imported = importBytes(folder, bytes.substr(0, size), withBatch(2));
    EXPECT_FALSE(imported) << "cut at " << size;
    EXPECT_NE(imported.allErrors().find("not a valid ONNX model"), std::string::npos) << imported.allErrors();
    EXPECT_NE(imported.allErrors().find("byte " + std::to_string(size)), std::string::npos)
        << "cut at " << size << ": " << imported.allErrors();
  }
}

TEST(TruncatedModel, of_an_exporter_is_refused_anywhere) {
  TemporaryFolder folder;
  std::string bytes = readBytes(hyc::places::model("gpt2-plain.onnx"));
  ASSERT_GT(bytes.size(), 100000u);
  for (size_t size = 0; size < bytes.size(); size += 997)
    EXPECT_FALSE(importBytes(folder, bytes.substr(0, size), withBatch(1))) << "cut at " << size;
}

TEST(CorruptModel, with_any_byte_changed_never_crashes) {
  TemporaryFolder folder;
  std::string bytes = makeLinear().bytes();
  for (size_t position = 0; position < bytes.size(); ++position)
    for (int change : {0x01, 0x80, 0xff}) {
      std::string corrupt = bytes;
      corrupt[position] = static_cast<char>(corrupt[position] ^ change);
      importBytes(folder, corrupt, withBatch(2)); // expects errors exactly if there is no module
    }
}

TEST(CorruptModel, that_is_not_protobuf_is_refused) {
  TemporaryFolder folder;
  expectError(importBytes(folder, "PK\x03\x04 a zip file, not a model"), {"not a valid ONNX model"});
  expectError(importBytes(folder, std::string(100, '\xff')), {"at byte 10", "more than ten bytes"});
}

TEST(MissingModel, is_an_error) { expectError(importFile("/nonexistent/model.onnx"), {"cannot read the model"}); }

//===----------------------------------------------------------------------===//
// 4: shapes and sizes
//===----------------------------------------------------------------------===//

TEST(TensorSize, must_not_be_negative) {
  ModelBuilder model = makeLinear();
  model.floats("w2", {-1, 3}, {});
  expectError(importModel(model, withBatch(2)), {"\"w2\"", "-1"});
}

TEST(TensorSize, must_be_countable) {
  ModelBuilder model = makeLinear();
  model.floats("w2", {int64_t(1) << 32, int64_t(1) << 32}, {});
  expectError(importModel(model, withBatch(2)), {"\"w2\"", "63 bits"});
}

TEST(TensorSize, must_be_that_of_its_bytes) {
  ModelBuilder model = makeLinear();
  model.floats("w2", {2, 3}, {1, 2, 3, 4, 5});
  expectError(importModel(model, withBatch(2)), {"\"w2\"", "20 bytes", "expected 24"});
}

TEST(TensorSize, must_be_that_of_its_listed_values) {
  ModelBuilder model = makeLinear();
  onnxfile::Tensor &tensor = model.integers("n", {4}, {});
  tensor.clear_raw_data();
  tensor.add_int64_data(1);
  expectError(importModel(model, withBatch(2)), {"\"n\"", "1 values", "expected 4"});
}

TEST(TensorSize, of_a_constant_is_checked_too) {
  ModelBuilder model = makeLinear();
  onnxfile::Attribute &value = *model.node("Constant", {}, {"c"}).add_attribute();
  value.set_name("value");
  value.set_type(4);
  value.mutable_t()->set_data_type(kF32);
  value.mutable_t()->add_dims(int64_t(1) << 62);
  value.mutable_t()->set_raw_data("1234");
  expectError(importModel(model, withBatch(2)), {"63 bits"});
}

TEST(TensorSize, of_a_result_must_be_countable) {
  ModelBuilder model;
  model.input("x", kF32, {1});
  model.integers("shape", {3}, {int64_t(1) << 30, int64_t(1) << 30, int64_t(1) << 30});
  model.node("Expand", {"x", "shape"}, {"y"});
  model.output("y");
  expectError(importModel(model), {"\"y\" (Expand)", "63 bits"});
}

TEST(TensorSize, of_a_varying_constant_is_bounded) {
  ModelBuilder model;
  model.integers("count", {}, {int64_t(1) << 50});
  model.integers("zero", {}, {0});
  model.integers("one", {}, {1});
  model.node("Range", {"zero", "count", "one"}, {"y"});
  model.output("y");
  expectError(importModel(model), {"\"y\" (Range)"});
}

/// Small models that asked for 3 GiB and more while they were imported.
TEST(TensorSize, of_the_counts_of_an_average_is_bounded) {
  ModelBuilder model;
  model.input("x", kF32, {2, 3, 2147483647, 8});
  onnxfile::Node &node = model.node("AveragePool", {"x"}, {"y"});
  ModelBuilder::setInts(node, "kernel_shape", {3, 3});
  ModelBuilder::setInts(node, "strides", {2, 2});
  ModelBuilder::setInts(node, "pads", {1, 1, 1, 1});
  model.output("y");
  expectError(importModel(model), {"\"y\" (AveragePool)", "more than 16777216 elements"});
}

TEST(TensorSize, of_what_a_window_slides_over_is_bounded) {
  ModelBuilder model;
  onnxfile::Value &input = *model.graph().add_input();
  input.set_name("x");
  input.mutable_type()->mutable_tensor()->set_element_type(kF32);
  for (int64_t size : {int64_t(2), int64_t(3), int64_t(1) << 40})
    input.mutable_type()->mutable_tensor()->mutable_shape()->add_dim()->set_size(size);
  ModelBuilder::setInts(model.node("AveragePool", {"x"}, {"y"}), "kernel_shape", {3});
  model.output("y");
  expectError(importModel(model), {"size 1099511627776", "at most 2147483648"});
}

/// Only the padding is picked element by element, however long the dimension is.
TEST(TensorSize, of_a_padded_dimension_does_not_matter) {
  for (const char *mode : {"reflect", "edge", "wrap"}) {
    ModelBuilder model;
    onnxfile::Value &input = *model.graph().add_input();
    input.set_name("x");
    input.mutable_type()->mutable_tensor()->set_element_type(kF32);
    input.mutable_type()->mutable_tensor()->mutable_shape()->add_dim()->set_size(int64_t(1) << 40);
    model.integers("pads", {2}, {1, 2});
    onnxfile::Attribute &attribute = *model.node("Pad", {"x", "pads"}, {"y"}).add_attribute();
    attribute.set_name("mode");
    attribute.set_type(3);
    attribute.set_s(mode);
    model.output("y");
    EXPECT_TRUE(importModel(model)) << mode;
  }
}

TEST(TensorSize, of_a_band_of_channels_is_bounded) {
  ModelBuilder model;
  model.input("x", kF32, {1, 4097});
  ModelBuilder::setInt(model.node("LRN", {"x"}, {"y"}), "size", 5);
  model.output("y");
  expectError(importModel(model), {"\"y\" (LRN)", "more than 16777216 elements"});
}

TEST(TensorSize, of_a_varying_sum_is_bounded) {
  ModelBuilder model;
  model.integers("count", {}, {int64_t(1) << 20});
  model.integers("zero", {}, {0});
  model.integers("one", {}, {1});
  model.integers("axis", {1}, {1});
  model.node("Range", {"zero", "count", "one"}, {"row"});
  model.node("Unsqueeze", {"row", "axis"}, {"column"});
  model.node("Add", {"row", "column"}, {"y"});
  model.output("y");
  expectError(importModel(model), {"\"y\" (Add)", "too large"});
}

TEST(TensorSize, of_all_constants_together_is_bounded) {
  // Each of 40 tables has 2^22 different values, and all are needed at the end.
  ModelBuilder model;
  model.integers("count", {}, {int64_t(1) << 11});
  model.integers("zero", {}, {0});
  model.integers("one", {}, {1});
  model.integers("axis", {1}, {1});
  model.node("Range", {"zero", "count", "one"}, {"row"});
  model.node("Unsqueeze", {"row", "axis"}, {"column"});
  std::vector<std::string> tables;
  for (int i = 0; i < 40; ++i) {
    tables.push_back("table" + std::to_string(i));
    model.node("Add", {"row", "column"}, {tables.back()});
  }
  model.node("Sum", tables, {"y"});
  model.output("y");
  expectError(importModel(model), {"(Add)", "too large"});
}

TEST(TensorSize, of_constants_no_longer_needed_does_not_count) {
  ModelBuilder model;
  model.integers("count", {}, {int64_t(1) << 11});
  model.integers("zero", {}, {0});
  model.integers("one", {}, {1});
  model.integers("axis", {1}, {1});
  model.node("Range", {"zero", "count", "one"}, {"row"});
  model.node("Unsqueeze", {"row", "axis"}, {"column"});
  model.node("Add", {"row", "column"}, {"table0"});
  for (int i = 0; i < 40; ++i)
    model.node("Add", {"table" + std::to_string(i), "row"}, {"table" + std::to_string(i + 1)});
  model.node("Shape", {"table40"}, {"y"});
  model.output("y");
  EXPECT_TRUE(importModel(model));
}

TEST(InputSize, must_be_given_and_positive) {
  expectError(importModel(makeLinear()), {"\"x\"", "--dim batch=N"});
  ImportOptions options;
  options.dims["batch"] = 0;
  expectError(importModel(makeLinear(), options), {"--dim batch=0"});
  ModelBuilder model = makeLinear();
  model.graph().mutable_input(0)->mutable_type()->mutable_tensor()->mutable_shape()->mutable_dim(1)->set_size(-7);
  expectError(importModel(model, withBatch(2)), {"\"x\"", "-7"});
}

TEST(DeclaredOutput, must_agree_with_what_is_computed) {
  ModelBuilder model = makeLinear();
  onnxfile::TensorType &type = *model.graph().mutable_output(0)->mutable_type()->mutable_tensor();
  type.set_element_type(kF32);
  type.mutable_shape()->add_dim()->set_size(2);
  type.mutable_shape()->add_dim()->set_size(4);
  expectError(importModel(model, withBatch(2)), {"\"y\"", "declares another shape"});
}

//===----------------------------------------------------------------------===//
// 5: names and operators
//===----------------------------------------------------------------------===//

TEST(Graph, lists_everything_that_is_wrong_once) {
  ModelBuilder model;
  model.input("x", kF32, {2});
  model.node("Frobnicate", {"x"}, {"a"});
  model.node("Frobnicate", {"a"}, {"b"});
  model.node("Jiggle", {"missing"}, {"c"});
  model.node("Add", {"missing", "b"}, {"b"});
  model.node("Add", {"p", "x"}, {"q"});
  model.node("Neg", {"q"}, {"p"});
  model.node("Neg", {"p"}, {"after_the_cycle"});
  model.output("nowhere");
  Imported imported = importModel(model);
  EXPECT_FALSE(imported);
  std::vector<std::vector<std::string>> expected = {
      {"\"Frobnicate\"", "used by \"a\", \"b\""},     {"\"Jiggle\"", "used by \"c\""},
      {"\"b\" is defined twice", "node \"b\" (Add)"}, {"\"missing\" is used by node \"c\" (Jiggle)"},
      {"\"nowhere\" is used by the graph's outputs"}, {"cycle among node \"q\" (Add), node \"p\" (Neg)"},
  };
  ASSERT_EQ(imported.errors.size(), expected.size()) << imported.allErrors();
  for (size_t i = 0; i < expected.size(); ++i)
    for (const std::string &part : expected[i])
      EXPECT_NE(imported.errors[i].find(part), std::string::npos) << "'" << part << "' in: " << imported.errors[i];
  EXPECT_EQ(imported.allErrors().find("after_the_cycle"), std::string::npos);
}

TEST(Graph, with_an_output_without_a_name_is_refused) {
  ModelBuilder model = makeLinear();
  model.output("");
  expectError(importModel(model, withBatch(2)), {"output 1 of the graph has no name"});
}

TEST(Graph, may_list_its_nodes_in_any_order) {
  ModelBuilder model;
  model.input("x", kF32, {2});
  model.node("Neg", {"a"}, {"y"});
  model.node("Neg", {"x"}, {"a"});
  model.output("y");
  EXPECT_TRUE(importModel(model));
}

TEST(Graph, of_a_vendors_domain_is_unknown) {
  ModelBuilder model = makeLinear();
  model.node("MatMul", {"x", "w"}, {"z"}).set_domain("com.vendor");
  expectError(importModel(model, withBatch(2)), {"\"com.vendor::MatMul\"", "\"z\""});
}

TEST(OperatorSet, must_be_supported) {
  for (int64_t opset : {0, 24, 999}) {
    ModelBuilder model(opset);
    model.input("x", kF32, {2});
    model.node("Neg", {"x"}, {"y"});
    model.output("y");
    expectError(importModel(model), {"operator set " + std::to_string(opset), "from 1 to 23"});
  }
}

TEST(Node, with_too_few_inputs_is_refused) {
  ModelBuilder model;
  model.input("x", kF32, {2});
  model.node("Add", {"x"}, {"y"});
  model.output("y");
  expectError(importModel(model), {"\"y\" (Add)", "1 input,", "expected 2"});
}

TEST(Node, that_leaves_out_a_needed_input_is_refused) {
  ModelBuilder model;
  model.input("x", kF32, {2});
  model.node("Add", {"", "x"}, {"y"});
  model.output("y");
  expectError(importModel(model), {"\"y\" (Add)", "leaves out input 0"});
}

TEST(Node, of_unpooling_says_what_is_wrong_with_its_kernel) {
  auto unpool = [](std::vector<int64_t> kernel, int64_t pad) {
    ModelBuilder model;
    model.input("x", kF32, {1, 1, 1, 2});
    model.input("places", kI64, {1, 1, 1, 2});
    onnxfile::Node &node = model.node("MaxUnpool", {"x", "places"}, {"y"});
    auto list = [&node](const char *name, const std::vector<int64_t> &values) {
      onnxfile::Attribute &attribute = *node.add_attribute();
      attribute.set_name(name);
      attribute.set_type(7);
      for (int64_t value : values)
        attribute.add_ints(value);
    };
    if (!kernel.empty())
      list("kernel_shape", kernel);
    list("pads", {0, pad, 0, pad});
    model.output("y");
    return importModel(model);
  };
  expectError(unpool({}, 0), {"'kernel_shape' of 0 numbers, expected one for each spatial dimension"});
  expectError(unpool({1, 1, 1}, 0), {"'kernel_shape' of 3 numbers"});
  expectError(unpool({1, 1}, 5), {"windows that do not fit"});
}

TEST(Node, with_an_attribute_of_another_type_is_refused) {
  ModelBuilder model;
  model.input("x", kF32, {2, 2});
  ModelBuilder::setFloat(model.node("Softmax", {"x"}, {"y"}), "axis", 1);
  model.output("y");
  expectError(importModel(model), {"\"y\" (Softmax)", "'axis'"});
}

TEST(Node, with_shapes_that_do_not_agree_is_refused) {
  ModelBuilder model;
  model.input("x", kF32, {2, 3});
  model.input("y", kF32, {2, 4});
  model.node("Add", {"x", "y"}, {"z"});
  model.output("z");
  expectError(importModel(model), {"\"z\" (Add)", "tensor<2x3xf32>", "tensor<2x4xf32>"});
}

TEST(Node, of_mixed_types_is_refused) {
  ModelBuilder model;
  model.input("x", kF32, {2});
  model.input("y", kI64, {2});
  model.node("Add", {"x", "y"}, {"z"});
  model.output("z");
  expectError(importModel(model), {"\"z\" (Add)", "tensor<2xf32>", "tensor<2xi64>"});
}

//===----------------------------------------------------------------------===//
// 6: nesting
//===----------------------------------------------------------------------===//

TEST(Nesting, by_the_thousands_is_a_depth_error) {
  // Built from the inside out as bytes: a protobuf object of this depth could not even be destroyed safely.
  auto field = [](int number, const std::string &payload) {
    std::string bytes(1, static_cast<char>(number << 3 | 2));
    for (size_t length = payload.size();; length >>= 7) {
      bytes += static_cast<char>((length & 0x7f) | (length > 0x7f ? 0x80 : 0));
      if (length <= 0x7f)
        return bytes + payload;
    }
  };
  std::string graph;
  for (int depth = 0; depth < 5000; ++depth)
    graph = field(1, field(5, field(6, graph))); // graph . node . attribute . graph
  TemporaryFolder folder;
  expectError(importBytes(folder, field(7, graph)), {"nested more than 64 levels deep"});
}

TEST(Nesting, of_a_subgraph_does_not_hide_an_unknown_operator) {
  ModelBuilder model;
  model.input("x", kBool, {1});
  onnxfile::Attribute &branch = *model.node("If", {"x"}, {"y"}).add_attribute();
  branch.set_name("then_branch");
  branch.set_type(5);
  onnxfile::Node &inner = *branch.mutable_g()->add_node();
  inner.set_op_type("Negg");
  inner.set_name("inside");
  model.output("y");
  expectError(importModel(model), {"\"Negg\"", "\"inside\""});
}

TEST(Nesting, of_a_subgraph_does_not_hide_what_nothing_defines) {
  ModelBuilder model;
  model.input("x", kBool, {1});
  onnxfile::Attribute &branch = *model.node("If", {"x"}, {"y"}).add_attribute();
  branch.set_name("then_branch");
  branch.set_type(5);
  onnxfile::Node &inner = *branch.mutable_g()->add_node();
  inner.set_op_type("Neg");
  inner.add_input("nowhere");
  model.output("y");
  expectError(importModel(model), {"\"nowhere\"", "\"y\"", "nothing defines it"});
}

TEST(Nesting, of_a_branch_that_is_missing_is_refused) {
  ModelBuilder model;
  model.input("x", kBool, {1});
  model.node("If", {"x"}, {"y"});
  model.output("y");
  expectError(importModel(model), {"(If)", "then_branch"});
}

//===----------------------------------------------------------------------===//
// 7: names
//===----------------------------------------------------------------------===//

TEST(Name, with_a_nul_byte_or_bad_utf8_is_refused) {
  for (std::string name : {std::string("a\0b", 3), std::string("\xc3\x28"), std::string("\xff")}) {
    ModelBuilder model;
    model.input(name, kF32, {2});
    model.node("Neg", {"x"}, {"y"});
    model.input("x", kF32, {2});
    model.output("y");
    expectError(importModel(model), {"not valid UTF-8 without NUL"});
  }
}

TEST(Name, may_hold_any_letters) {
  ModelBuilder model;
  model.input("größe/ü \"x\"", kF32, {2});
  model.floats("w @\n%", {2}, {1, 2});
  model.node("Mul", {"größe/ü \"x\"", "w @\n%"}, {"y"});
  model.output("y");
  EXPECT_TRUE(importModel(model));
}
} // namespace
