// What is left of models and texts that show a finding, which tests inject: it is the part that the finding is of.
#include "Minimise.h"

#include "test/fuzz/graphs/ModelEdits.h"
#include "test/fuzz/graphs/ModelParts.h"
#include "test/fuzz/settings/TextEdits.h"

#include "llvm/ADT/STLExtras.h"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

using namespace hyc;
using namespace hyc::fuzzing;

namespace {
/// x · w, then Relu, Softmax over `axis`, Transpose, a sum with the product; under a layout.
Specimen chainWithSoftmax(int64_t axis) {
  Specimen whole;
  whole.model.add_opset_import()->set_version(18);
  onnxfile::Graph &graph = *whole.model.mutable_graph();
  addInput(graph, "x", kF32, {4, 6, 8});
  addTensor(graph, "w", kF32, {6, 8}, std::vector<double>(48, 0.5));
  addTensor(graph, "unused", kF32, {3}, {1, 2, 3});
  addNode(graph, "Mul", {"x", "w"}, {"h"});
  addNode(graph, "Relu", {"h"}, {"r"});
  setInt(addNode(graph, "Softmax", {"r"}, {"s"}), "axis", axis);
  addNode(graph, "Neg", {"s"}, {"n"});
  addNode(graph, "Add", {"n", "h"}, {"y"});
  graph.add_output()->set_name("y");
  whole.flags = {"--loss=mse", "--tp=2", "--dp=2", "--optimizer=lion", "--emit=rank"};
  return whole;
}

Facts factsOf(const onnxfile::Model &model) {
  return importFacts(model, 4, [](const std::string &) {});
}

const onnxfile::Node *findNode(const Specimen &specimen, const std::string &op) {
  for (const onnxfile::Node &node : specimen.model.graph().node())
    if (node.op_type() == op)
      return &node;
  return nullptr;
}

TEST(ModelEdits, leave_the_node_and_the_flag_that_a_finding_is_of) {
  auto keeps = [](const Specimen &candidate) {
    const onnxfile::Node *node = findNode(candidate, "Softmax");
    return node && llvm::is_contained(candidate.flags, "--tp=2") && node->attribute_size() == 1 &&
           node->attribute(0).i() == 1 && importOutputs(candidate.model, 4);
  };
  int64_t trials = 2000;
  Specimen least = shrink<Specimen>(chainWithSoftmax(1), specimenEdits(factsOf), keeps, trials);
  EXPECT_EQ(describeModel(least.model), "opset 18\ninput x: type 1 [ 1 1 ]\nnode s = Softmax(x) axis=1\noutput s\n");
  EXPECT_EQ(least.flags, (std::vector<std::string>{"--tp=2", "--emit=rank"}));
  EXPECT_GT(trials, 0);
}

TEST(ModelEdits, take_a_model_apart_that_the_importer_refuses) {
  auto keeps = [](const Specimen &candidate) {
    return !importOutputs(candidate.model, 4) && findNode(candidate, "Softmax");
  };
  int64_t trials = 2000;
  Specimen least = shrink<Specimen>(chainWithSoftmax(9), specimenEdits(factsOf), keeps, trials);
  EXPECT_EQ(least.model.graph().node_size(), 1);
  EXPECT_EQ(least.flags, std::vector<std::string>{"--emit=rank"});
}

std::string shrinkText(const std::string &text, const Keeps<std::string> &keeps) {
  int64_t trials = 2000;
  return shrink<std::string>(text, textEdits(), keeps, trials);
}

TEST(TextEdits, leave_the_key_that_a_finding_is_of_at_its_depth) {
  std::string text = R"({"a": 1, "zero_optimization": {"stage": 2, "offload": {"device": "cpu"}, "x": [1, 2, {"y": 3}]},
    "b": "a, long \" string: {", "c": [[]]})";
  EXPECT_EQ(shrinkText(text, [](const std::string &t) { return t.find("\"y\"") != t.npos && t.front() == '{'; }),
            R"({"y":3})");
  EXPECT_EQ(shrinkText(text,
                       [](const std::string &t) {
                         size_t outer = t.find("\"zero_optimization\""), inner = t.find("\"device\"", outer);
                         return inner != t.npos && outer != t.npos && std::count(t.begin(), t.end(), '}') >= 2;
                       }),
            R"({"zero_optimization":{"device":"c"}})");
}

TEST(TextEdits, shrink_what_no_parser_takes) {
  EXPECT_EQ(
      shrinkText("{\"a\": 1, \"a\": NaN, \"b\": 01", [](const std::string &t) { return t.find("NaN") != t.npos; }),
      "{\"a\":NaN");
  std::string nested = "{\"k\": " + std::string(500, '[') + std::string(500, ']') + ", \"l\": 2}";
  EXPECT_EQ(shrinkText(nested, [](const std::string &t) { return std::count(t.begin(), t.end(), '[') >= 70; }),
            std::string(70, '[') + std::string(70, ']'));
}

TEST(Minimise, finds_what_crashes_in_child_processes) {
  std::string folder = testing::TempDir() + "/minimise_test";
  std::filesystem::create_directories(folder);
  Supervision options;
  options.folder = folder;
  auto attempt = [](const std::string &text) -> Verdict {
    if (text.find("bad") != text.npos)
      std::abort();
    return {65, "", "", "expected something else"};
  };
  auto result = minimise<std::string>(options, "{\"a\": [1, \"bad\", 2], \"b\": 3}", textEdits(), attempt);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->smallest, "[\"bad\"]");
  EXPECT_EQ(result->verdict.finding, "ends with 134");
  EXPECT_FALSE(minimise<std::string>(options, "{}", textEdits(), attempt));
}

TEST(Minimise, a_finding_is_the_same_under_other_names_and_sizes) {
  Verdict one{65, "makes a module that does not verify", "", "/a/model.onnx: n3: 'hyc.add' op got tensor<4x2xf32>, 12"};
  Verdict other{65, one.finding, "", "/b/c/model.onnx: n12: 'hyc.add' op got tensor<1xf32>, 3"};
  EXPECT_TRUE(isSameFinding(one, other));
  other.said = "/a/model.onnx: n3: 'hyc.mul' op got tensor<4x2xf32>, 12";
  EXPECT_FALSE(isSameFinding(one, other));
  other = one;
  other.code = 70;
  EXPECT_FALSE(isSameFinding(one, other));
}

TEST(Minimise, a_pattern_makes_findings_of_ordinary_refusals_alone) {
  EXPECT_EQ(lookFor({65, "", "", "expected 2 inputs"}, "2 in").finding, "says what is looked for");
  EXPECT_EQ(lookFor({70, "exit 70", "", "no such thing"}, "2 in").finding, "");
  EXPECT_EQ(lookFor({70, "exit 70", "", "no such thing"}, "").finding, "exit 70");
}
} // namespace
