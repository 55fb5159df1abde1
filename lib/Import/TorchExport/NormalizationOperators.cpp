// Norms of batches, samples, groups and weights. Batch norm has three spellings: writing its running averages in place,
// giving them back, and only reading them; ONNX's operator says the same but for the variance that is averaged, which
// torch divides by one less.
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

/// By the batch alone: there are no averages.
void batchNormWithoutAverages(NodeTranslation &node) {
  node.finish(batchNorm(node, node.boolean("training", false))[0]);
}

void batchNormByAverages(NodeTranslation &node) { node.finish(batchNorm(node, false)[0]); }
//===----------------------------------------------------------------------===//
// By samples
//===----------------------------------------------------------------------===//

/// Each sample's channels in groups, each of which is normalized by itself.
Name groupsNormalized(NodeTranslation &node, int64_t groups) {
  return node.emit("GroupNormalization",
                   {node.tensor("input"), overChannels(node, "weight", 1), overChannels(node, "bias", 0)},
                   {{{"num_groups", groups}}, {{"epsilon", node.number("eps", 1e-5)}}});
}

void groupNorm(NodeTranslation &node) { node.finish(groupsNormalized(node, node.integer("num_groups"))); }

/// Results 1 and 2 are for torch's own backward.
void nativeGroupNorm(NodeTranslation &node) { node.finish(groupsNormalized(node, node.integer("group"))); }

void instanceNorm(NodeTranslation &node) {
  if (!node.boolean("use_input_stats", true))
    node.error() << "normalizes by running averages, which hyc reads of batch norms only; export it in train mode";
  else
    node.finish(groupsNormalized(node, node.sizeOf("input", 1)));
}

/// x / sqrt(mean(x²) + eps), over the last dimensions.
void rmsNorm(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  const double least = type == ScalarType::F64 ? 2.220446049250313e-16 : 1.1920928955078125e-07;
  std::vector<int64_t> dims;
  for (int64_t dim = -static_cast<int64_t>(node.integers("normalized_shape").size()); dim < 0; ++dim)
    dims.push_back(dim);
  Name input = node.tensor("input");
  Name mean = node.emit("ReduceMean", {node.emit("Mul", {input, input}), node.constant(dims)}, {{{"keepdims", 1}}});
  Name root = node.emit("Sqrt", {node.emit("Add", {mean, node.constant(type, node.number("eps", least))})});
  Name result = node.emit("Mul", {input, node.emit("Reciprocal", {root})});
  node.finish(node.has("weight") ? node.emit("Mul", {result, node.tensor("weight")}) : result);
}

/// g · v / |v|, the length over all dimensions but one, or, which torch calls -1, over all.
void weightNorm(NodeTranslation &node) {
  const int64_t rank = node.tensorRank("v");
  const int64_t kept = node.integer("dim", 0) == -1 ? -1 : node.dimension("dim", rank, 0);
  std::vector<int64_t> dims;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (dim != kept)
      dims.push_back(dim);
  Name v = node.tensor("v"), length = normOf(node, v, 2, node.resultMeta().type, dims, /*keepsDims=*/true);
  node.finish(node.emit("Mul", {v, node.emit("Div", {node.tensor("g"), length})}));
}
} // namespace

void hyc::torchexport::addNormalization(TranslationTable &table) {
  table["aten.batch_norm.default"] = batchNormInPlace;
  table["aten._native_batch_norm_legit.default"] = batchNormInPlace;
  table["aten._native_batch_norm_legit.no_stats"] = batchNormWithoutAverages;
  table["aten._native_batch_norm_legit_functional.default"] = batchNormWithAverages;
  table["aten._native_batch_norm_legit_no_training.default"] = batchNormByAverages;
  table["aten.group_norm.default"] = groupNorm;
  table["aten.native_group_norm.default"] = nativeGroupNorm;
  table["aten.instance_norm.default"] = instanceNorm;
  table["aten.rms_norm.default"] = rmsNorm;
  table["aten._weight_norm.default"] = weightNorm;
}
