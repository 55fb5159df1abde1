// A node's attributes are those of its operator in the model's operator set: every other one is refused, whatever the
// operator, and an attribute without a meaning never passes for one that is left out.
#include "OnnxTesting.h"
#include "lib/Import/ONNX/Importer.h"
#include "lib/Import/TorchExport/Translator.h"
#include <functional>

using namespace hyc;
using namespace hyc::onnx;

namespace {
/// A model of one node over a constant, to which `change` gives attributes.
Imported importWith(llvm::StringRef key, int64_t opset, const std::function<void(onnxfile::Node &)> &change) {
  auto [domain, name] = key.contains(':') ? key.rsplit(':') : std::pair(llvm::StringRef(), key);
  ModelBuilder model(opset);
  model.input("x", kF32, {2, 4});
  onnxfile::Node &node = model.node(name.str(), {"x"}, {"y"});
  node.set_domain(domain.str());
  change(node);
  model.output("y");
  return importModel(model);
}

TEST(AttributeRules, refuse_an_unknown_attribute_of_every_operator) {
  for (const auto &entry : allOperators())
    expectError(
        importWith(entry.first(), 18, [](onnxfile::Node &node) { ModelBuilder::setInt(node, "no_such_attribute", 1); }),
        {"\"y\" (", "has attribute 'no_such_attribute', which", "does not have"});
}

TEST(AttributeRules, tell_what_was_probably_meant) {
  expectError(importWith("Softmax", 18, [](onnxfile::Node &node) { ModelBuilder::setInt(node, "axes", 1); }),
              {"(Softmax) has attribute 'axes', which Softmax does not have; did you mean 'axis'?"});
  expectError(
      importWith("LeakyRelu", 18, [](onnxfile::Node &node) { ModelBuilder::setFloat(node, "negative_slope", 1); }),
      {"(LeakyRelu) has attribute 'negative_slope', which LeakyRelu does not have; it has 'alpha'"});
  expectError(importWith("Relu", 18, [](onnxfile::Node &node) { ModelBuilder::setFloat(node, "alpha", 1); }),
              {"(Relu) has attribute 'alpha', which Relu does not have; it has none"});
}

TEST(AttributeRules, go_by_the_operator_set) {
  auto squeeze = [](onnxfile::Node &node) { ModelBuilder::setInts(node, "axes", {0}); };
  expectError(importWith("Squeeze", 13, squeeze),
              {"(Squeeze) has attribute 'axes', which Squeeze has up to operator set 12; the model says 13"});
  auto reshape = [](onnxfile::Node &node) { ModelBuilder::setInt(node, "allowzero", 1); };
  expectError(importWith("Reshape", 13, reshape),
              {"(Reshape) has attribute 'allowzero', which Reshape has from operator set 14 on; the model says 13"});
  auto normalization = [](onnxfile::Node &node) { ModelBuilder::setInt(node, "is_test", 1); };
  expectError(importWith("BatchNormalization", 7, normalization),
              {"which BatchNormalization has up to operator set 6; the model says 7"});
}

TEST(AttributeRules, go_by_the_type_of_the_operator_set) {
  auto cast = [](onnxfile::Node &node) {
    onnxfile::Attribute &to = *node.add_attribute();
    to.set_name("to");
    to.set_type(3);
    to.set_s("FLOAT");
  };
  expectError(importWith("Cast", 18, cast), {"(Cast) has attribute 'to' of type STRING, expected INT"});
}

TEST(TorchExportArguments, are_known_of_every_operator_of_torch) {
  for (const auto &entry : torchexport::allTranslations())
    EXPECT_TRUE(!entry.first().starts_with("aten.") || torchexport::argumentsOf(entry.first()))
        << entry.first().str() << " is not in ArgumentTable.inc: list_arguments.py writes it";
}
} // namespace
