// What mixtures of experts are made of: how many rows each expert gets, and each row's product with its expert's
// matrix. Rows are sorted by expert when they come here, and the product knows each expert by where its rows end.
#include "Translator.h"

using namespace hyc;
using namespace hyc::torchexport;

namespace {
/// 0, 1, …, as many as a tensor's dimension 0 has.
Name rowNumbers(NodeTranslation &node, const Name &value) {
  Name count = node.emit("Gather", {node.emit("Shape", {value}), node.constant(ScalarType::I64, 0)}, {{{"axis", 0}}});
  return node.emit("Range", {node.constant(ScalarType::I64, 0), count, node.constant(ScalarType::I64, 1)});
}

/// What is shared of numbers from 0 to `experts` - 1: whose they are that a value counts.
std::string countOf(int64_t experts, const Name &counts) {
  return "numbers below " + std::to_string(experts) + " counted in " + counts;
}

/// The experts of rows in order, where `ends` are sums of how many rows each of `experts` has, of numbers that were
/// sorted; empty where the graph does not show that.
Name sortedExperts(NodeTranslation &node, Name ends, int64_t experts) {
  const onnxfile::Node *sums = node.sourceOf(ends);
  if (!sums || sums->op_type() != "CumSum")
    return "";
  Name counts = sums->input(0);
  node.sourceOf(counts);
  Name numbers = node.shared(countOf(experts, counts));
  const onnxfile::Node *order = numbers.empty() ? nullptr : node.sourceOf(numbers);
  if (!order || order->op_type() != "TopK" || numbers != order->output(0))
    return "";
  bool isAscending = llvm::any_of(order->attribute(), [](const onnxfile::Attribute &attribute) {
    return attribute.name() == "largest" && attribute.i() == 0;
  });
  return isAscending ? numbers : "";
}

/// The ends of a histogram's range: those given, or where they are the same the least and the greatest number, one
/// aside of them where these are the same.
std::pair<Name, Name> rangeOf(NodeTranslation &node, const Name &self, double low, double high) {
  auto number = [&](double value) { return node.constant(ScalarType::F32, value); };
  if (low != high)
    return {number(low), number(high)};
  Name least = node.emit("ReduceMin", {self}, {{{"keepdims", 0}}});
  Name most = node.emit("ReduceMax", {self}, {{{"keepdims", 0}}});
  Name isSame = node.emit("Equal", {least, most});
  Name aside = node.emit("Where", {isSame, number(1), number(0)});
  return {node.emit("Sub", {least, aside}), node.emit("Add", {most, aside})};
}

/// How many numbers lie in each of `bins` parts of a range, whose upper end the last part has too.
void histogram(NodeTranslation &node) {
  const int64_t bins = node.integer("bins", 100);
  const double low = node.number("min", 0), high = node.number("max", 0);
  if (bins < 1 || !(low <= high)) {
    if (!node.failed())
      node.error() << "counts between " << low << " and " << high << " in " << bins
                   << " parts, expected a range from its lower end to its upper one, and at least one part";
    return;
  }
  Name self = node.emit("Reshape", {node.operand("self", ScalarType::F32), node.constant({-1, 1})});
  auto [begin, end] = rangeOf(node, self, low, high);
  Name shifted = node.emit("Sub", {self, begin});
  Name scaled = node.emit("Mul", {shifted, node.constant(ScalarType::F32, static_cast<double>(bins))});
  Name place = node.emit("Floor", {node.emit("Div", {scaled, node.emit("Sub", {end, begin})})});
  Name isHighest = node.emit("Equal", {self, end});
  place =
      node.emit("Where", {isHighest, node.constant(ScalarType::F32, static_cast<double>(bins - 1)), place}); // N × 1
  Name numbers =
      node.emit("Range", {node.constant(ScalarType::I64, 0), node.constant(ScalarType::I64, static_cast<double>(bins)),
                          node.constant(ScalarType::I64, 1)});
  Name isIn = node.emit("Equal", {place, node.cast(numbers, ScalarType::F32)}); // N × bins
  Name counts = node.emit("ReduceSum", {node.cast(isIn, ScalarType::F32), node.constant({0})}, {{{"keepdims", 0}}});
  if (low == 0 && high == static_cast<double>(bins - 1) && bins > 1)
    node.shared(countOf(bins, counts)) = node.tensor("self");
  node.finish(node.cast(counts, node.resultMeta().type));
}

/// Of each row the number of experts whose rows end before it: its own, or their number behind all of them.
Name expertsByEnds(NodeTranslation &node, const Name &input, const Name &ends) {
  Name rows = node.emit("Unsqueeze", {rowNumbers(node, input), node.constant({1})});
  Name isBehind = node.emit("GreaterOrEqual", {rows, node.cast(ends, ScalarType::I64)});
  return node.emit("ReduceSum", {node.cast(isBehind, ScalarType::I64), node.constant({1})}, {{{"keepdims", 0}}});
}

/// Row t of the result is row t of the input times the matrix of the expert e with offs[e - 1] <= t < offs[e].
template <const char *Input, const char *Weight> void groupedProduct(NodeTranslation &node) {
  if (node.tensorRank(Input) != 2 || node.tensorRank(Weight) != 3 || !node.has("offs") || node.has("bias")) {
    if (!node.failed())
      node.error() << "multiplies groups of another form than rows with a matrix each, which hyc does not read";
    return;
  }
  ScalarType type = node.resultMeta().type;
  Name input = node.tensor(Input), ends = node.tensor("offs"); // (T, K), (E)
  Name experts = sortedExperts(node, ends, node.sizeOf(Weight, 0));
  if (experts.empty())
    experts = expertsByEnds(node, input, ends);
  node.finish(node.emit(onnx::kExpertMatMul, {node.operand(Input, type), node.operand(Weight, type), experts}));
}
constexpr char kInput[] = "input", kWeight[] = "weight", kSelf[] = "self", kMat2[] = "mat2";
} // namespace

void hyc::torchexport::addExperts(TranslationTable &table) {
  table["aten.histc.default"] = histogram;
  table["aten._grouped_mm.default"] = groupedProduct<kSelf, kMat2>;
  table["transformers.grouped_mm_fallback.default"] = groupedProduct<kInput, kWeight>;
}
