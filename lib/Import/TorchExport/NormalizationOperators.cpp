// Batch norm in its three spellings: writing its running averages in place, giving them back, and only reading them.
// ONNX's operator says the same but for the variance that is averaged, which torch divides by one less.
#include "Translator.h"

using namespace hyc::torchexport;

namespace {
/// The vector over the channels that an argument names, or one of `otherwise`.
Name overChannels(NodeTranslation &node, const char *argument, double otherwise) {
  if (node.has(argument))
    return node.tensor(argument);
  ScalarType type = node.metaOf("input").type;
  return node.filled(type, node.constant({node.sizeOf("input", 1)}), otherwise);
}

/// The three results of ONNX's operator: what is normalized, and the running averages after it.
std::vector<Name> batchNorm(NodeTranslation &node, bool trains) {
  if (!trains && !(node.has("running_mean") && node.has("running_var")) && !node.failed())
    node.error() << "normalizes by running averages that it does not have";
  Attributes attributes{{{"training_mode", trains}, {hyc::onnx::kUnbiasedAverage, 1}},
                        {{"epsilon", node.number("eps", 1e-5)}, {"momentum", 1 - node.number("momentum", 0.1)}}};
  return node.emitAll("BatchNormalization",
                      {node.tensor("input"), overChannels(node, "weight", 1), overChannels(node, "bias", 0),
                       overChannels(node, "running_mean", 0), overChannels(node, "running_var", 1)},
                      attributes, trains ? 3 : 1);
}

void batchNormInPlace(NodeTranslation &node) {
  bool trains = node.boolean("training", false);
  std::vector<Name> results = batchNorm(node, trains);
  node.finish(results[0]);
  if (!trains || !node.has("running_mean") || !node.has("running_var"))
    return;
  node.write("running_mean", results[1]);
  node.write("running_var", results[2]);
}

/// Results 1 and 2 are what torch saves for its own backward, which nobody asks for here.
void batchNormWithAverages(NodeTranslation &node) {
  bool trains = node.boolean("training", false);
  std::vector<Name> results = batchNorm(node, trains);
  node.finish(results[0]);
  node.finish(trains ? results[1] : node.tensor("running_mean"), 3);
  node.finish(trains ? results[2] : node.tensor("running_var"), 4);
}

void batchNormByAverages(NodeTranslation &node) { node.finish(batchNorm(node, false)[0]); }
} // namespace

void hyc::torchexport::addNormalization(TranslationTable &table) {
  table["aten.batch_norm.default"] = batchNormInPlace;
  table["aten._native_batch_norm_legit_functional.default"] = batchNormWithAverages;
  table["aten._native_batch_norm_legit_no_training.default"] = batchNormByAverages;
}
