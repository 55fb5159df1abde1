// Distances between rows, and rows of a table added up by bags.
#include "Translator.h"

#include <limits>

using namespace hyc::torchexport;

namespace {
/// How far rows lie apart by the node's p: the norm of their differences.
Name distanceOf(NodeTranslation &node, const Name &differences) {
  return normOf(node, differences, node.number("p", 2), node.resultMeta().type, {-1}, /*keepsDims=*/false);
}

/// Of each row of one matrix from each of another.
void betweenRows(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name left = node.emit("Unsqueeze", {node.operand("x1", type), node.constant({-2})});
  Name right = node.emit("Unsqueeze", {node.operand("x2", type), node.constant({-3})});
  node.finish(distanceOf(node, node.emit("Sub", {left, right})));
}

/// Of each row of a matrix from each after it.
void amongRows(NodeTranslation &node) {
  constexpr int64_t kMostRows = 2048; // the pairs are listed
  const int64_t rows = node.sizeOf("self", 0);
  if (!node.failed() && rows > kMostRows)
    node.error() << "compares " << rows << " rows with one another, expected at most " << kMostRows;
  if (node.failed())
    return;
  std::vector<int64_t> first, second;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = i + 1; j < rows; ++j) {
      first.push_back(i);
      second.push_back(j);
    }
  auto pick = [&](const std::vector<int64_t> &numbers) {
    return node.emit("Gather", {node.tensor("self"), node.constant(numbers)}, {{{"axis", 0}}});
  };
  node.finish(distanceOf(node, node.emit("Sub", {pick(first), pick(second)})));
}

/// Of one tensor from another, all elements together.
void betweenAll(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name apart = node.emit("Sub", {node.operand("self", type), node.operand("other", type)});
  node.finish(distanceOf(node, node.emit("Reshape", {apart, node.constant({-1})})));
}

/// How many indices each bag has where offsets are a range in equal steps that the archive knows, as torch makes them
/// of a matrix of indices, and where they leave no rest; else none. Offsets begin with 0 by torch's contract.
std::optional<int64_t> equalBags(NodeTranslation &node) {
  const TensorMeta &indices = node.metaOf("indices"), &offsets = node.metaOf("offsets");
  if (indices.sizes.size() != 1 || offsets.sizes.size() != 1 || !indices.sizes[0].value || !offsets.sizes[0].value)
    return std::nullopt;
  const int64_t bags = *offsets.sizes[0].value, places = *indices.sizes[0].value;
  Name name = node.tensor("offsets");
  const hyc::onnxfile::Node *range = node.sourceOf(name);
  if (bags == 0 || places % bags != 0 || !range || range->op_type() != "Range")
    return std::nullopt;
  std::optional<int64_t> step = node.knownInteger(range->input(2));
  return step && *step * bags == places ? step : std::nullopt;
}

/// The sum or mean of bags of `each` rows: no product is needed to tell them apart.
Name reduceEqualBags(NodeTranslation &node, const Name &rows, int64_t each, bool isMean) {
  const int64_t width = node.sizeOf("weight", 1);
  Name bags = node.emit("Reshape", {rows, node.constant({node.sizeOf("offsets", 0), each, width})});
  return node.emit(isMean ? "ReduceMean" : "ReduceSum", {bags, node.constant({1})}, {{{"keepdims", 0}}});
}

/// Rows of a table in bags, of which each begins at an offset: their sum, mean or maximum. What a bag holds is a matrix
/// of zeros and ones, so that offsets may be computed when running.
template <bool CountsBack> void embeddingBag(NodeTranslation &node) {
  enum { kSum, kMean, kMax };
  const int64_t mode = node.integer("mode", kSum);
  int64_t padding = node.integer("padding_idx", -1);
  if (CountsBack && padding < 0 && node.has("padding_idx"))
    padding += node.sizeOf("weight", 0);
  if (node.tensorRank("indices") != 1 || mode < kSum || mode > kMax) {
    if (!node.failed())
      node.error() << "takes bags of " << node.tensorRank("indices") << "-dimensional indices by mode " << mode
                   << ", expected a vector of them, and a sum, a mean or a maximum";
    return;
  }
  if (dividesByFrequency(node))
    return;
  ScalarType type = node.metaOf("weight").type;
  Name weight = node.tensor("weight"), indices = node.operand("indices", ScalarType::I64),
       offsets = node.operand("offsets", ScalarType::I64);
  Name rows = node.emit("Gather", {weight, indices}, {{{"axis", 0}, {hyc::onnx::kCountsFromFront, 1}}}), result;
  if (node.has("per_sample_weights"))
    rows = node.emit("Mul", {rows, node.emit("Unsqueeze", {node.tensor("per_sample_weights"), node.constant({-1})})});
  std::optional<int64_t> each = equalBags(node);
  if (each && padding < 0 && mode != kMax && !node.boolean("include_last_offset", false))
    return node.finish(reduceEqualBags(node, rows, *each, mode == kMean));
  if (node.boolean("include_last_offset", false))
    offsets = node.emit("Slice", {offsets, node.constant({0}), node.constant({-1})});
  auto countedTo = [&](const Name &vector, int64_t other) {
    Name size = node.emit("Squeeze", {node.emit("Shape", {vector}), node.constant({0})});
    Name numbers = node.emit("Range", {node.constant(ScalarType::I64, 0), size, node.constant(ScalarType::I64, 1)});
    return node.emit("Unsqueeze", {numbers, node.constant({other})});
  };
  // (places, bags): which bags have begun at a place; the last of them has it.
  Name begun = node.emit("LessOrEqual", {node.emit("Unsqueeze", {offsets, node.constant({0})}), countedTo(indices, 1)});
  Name bag = node.emit(
      "Sub", {node.emit("ReduceSum", {node.cast(begun, ScalarType::I64), node.constant({1})}, {{{"keepdims", 0}}}),
              node.constant(ScalarType::I64, 1)});
  Name holds =
      node.emit("Equal", {node.emit("Unsqueeze", {bag, node.constant({0})}), countedTo(offsets, 1)}); // (bags, places)
  if (padding >= 0)
    holds = node.emit(
        "And",
        {holds,
         node.emit("Unsqueeze",
                   {node.emit("Not", {node.emit("Equal", {indices, node.constant(ScalarType::I64,
                                                                                 static_cast<double>(padding))})}),
                    node.constant({0})})});
  Name ones = node.cast(holds, type);
  Name count = node.emit("ReduceSum", {ones, node.constant({1})}, {{{"keepdims", 1}}});
  if (mode == kMax) {
    Name lowest = node.constant(type, -std::numeric_limits<double>::infinity());
    Name each = node.emit("Where", {node.emit("Unsqueeze", {holds, node.constant({2})}), rows, lowest});
    Name highest = node.emit("ReduceMax", {each, node.constant({1})}, {{{"keepdims", 0}}});
    result = node.emit("Where", {node.emit("Equal", {count, node.constant(type, 0)}), node.constant(type, 0), highest});
  } else {
    result = node.emit("MatMul", {ones, rows});
    if (mode == kMean)
      result = node.emit("Div", {result, node.emit("Max", {count, node.constant(type, 1)})});
  }
  node.finish(result); // the others are for torch's own backward
}
} // namespace

void hyc::torchexport::addDistance(TranslationTable &table) {
  table["aten.cdist.default"] = betweenRows;
  table["aten._cdist_forward.default"] = betweenRows;
  table["aten.dist.default"] = betweenAll;
  table["aten.pdist.default"] = amongRows;
  table["aten._pdist_forward.default"] = amongRows;
  for (const char *name : {"_embedding_bag", "_embedding_bag_forward_only", "embedding_bag"})
    table[std::string("aten.") + name + ".default"] = embeddingBag<false>;
  table["aten.embedding_bag.padding_idx"] = embeddingBag<true>; // where -1 is the last row, not none
}
