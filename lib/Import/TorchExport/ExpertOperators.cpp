// What mixtures of experts are made of: how many rows each expert gets, and each row's product with its expert's
// matrix. Rows are sorted by expert when they come here. The products are written densely, over all experts with rows
// of zeros for those that a row does not go to: one contraction, which a plan may split by experts.
#include "Translator.h"

using namespace hyc::torchexport;

namespace {
/// 0, 1, …, as many as a tensor's dimension 0 has.
Name rowNumbers(NodeTranslation &node, const Name &value) {
  Name count = node.emit("Gather", {node.emit("Shape", {value}), node.constant(ScalarType::I64, 0)}, {{{"axis", 0}}});
  return node.emit("Range", {node.constant(ScalarType::I64, 0), count, node.constant(ScalarType::I64, 1)});
}

/// How many numbers lie in each of `bins` parts of a range, whose upper end the last part has too.
void histogram(NodeTranslation &node) {
  const int64_t bins = node.integer("bins", 100);
  const double low = node.number("min", 0), high = node.number("max", 0);
  if (bins < 1 || !(low < high)) {
    if (!node.failed())
      node.error() << "counts between " << low << " and " << high << " in " << bins
                   << " parts, expected a range that is known and at least one part";
    return;
  }
  Name self = node.emit("Reshape", {node.operand("self", ScalarType::F32), node.constant({-1, 1})});
  Name shifted = node.emit("Sub", {self, node.constant(ScalarType::F32, low)});
  Name scaled = node.emit("Mul", {shifted, node.constant(ScalarType::F32, static_cast<double>(bins))});
  Name place = node.emit("Floor", {node.emit("Div", {scaled, node.constant(ScalarType::F32, high - low)})});
  Name isHighest = node.emit("Equal", {self, node.constant(ScalarType::F32, high)});
  place =
      node.emit("Where", {isHighest, node.constant(ScalarType::F32, static_cast<double>(bins - 1)), place}); // N × 1
  Name numbers =
      node.emit("Range", {node.constant(ScalarType::I64, 0), node.constant(ScalarType::I64, static_cast<double>(bins)),
                          node.constant(ScalarType::I64, 1)});
  Name isIn = node.emit("Equal", {place, node.cast(numbers, ScalarType::F32)}); // N × bins
  Name counts = node.emit("ReduceSum", {node.cast(isIn, ScalarType::F32), node.constant({0})}, {{{"keepdims", 0}}});
  node.finish(node.cast(counts, node.resultMeta().type));
}

/// Row t of the result is row t of the input times the matrix of the expert e with offs[e - 1] <= t < offs[e].
template <const char *Input, const char *Weight> void groupedProduct(NodeTranslation &node) {
  if (node.tensorRank(Input) != 2 || node.tensorRank(Weight) != 3 || !node.has("offs") || node.has("bias")) {
    if (!node.failed())
      node.error() << "multiplies groups of another form than rows with a matrix each, which hyc does not read";
    return;
  }
  ScalarType type = node.resultMeta().type;
  Name input = node.tensor(Input); // (T, K)
  Name ends = node.cast(node.tensor("offs"), ScalarType::I64);
  Name before = node.emit("Slice", {ends, node.constant({0}), node.constant({-1})});
  Name begins = node.emit("Concat", {node.constant({0}), before}, {{{"axis", 0}}});
  Name rows = node.emit("Unsqueeze", {rowNumbers(node, input), node.constant({1})});
  Name isOf = node.emit("And", {node.emit("GreaterOrEqual", {rows, begins}), node.emit("Less", {rows, ends})});
  Name apart = node.emit("Where", {node.emit("Unsqueeze", {isOf, node.constant({2})}),
                                   node.emit("Unsqueeze", {node.operand(Input, type), node.constant({1})}),
                                   node.constant(type, 0)}); // (T, E, K)
  node.finish(node.emit("Einsum", {apart, node.operand(Weight, type)}, {{}, {}, {}, {{"equation", "tek,ekn->tn"}}}));
}
constexpr char kInput[] = "input", kWeight[] = "weight", kSelf[] = "self", kMat2[] = "mat2";
} // namespace

void hyc::torchexport::addExperts(TranslationTable &table) {
  table["aten.histc.default"] = histogram;
  table["aten._grouped_mm.default"] = groupedProduct<kSelf, kMat2>;
  table["transformers.grouped_mm_fallback.default"] = groupedProduct<kInput, kWeight>;
}
