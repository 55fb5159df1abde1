// What each operator means, on values known when compiling and, where it makes sense, on values computed when running.
#include "OnnxTesting.h"
#include "dialects/Hyc/HycDialect.h"

#include <cmath>
#include <limits>

using namespace hyc;
using namespace hyc::onnx;
using Values = std::vector<double>;
using Integers = std::vector<int64_t>;

namespace {
interpreter::Tensor f32(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<double> values) {
  return interpreter::Tensor::fromDoubles(interpreter::ElementKind::F32, shape, values);
}

/// One operator over constant integers.
Values ofIntegers(const std::string &type, const std::vector<std::pair<Integers, Integers>> &operands,
                  const std::vector<std::pair<std::string, int64_t>> &attributes = {}, int64_t opset = 18) {
  ModelBuilder model(opset);
  std::vector<std::string> names;
  for (auto &[shape, values] : operands) {
    names.push_back("c" + std::to_string(names.size()));
    model.integers(names.back(), shape, values);
  }
  onnxfile::Node &node = model.node(type, names, {"y"});
  for (auto &[name, value] : attributes)
    ModelBuilder::setInt(node, name, value);
  model.output("y");
  return evaluate(model);
}

/// One operator whose first operand is an input.
Values ofInput(const std::string &type, const Integers &shape, const Values &values,
               const std::vector<std::pair<Integers, Integers>> &constants = {},
               const std::vector<std::pair<std::string, int64_t>> &attributes = {}, int64_t opset = 18) {
  ModelBuilder model(opset);
  std::vector<ModelBuilder::Dim> dims;
  for (int64_t size : shape)
    dims.push_back(static_cast<int>(size));
  model.input("x", kF32, dims);
  std::vector<std::string> names{"x"};
  for (auto &[constantShape, constantValues] : constants) {
    names.push_back("c" + std::to_string(names.size()));
    model.integers(names.back(), constantShape, constantValues);
  }
  onnxfile::Node &node = model.node(type, names, {"y"});
  for (auto &[name, value] : attributes)
    ModelBuilder::setInt(node, name, value);
  model.output("y");
  return evaluate(model, {f32(shape, values)});
}

void expectNear(const Values &actual, const Values &expected, double tolerance = 1e-6) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i)
    EXPECT_NEAR(actual[i], expected[i], tolerance) << "element " << i;
}

//===----------------------------------------------------------------------===//
// Known when compiling
//===----------------------------------------------------------------------===//

TEST(Constant, arithmetic_broadcasts) {
  EXPECT_EQ(ofIntegers("Add", {{{2, 1}, {10, 20}}, {{3}, {1, 2, 3}}}), (Values{11, 12, 13, 21, 22, 23}));
  EXPECT_EQ(ofIntegers("Div", {{{3}, {7, -7, 8}}, {{}, {2}}}), (Values{3, -3, 4}));
  EXPECT_EQ(ofIntegers("Mod", {{{2}, {-7, 7}}, {{}, {3}}}), (Values{2, 1}));
  EXPECT_EQ(ofIntegers("Pow", {{{2}, {3, -2}}, {{2}, {4, 3}}}), (Values{81, -8}));
  EXPECT_EQ(ofIntegers("Max", {{{2}, {1, 9}}, {{2}, {5, 5}}, {{}, {3}}}), (Values{5, 9}));
}

TEST(Constant, integers_wrap_around) {
  int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(ofIntegers("Sub", {{{1}, {-most}}, {{1}, {most}}}), (Values{2}));
  EXPECT_EQ(ofIntegers("Div", {{{1}, {std::numeric_limits<int64_t>::min()}}, {{1}, {-1}}}),
            (Values{static_cast<double>(std::numeric_limits<int64_t>::min())}));
}

TEST(Constant, comparisons_give_booleans) {
  EXPECT_EQ(ofIntegers("LessOrEqual", {{{3}, {1, 2, 3}}, {{}, {2}}}), (Values{1, 1, 0}));
  EXPECT_EQ(ofIntegers("Equal", {{{3}, {1, 2, 3}}, {{}, {2}}}), (Values{0, 1, 0}));
}

TEST(Constant, shapes_are_cut_and_joined) {
  EXPECT_EQ(ofIntegers("Shape", {{{2, 3, 4}, Integers(24, 0)}}), (Values{2, 3, 4}));
  EXPECT_EQ(ofIntegers("Shape", {{{2, 3, 4}, Integers(24, 0)}}, {{"start", -2}}), (Values{3, 4}));
  EXPECT_EQ(ofIntegers("Shape", {{{2, 3, 4}, Integers(24, 0)}}, {{"start", 2}, {"end", 1}}), Values{});
  EXPECT_EQ(ofIntegers("Concat", {{{1}, {7}}, {{2}, {8, 9}}}, {{"axis", -1}}), (Values{7, 8, 9}));
}

TEST(Constant, slices_count_from_either_end) {
  auto slice = [](int64_t start, int64_t end, int64_t step) {
    return ofIntegers("Slice", {{{5}, {0, 1, 2, 3, 4}}, {{1}, {start}}, {{1}, {end}}, {{1}, {0}}, {{1}, {step}}});
  };
  int64_t most = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(slice(1, most, 1), (Values{1, 2, 3, 4}));
  EXPECT_EQ(slice(least, -1, 1), (Values{0, 1, 2, 3}));
  EXPECT_EQ(slice(-2, most, 1), (Values{3, 4}));
  EXPECT_EQ(slice(0, 5, 3), (Values{0, 3}));
  EXPECT_EQ(slice(most, least, -1), (Values{4, 3, 2, 1, 0}));
  EXPECT_EQ(slice(3, 0, -2), (Values{3, 1}));
  EXPECT_EQ(slice(3, 1, 1), Values{});
}

TEST(Constant, gathers) {
  EXPECT_EQ(ofIntegers("Gather", {{{2, 3}, {1, 2, 3, 4, 5, 6}}, {{2}, {-1, 0}}}, {{"axis", 1}}), (Values{3, 1, 6, 4}));
  EXPECT_EQ(ofIntegers("GatherND", {{{2, 3}, {1, 2, 3, 4, 5, 6}}, {{2, 2}, {0, 2, 1, -3}}}), (Values{3, 4}));
  EXPECT_EQ(ofIntegers("GatherND", {{{2, 2}, {1, 2, 3, 4}}, {{2, 1}, {1, 0}}}, {{"batch_dims", 1}}), (Values{2, 3}));
  EXPECT_EQ(ofIntegers("GatherND", {{{2, 2}, {1, 2, 3, 4}}, {{1, 1}, {1}}}), (Values{3, 4}));
}

TEST(Constant, counts_and_sums) {
  EXPECT_EQ(ofIntegers("Range", {{{}, {5}}, {{}, {0}}, {{}, {-2}}}), (Values{5, 3, 1}));
  EXPECT_EQ(ofIntegers("CumSum", {{{2, 3}, {1, 2, 3, 4, 5, 6}}, {{}, {1}}}), (Values{1, 3, 6, 4, 9, 15}));
  EXPECT_EQ(ofIntegers("CumSum", {{{2, 3}, {1, 2, 3, 4, 5, 6}}, {{}, {0}}}), (Values{1, 2, 3, 5, 7, 9}));
  EXPECT_EQ(ofIntegers("CumSum", {{{3}, {1, 2, 3}}, {{}, {0}}}, {{"exclusive", 1}, {"reverse", 1}}), (Values{5, 3, 0}));
  EXPECT_EQ(ofIntegers("Trilu", {{{2, 3}, {1, 2, 3, 4, 5, 6}}, {{}, {1}}}), (Values{0, 2, 3, 0, 0, 6}));
  EXPECT_EQ(ofIntegers("Trilu", {{{2, 3}, {1, 2, 3, 4, 5, 6}}}, {{"upper", 0}}), (Values{1, 0, 0, 4, 5, 0}));
  EXPECT_EQ(ofIntegers("ReduceSum", {{{2, 3}, {1, 2, 3, 4, 5, 6}}, {{1}, {0}}}, {{"keepdims", 0}}), (Values{5, 7, 9}));
  EXPECT_EQ(ofIntegers("ReduceProd", {{{3}, {2, 3, 4}}}), (Values{24}));
}

TEST(Constant, converts_between_types) {
  ModelBuilder model;
  model.floats("x", {4}, {-1.7f, 0.0f, 2.9f, 1e30f});
  ModelBuilder::setInt(model.node("Cast", {"x"}, {"n"}), "to", kI32);
  ModelBuilder::setInt(model.node("Cast", {"n"}, {"y"}), "to", kBool);
  model.output("y");
  EXPECT_EQ(evaluate(model), (Values{1, 0, 1, 1}));
}

TEST(Constant, integers_of_numbers_that_they_do_not_hold_are_the_nearest) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::pair<int, double> types[] = {{kI32, 0x1p31}, {kI64, 0x1p63}};
  for (auto [type, bound] : types) {
    ModelBuilder model;
    model.floats("x", {6}, {-infinity, -1e30f, -2.9f, nan, 1e30f, infinity});
    ModelBuilder::setInt(model.node("Cast", {"x"}, {"y"}), "to", type);
    model.output("y");
    const double most = type == kI32 ? bound - 1 : bound;
    EXPECT_EQ(evaluate(model), (Values{-bound, -bound, -2, 0, most, most}));
  }
}

TEST(Constant, a_list_of_tensors_gives_one_back) {
  ModelBuilder model;
  model.input("x", kF32, {2, 6});
  model.integers("part", {}, {2});
  model.integers("position", {}, {-2});
  ModelBuilder::setInt(model.node("SplitToSequence", {"x", "part"}, {"parts"}), "axis", 1);
  model.node("SequenceAt", {"parts", "position"}, {"y"});
  model.output("y");
  EXPECT_EQ(evaluate(model, {f32({2, 6}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})}), (Values{2, 3, 8, 9}));
}

TEST(Constant, division_of_an_integer_by_zero_is_refused) {
  ModelBuilder model;
  model.integers("a", {1}, {1});
  model.integers("b", {1}, {0});
  model.node("Div", {"a", "b"}, {"y"});
  model.output("y");
  expectError(importModel(model), {"\"y\" (Div)", "by 0"});
}

TEST(Constant, an_index_outside_is_refused) {
  ModelBuilder model;
  model.integers("a", {3}, {1, 2, 3});
  model.integers("i", {}, {3});
  model.node("Gather", {"a", "i"}, {"y"});
  model.output("y");
  expectError(importModel(model), {"\"y\" (Gather)", "element 3", "size 3"});
}

//===----------------------------------------------------------------------===//
// Computed when running
//===----------------------------------------------------------------------===//

TEST(Running, reshapes_copy_and_infer_dimensions) {
  Values values{0, 1, 2, 3, 4, 5};
  EXPECT_EQ(ofInput("Reshape", {2, 3}, values, {{{2}, {0, -1}}}), values);
  EXPECT_EQ(ofInput("Flatten", {1, 2, 3}, values, {}, {{"axis", 2}}), values);
  EXPECT_EQ(ofInput("Squeeze", {1, 6, 1}, values), values);
  EXPECT_EQ(ofInput("Unsqueeze", {2, 3}, values, {{{2}, {-1, 0}}}), values);
}

TEST(Running, a_reshape_to_another_count_is_refused) {
  ModelBuilder model;
  model.input("x", kF32, {2, 3});
  model.integers("shape", {2}, {4, -1});
  model.node("Reshape", {"x", "shape"}, {"y"});
  model.output("y");
  expectError(importModel(model), {"\"y\" (Reshape)", "tensor<2x3xf32>", "[4, -1]"});
}

TEST(Running, expands_and_transposes) {
  EXPECT_EQ(ofInput("Expand", {2, 1}, {1, 2}, {{{3}, {2, 1, 3}}}), (Values{1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(ofInput("Transpose", {2, 3}, {0, 1, 2, 3, 4, 5}), (Values{0, 3, 1, 4, 2, 5}));
}

TEST(Running, slices_and_gathers_regular_parts) {
  EXPECT_EQ(ofInput("Slice", {6}, {0, 1, 2, 3, 4, 5}, {{{1}, {1}}, {{1}, {6}}, {{1}, {0}}, {{1}, {2}}}),
            (Values{1, 3, 5}));
  EXPECT_EQ(ofInput("Gather", {2, 3}, {0, 1, 2, 3, 4, 5}, {{{}, {-1}}}, {{"axis", 1}}), (Values{2, 5}));
  EXPECT_EQ(ofInput("Gather", {3, 2}, {0, 1, 2, 3, 4, 5}, {{{3}, {2, 0, 2}}}), (Values{4, 5, 0, 1, 4, 5}));
}

TEST(Running, reductions_keep_or_drop_dimensions) {
  EXPECT_EQ(ofInput("ReduceMean", {2, 2}, {1, 3, 5, 7}, {{{1}, {-1}}}), (Values{2, 6}));
  EXPECT_EQ(ofInput("ReduceMax", {2, 2}, {1, 3, 5, 7}, {{{1}, {0}}}, {{"keepdims", 0}}), (Values{5, 7}));
  ModelBuilder model(17); // before 18 the dimensions are an attribute
  model.input("x", kF32, {2, 2});
  ModelBuilder::setInts(model.node("ReduceMean", {"x"}, {"y"}), "axes", {0});
  model.output("y");
  EXPECT_EQ(evaluate(model, {f32({2, 2}, {1, 3, 5, 7})}), (Values{3, 5}));
}

TEST(Running, softmax_runs_along_any_dimension) {
  Values values = ofInput("Softmax", {2, 2}, {0, 1, 0, 3}, {}, {{"axis", 0}});
  expectNear(values, {0.5, 1 / (1 + std::exp(2.0)), 0.5, 1 / (1 + std::exp(-2.0))});
}

TEST(Running, layer_norm_gives_its_statistics) {
  ModelBuilder model;
  model.input("x", kF32, {1, 2, 2});
  model.floats("w", {2, 2}, {1, 1, 2, 2});
  ModelBuilder::setInt(model.node("LayerNormalization", {"x", "w"}, {"y", "mean"}), "axis", 1);
  model.output("y");
  model.output("mean");
  Imported imported;
  TemporaryFolder folder;
  imported = importBytes(folder, model.bytes());
  auto results = execute(imported, {f32({1, 2, 2}, {1, 1, 3, 3})}, folder.path);
  ASSERT_EQ(results.size(), 2u);
  expectNear(results[0].toDoubles(), {-1, -1, 2, 2}, 1e-4);
  EXPECT_EQ(results[1].toDoubles(), Values{2});
  EXPECT_EQ(results[1].getShape(), (llvm::ArrayRef<int64_t>{1, 1, 1}));
}

/// y = a · b for inputs of these shapes, which count 1, 2, 3 …
Values matmul(const Integers &a, const Integers &b) {
  ModelBuilder model;
  std::vector<interpreter::Tensor> arguments;
  for (const Integers &shape : {a, b}) {
    std::vector<ModelBuilder::Dim> dims;
    int64_t count = 1;
    for (int64_t size : shape)
      dims.push_back(static_cast<int>(size)), count *= size;
    Values values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(static_cast<double>(i + 1));
    model.input(arguments.empty() ? "a" : "b", kF32, dims);
    arguments.push_back(f32(shape, values));
  }
  model.node("MatMul", {"a", "b"}, {"y"});
  model.output("y");
  return evaluate(model, arguments);
}

TEST(Running, matmul_batches_as_numpy_does) {
  EXPECT_EQ(matmul({2}, {2}), (Values{5}));
  EXPECT_EQ(matmul({2}, {2, 2}), (Values{7, 10}));
  EXPECT_EQ(matmul({1, 2}, {2}), (Values{5}));
  EXPECT_EQ(matmul({2, 1, 2}, {2, 1}), (Values{5, 11}));
  EXPECT_EQ(matmul({2, 1, 1, 2}, {2, 2, 1}), (Values{5, 11, 11, 25}));
  EXPECT_EQ(matmul({1, 1, 2}, {1, 2, 1}), (Values{5}));
}

TEST(Running, gemm_transposes_scales_and_adds) {
  ModelBuilder model;
  model.input("a", kF32, {2, 1});
  model.input("b", kF32, {3, 2});
  model.floats("c", {2, 1, 3}, {0, 0, 0, 0, 0, 0});
  model.floats("bias", {3}, {1, 2, 3});
  onnxfile::Node &node = model.node("Gemm", {"a", "b", "bias"}, {"y"});
  ModelBuilder::setInt(node, "transA", 1);
  ModelBuilder::setInt(node, "transB", 1);
  ModelBuilder::setFloat(node, "alpha", 2);
  ModelBuilder::setFloat(node, "beta", 10);
  model.output("y");
  EXPECT_EQ(evaluate(model, {f32({2, 1}, {1, 2}), f32({3, 2}, {1, 2, 3, 4, 5, 6})}), (Values{20, 42, 64}));
}

TEST(Running, dropout_drops_in_training_only) {
  struct Case {
    float ratio;
    char training;
    const char *expected; // in the module's text
    bool drops;
  };
  for (const Case &test : {Case{0.5f, '\1', "rate 5.000000e-01", true}, Case{0.1f, '\1', "rate 1.000000e-01", true},
                           Case{0.0f, '\1', "hyc.return", false}, Case{0.5f, '\0', "hyc.return", false}}) {
    ModelBuilder model;
    model.input("x", kF32, {2});
    model.floats("ratio", {}, {test.ratio});
    onnxfile::Tensor &mode = model.integers("mode", {}, {});
    mode.set_data_type(kBool);
    mode.set_raw_data(std::string(1, test.training));
    model.node("Dropout", {"x", "ratio", "mode"}, {"y"});
    model.output("y");
    auto imported = importModel(model);
    ASSERT_TRUE(imported);
    std::string text;
    llvm::raw_string_ostream stream(text);
    imported.module->print(stream);
    EXPECT_NE(text.find(test.expected), std::string::npos) << text;
    EXPECT_EQ(text.find("hyc.dropout") != std::string::npos, test.drops) << text;
  }
}

TEST(Running, dropout_of_everything_is_refused) {
  ModelBuilder model;
  model.input("x", kF32, {2});
  model.floats("ratio", {}, {1.0f});
  onnxfile::Tensor &mode = model.integers("mode", {}, {});
  mode.set_data_type(kBool);
  mode.set_raw_data(std::string(1, '\1'));
  model.node("Dropout", {"x", "ratio", "mode"}, {"y"});
  model.output("y");
  expectError(importModel(model), {"\"y\" (Dropout)", "drops a share of 1"});
}

/// By ONNX's own node tests (test_col2im_pads, _strides, _dilations, _5d).
TEST(Running, windows_are_put_back_and_added_up) {
  auto run = [](const Integers &shape, const Values &values, const Integers &image, const Integers &block,
                const std::string &attribute, llvm::ArrayRef<int64_t> list) {
    ModelBuilder model(18);
    std::vector<ModelBuilder::Dim> dims;
    for (int64_t size : shape)
      dims.push_back(static_cast<int>(size));
    model.input("x", kF32, dims);
    const int64_t rank = static_cast<int64_t>(image.size());
    model.integers("image", {rank}, image);
    model.integers("block", {rank}, block);
    onnxfile::Node &node = model.node("Col2Im", {"x", "image", "block"}, {"y"});
    if (!attribute.empty())
      ModelBuilder::setInts(node, attribute, list);
    model.output("y");
    return evaluate(model, {f32(shape, values)});
  };
  Values padded, spread(20), deep(120), counted(120);
  for (int row = 0; row < 5; ++row)
    for (int column = 0; column < 15; ++column)
      padded.push_back(row + 1 + 5 * column);
  expectNear(
      run({1, 5, 15}, padded, {5, 5}, {1, 5}, "pads", {0, 1, 0, 1}),
      {8, 21, 24, 27, 24, 38, 66, 69, 72, 54, 68, 111, 114, 117, 84, 98, 156, 159, 162, 114, 128, 201, 204, 207, 144});
  expectNear(run({1, 9, 4}, {0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0,
                             0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0},
                 {5, 5}, {3, 3}, "strides", {2, 2}),
             {0, 1, 1, 1, 1, 1, 0, 1, 0, 0, 0, 2, 1, 2, 1, 1, 0, 1, 0, 0, 0, 1, 0, 1, 0});
  for (int i = 0; i < 20; ++i)
    spread[i] = 1 + i / 5 + 4 * (i % 5);
  Values columns(36, 0);
  const Values first{1, 8, 16, 24, 32, 19}, last{2, 10, 18, 26, 34, 20};
  for (int row = 0; row < 6; ++row) {
    columns[6 * row] = first[row];
    columns[6 * row + 5] = last[row];
  }
  expectNear(run({1, 4, 5}, spread, {6, 6}, {2, 2}, "dilations", {1, 5}), columns);
  for (int i = 0; i < 120; ++i) {
    deep[i] = 1 + i / 12 % 5 + 5 * (i % 12) + 60 * (i / 60);
    counted[i] = i + 1;
  }
  expectNear(run({1, 10, 12}, deep, {3, 4, 5}, {1, 1, 5}, "", {}), counted);
}

/// Values that onnx's reference evaluator (1.23.2) gives.
TEST(Running, bits_of_integers_are_combined) {
  const Integers x{5, -5, 0, int64_t(1) << 40}, y{3, 12, -1, 77};
  auto running = [&](const std::string &type, const std::vector<std::pair<std::string, Integers>> &operands) {
    ModelBuilder model;
    std::vector<std::string> names;
    std::vector<interpreter::Tensor> arguments;
    for (const auto &[name, values] : operands) {
      model.input(name, kI64, {4});
      names.push_back(name);
      arguments.push_back(interpreter::Tensor::fromIntegers(interpreter::ElementKind::I64, {4}, values));
    }
    model.node(type, names, {"z"});
    model.output("z");
    return evaluate(model, arguments);
  };
  const std::pair<const char *, Values> rows[] = {{"BitwiseAnd", {1, 8, 0, 0}},
                                                  {"BitwiseOr", {7, -1, -1, 1099511627853}},
                                                  {"BitwiseXor", {6, -9, -1, 1099511627853}},
                                                  {"BitwiseNot", {-6, 4, -1, -1099511627777}}};
  for (const auto &[type, expected] : rows) {
    const bool isOne = type == std::string("BitwiseNot");
    EXPECT_EQ(isOne ? running(type, {{"x", x}}) : running(type, {{"x", x}, {"y", y}}), expected) << type;
    EXPECT_EQ(isOne ? ofIntegers(type, {{{4}, x}}) : ofIntegers(type, {{{4}, x}, {{4}, y}}), expected) << type;
  }
}

/// Scale and bias are of the groups before operator set 21, and of the channels from it on; the values are those of
/// onnx's reference evaluator (1.23.2).
TEST(Running, group_norm_scales_as_its_operator_set_says) {
  const Values expected{-0.031021595, 0.6770072,  2.0930648,  -2.863137,  -0.38503605, 3.5091226,
                        -0.7436931,   -0.7436931, -5.3572187, -3.8193767, 0.79414868,  3.869832};
  auto normalized = [&](int64_t opset, const std::vector<float> &scale, const std::vector<float> &bias) {
    ModelBuilder model(opset);
    model.input("x", kF32, {1, 4, 3});
    model.floats("scale", {static_cast<int64_t>(scale.size())}, scale);
    model.floats("bias", {static_cast<int64_t>(bias.size())}, bias);
    ModelBuilder::setInt(model.node("GroupNormalization", {"x", "scale", "bias"}, {"y"}), "num_groups", 2);
    model.output("y");
    return model;
  };
  const interpreter::Tensor x = f32({1, 4, 3}, {1, 2, 4, -3, 0.5, 6, 2, 2, -1, 0, 3, 5});
  for (int64_t opset : {18, 20})
    expectNear(evaluate(normalized(opset, {2, 3}, {0.5, -1}), {x}), expected, 1e-5);
  expectNear(evaluate(normalized(21, {2, 2, 3, 3}, {0.5, 0.5, -1, -1}), {x}), expected, 1e-5);
  expectError(importModel(normalized(20, {2, 2, 3, 3}, {1, 1, 1, 1})),
              {"has a vector of 4 elements, expected one for each of the 2 groups"});
  expectError(importModel(normalized(21, {2, 3}, {1, 1})),
              {"has a vector of 2 elements, expected one for each of the 4 channels"});
}

TEST(Running, scattered_elements_compete_with_what_is_there) {
  ModelBuilder model;
  model.input("x", kF32, {2, 3});
  model.integers("i", {2, 2}, {0, 0, 2, 1});
  model.floats("u", {2, 2}, {3, 2, 1, 9});
  onnxfile::Node &node = model.node("ScatterElements", {"x", "i", "u"}, {"y"});
  ModelBuilder::setInt(node, "axis", 1);
  ModelBuilder::setText(node, "reduction", "max");
  model.output("y");
  EXPECT_EQ(evaluate(model, {f32({2, 3}, {1, 2, 3, 4, 5, 6})}), (Values{3, 2, 3, 4, 9, 6}));
}

TEST(Running, indices_computed_when_running_may_count_from_the_end) {
  ModelBuilder model;
  model.input("x", kF32, {2, 3, 2});
  model.input("i", kI64, {2});
  ModelBuilder::setInt(model.node("Gather", {"x", "i"}, {"y"}), "axis", 1);
  model.output("y");
  Values data(12);
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<double>(i);
  interpreter::Tensor indices = interpreter::Tensor::fromIntegers(interpreter::ElementKind::I64, {2}, {2, -3});
  EXPECT_EQ(evaluate(model, {f32({2, 3, 2}, data), indices}), (Values{4, 5, 0, 1, 10, 11, 6, 7}));
}

TEST(Running, indices_of_rows_that_are_computed_may_count_from_the_end) {
  for (bool isComputed : {true, false}) {
    ModelBuilder model;
    model.input("i", kI64, {3});
    model.floats("table", {4, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
    model.integers("four", {}, {4});
    if (isComputed)
      model.node("Sub", {"i", "four"}, {"at"});
    model.node("Gather", {"table", isComputed ? "at" : "i"}, {"y"});
    model.output("y");
    TemporaryFolder folder;
    Imported imported = importBytes(folder, model.bytes());
    auto results = execute(imported, {interpreter::Tensor::fromIntegers(interpreter::ElementKind::I64, {3}, {3, 0, 2})},
                           folder.path);
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(results[0].toDoubles(), (Values{6, 7, 0, 1, 4, 5}));
    // What the loader holds to the table is looked up as it is.
    int embeddings = 0, choices = 0;
    imported.module->walk([&](mlir::Operation *op) {
      embeddings += mlir::isa<EmbeddingOp>(op);
      choices += mlir::isa<SelectOp>(op);
    });
    EXPECT_EQ(embeddings, 1);
    EXPECT_EQ(choices, isComputed ? 1 : 0);
  }
}

//===----------------------------------------------------------------------===//
// At the edges: expected is what onnx.reference and numpy compute
//===----------------------------------------------------------------------===//

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Edges, means_of_integers_are_truncated) {
  ModelBuilder model(13);
  model.input("x", kI64, {2, 3});
  ModelBuilder::setInts(model.node("ReduceMean", {"x"}, {"y"}), "axes", {1});
  model.output("y");
  EXPECT_EQ(evaluate(model,
                     {interpreter::Tensor::fromIntegers(interpreter::ElementKind::I64, {2, 3}, {7, 8, 5, -1, -2, -4})}),
            (Values{6, -2}));
}

TEST(Edges, integers_are_raised_to_real_powers_as_reals) {
  auto raised = [](float exponent) {
    ModelBuilder model;
    model.input("x", kI64, {4});
    model.floats("power", {}, {exponent});
    model.node("Pow", {"x", "power"}, {"y"});
    model.output("y");
    return evaluate(model, {interpreter::Tensor::fromIntegers(interpreter::ElementKind::I64, {4}, {4, 9, 10, 1})});
  };
  EXPECT_EQ(raised(0.5f), (Values{2, 3, 3, 1}));
  EXPECT_EQ(raised(1.5f), (Values{8, 27, 31, 1}));
  EXPECT_EQ(raised(-1), (Values{0, 0, 0, 1}));
  EXPECT_EQ(raised(3), (Values{64, 729, 1000, 1}));
}

TEST(Edges, sums_of_exponentials_of_infinities_are_infinite) {
  ModelBuilder model;
  model.input("x", kF32, {4, 2});
  model.integers("axes", {1}, {1});
  ModelBuilder::setInt(model.node("ReduceLogSumExp", {"x", "axes"}, {"y"}), "keepdims", 0);
  model.output("y");
  const Values rows =
      evaluate(model, {f32({4, 2}, {-kInfinity, -kInfinity, kInfinity, 1, -kInfinity, 3, 0, std::log(3.0)})});
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0], -kInfinity);
  EXPECT_EQ(rows[1], kInfinity);
  EXPECT_EQ(rows[2], 3);
  EXPECT_NEAR(rows[3], std::log(4.0), 1e-6);
}

TEST(Edges, extrema_of_rows_with_nan_are_where_the_nan_is) {
  const Values x{1, kNaN, 3, 2, kNaN, kNaN, 4, 4, 1};
  auto places = [&](const std::string &type, int64_t last) {
    return ofInput(type, {3, 3}, x, {}, {{"axis", 1}, {"keepdims", 0}, {"select_last_index", last}});
  };
  EXPECT_EQ(places("ArgMax", 0), (Values{1, 1, 0}));
  EXPECT_EQ(places("ArgMin", 0), (Values{1, 1, 2}));
  EXPECT_EQ(places("ArgMax", 1), (Values{1, 2, 1}));
  EXPECT_EQ(places("ArgMin", 1), (Values{1, 2, 2}));
}

TEST(Edges, neither_infinity_asked_for_is_found) {
  EXPECT_EQ(
      ofInput("IsInf", {4}, {kInfinity, -kInfinity, kNaN, 1}, {}, {{"detect_negative", 0}, {"detect_positive", 0}}, 20),
      (Values{0, 0, 0, 0}));
}

TEST(Edges, averages_count_the_padding_that_is_found_out) {
  ModelBuilder model(19);
  model.input("x", kF32, {1, 1, 4});
  onnxfile::Node &node = model.node("AveragePool", {"x"}, {"y"});
  ModelBuilder::setInts(node, "kernel_shape", {3});
  ModelBuilder::setInts(node, "strides", {2});
  ModelBuilder::setInt(node, "count_include_pad", 1);
  ModelBuilder::setText(node, "auto_pad", "SAME_UPPER");
  model.output("y");
  expectNear(evaluate(model, {f32({1, 1, 4}, {1, 2, 3, 4})}), {2, 7.0 / 3}, 1e-6);
}

TEST(Edges, maxima_of_doubles_stay_doubles) {
  ModelBuilder model;
  model.input("x", static_cast<DataType>(11), {1, 1, 2});
  ModelBuilder::setInts(model.node("MaxPool", {"x"}, {"y"}), "kernel_shape", {2});
  model.output("y");
  const double largest = 1 + 1e-12;
  EXPECT_EQ(evaluate(model, {interpreter::Tensor::fromDoubles(interpreter::ElementKind::F64, {1, 1, 2}, {1, largest})}),
            (Values{largest}));
}

/// Four elements resized along the last dimension, in a way given by attributes.
ModelBuilder resized(float scale, const std::vector<std::pair<std::string, std::string>> &attributes) {
  ModelBuilder model(19);
  model.input("x", kF32, {1, 1, 1, 4});
  model.floats("scales", {4}, {1, 1, 1, scale}).set_name("scales_output_0");
  onnxfile::Node &node = model.node("Resize", {"x", "", "scales_output_0"}, {"y"});
  for (auto &[name, value] : attributes)
    ModelBuilder::setText(node, name, value);
  model.output("y");
  return model;
}

TEST(Edges, resizing_by_symmetric_half_pixels_keeps_the_middle) {
  auto of = [](float scale, const char *mode) {
    return evaluate(resized(scale, {{"mode", mode}, {"coordinate_transformation_mode", "half_pixel_symmetric"}}),
                    {f32({1, 1, 1, 4}, {1, 2, 3, 4})});
  };
  expectNear(of(0.6f, "linear"), {5.0 / 3, 10.0 / 3}, 1e-5);
  expectNear(of(0.6f, "nearest"), {2, 3}, 1e-6);
}

TEST(Edges, unknown_ways_of_resizing_are_refused) {
  expectError(importModel(resized(2, {{"mode", "lanczos"}})), {"'lanczos'", "expected nearest, linear, cubic"});
  expectError(importModel(resized(2, {{"coordinate_transformation_mode", "middle"}})),
              {"'coordinate_transformation_mode' 'middle'", "half_pixel_symmetric"});
  expectError(importModel(resized(2, {{"nearest_mode", "even"}})), {"'nearest_mode' 'even'", "round_prefer_floor"});
}

/// One of the two operators over an input and a scale, with attributes.
Imported quantized(const std::string &type, const std::vector<std::pair<std::string, int64_t>> &attributes) {
  ModelBuilder model(23);
  model.input("x", type == "QuantizeLinear" ? kF32 : kI32, {3});
  model.floats("scale", {}, {2});
  onnxfile::Node &node = model.node(type, {"x", "scale"}, {"y"});
  for (auto &[name, value] : attributes)
    ModelBuilder::setInt(node, name, value);
  model.output("y");
  return importModel(model);
}

TEST(Edges, quantized_tensors_have_the_type_that_is_asked_for) {
  Imported imported = quantized("QuantizeLinear", {{"output_dtype", 6}});
  auto results = execute(imported, {f32({3}, {3, 5, -1e3})});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].getKind(), interpreter::ElementKind::I32);
  EXPECT_EQ(results[0].getInteger(0), 2);
  EXPECT_EQ(results[0].getInteger(1), 2);
  EXPECT_EQ(results[0].getInteger(2), -500);
  Imported widened = quantized("DequantizeLinear", {{"output_dtype", 11}});
  results = execute(widened, {interpreter::Tensor::fromIntegers(interpreter::ElementKind::I32, {3}, {3, -5, 0})});
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(results[0].getKind(), interpreter::ElementKind::F64);
  EXPECT_EQ(results[0].toDoubles(), (Values{6, -10, 0}));
  expectError(quantized("QuantizeLinear", {{"output_dtype", 17}}), {"'output_dtype'", "FLOAT8E4M3FN"});
  expectError(quantized("DequantizeLinear", {{"block_size", 2}}), {"'block_size' of 2"});
}

//===----------------------------------------------------------------------===//
// Parameters
//===----------------------------------------------------------------------===//

TEST(Parameters, written_out_value_by_value_are_read) {
  ModelBuilder model;
  model.input("x", kF32, {1, 2});
  onnxfile::Tensor &packed = model.floats("packed", {2, 2}, {});
  packed.clear_raw_data();
  for (float value : {1.0f, 2.0f, 3.0f, 4.0f})
    packed.add_float_data(value);
  model.node("MatMul", {"x", "packed"}, {"y"});
  model.output("y");
  EXPECT_EQ(evaluate(model, {f32({1, 2}, {1, 10})}), (Values{31, 42}));
}

TEST(Parameters, that_nothing_uses_are_left_out) {
  ModelBuilder model;
  model.input("x", kF32, {2});
  model.floats("used", {2}, {1, 2});
  model.floats("unused", {2}, {1, 2});
  model.node("Mul", {"x", "used"}, {"y"});
  model.output("y");
  Imported imported = importModel(model);
  ASSERT_TRUE(imported);
  int count = 0;
  for (ParamOp param : imported.module->getOps<ParamOp>()) {
    ++count;
    EXPECT_EQ(param.getSymName(), "used");
  }
  EXPECT_EQ(count, 1);
}

TEST(Parameters, shared_by_two_nodes_are_one_symbol) {
  ModelBuilder model;
  model.input("ids", kI64, {2, 3});
  model.floats("table", {5, 4}, std::vector<float>(20, 1));
  model.node("Gather", {"table", "ids"}, {"rows"});
  ModelBuilder::setInts(model.node("Transpose", {"table"}, {"turned"}), "perm", {1, 0});
  model.node("MatMul", {"rows", "turned"}, {"y"});
  model.output("y");
  Imported imported = importModel(model);
  ASSERT_TRUE(imported);
  auto params = imported.module->getOps<ParamOp>();
  EXPECT_EQ(std::distance(params.begin(), params.end()), 1);
}

TEST(Parameters, that_an_exporter_seems_to_have_merged_are_warned_of) {
  for (bool merged : {true, false}) {
    ModelBuilder model;
    model.input("x", kF32, {2, 4});
    model.floats("first", {4}, {1, 1, 1, 1});
    model.floats("second", {4}, {1, 1, 1, 1});
    model.node("LayerNormalization", {"x", "first"}, {"a"});
    model.node("LayerNormalization", {"a", merged ? "first" : "second"}, {"y"});
    model.output("y");
    Imported imported = importModel(model);
    ASSERT_TRUE(imported);
    ASSERT_EQ(imported.warnings.size(), merged ? 1u : 0u);
    if (merged) {
      EXPECT_NE(imported.warnings[0].find("\"first\" is shared by 2 norms"), std::string::npos) << imported.warnings[0];
    }
  }
}
TEST(InstanceNormalization, of_vectors_for_other_channels_is_refused) {
  ModelBuilder model;
  model.input("x", kF32, {2, 14, 3, 3});
  model.floats("scale", {10}, std::vector<float>(10, 1));
  model.floats("bias", {10}, std::vector<float>(10, 0));
  model.node("InstanceNormalization", {"x", "scale", "bias"}, {"y"});
  model.output("y");
  expectError(importModel(model), {"has a vector of 10 elements, expected one for each of the 14 channels"});
}
} // namespace
