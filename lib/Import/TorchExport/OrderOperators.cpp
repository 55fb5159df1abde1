// What depends on the order of a dimension's elements: running products and extremes, medians, quantiles, modes.
#include "Translator.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace hyc::torchexport;

namespace {
constexpr int64_t kEnd = INT64_MAX;

Name number(NodeTranslation &node, double value) { return node.constant(node.resultMeta().type, value); }

Name partOf(NodeTranslation &node, const Name &value, int64_t dim, int64_t begin, int64_t end) {
  return node.emit("Slice", {value, node.constant({begin}), node.constant({end}), node.constant({dim})});
}

Name withoutDim(NodeTranslation &node, const Name &value, int64_t dim) {
  return node.boolean("keepdim", false) ? value : node.emit("Squeeze", {value, node.constant({dim})});
}

/// Of a scalar there is one element, the first.
bool finishScalar(NodeTranslation &node) {
  if (node.tensorRank("self") > 0)
    return false;
  node.finish(node.operand("self", node.resultMeta().type));
  node.finish(node.constant(ScalarType::I64, 0), 1);
  return true;
}

//===----------------------------------------------------------------------===//
// Running values
//===----------------------------------------------------------------------===//

/// Values that stand beside one another, such as elements and where they are.
using Values = std::vector<Name>;

/// What `combine` makes of all elements up to each one: each is combined with the one 1, then 2, 4, … places before it,
/// so that log2 of the size are enough. Sizes have to be known.
Values running(NodeTranslation &node, Values values, int64_t dim, int64_t size,
               llvm::function_ref<Values(const Values &before, const Values &own)> combine) {
  for (int64_t step = 1; step < size && !node.failed(); step *= 2) {
    Values first, before, own;
    for (const Name &value : values) {
      first.push_back(partOf(node, value, dim, 0, step));
      before.push_back(partOf(node, value, dim, 0, size - step));
      own.push_back(partOf(node, value, dim, step, kEnd));
    }
    Values combined = combine(before, own);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = node.emit("Concat", {first[i], combined[i]}, {{{"axis", dim}}});
  }
  return values;
}

void runningProduct(NodeTranslation &node) {
  if (finishScalar(node))
    return;
  int64_t dim = node.dimension("dim", node.tensorRank("self"));
  Values self{node.operand("self", node.resultMeta().type)};
  node.finish(running(node, self, dim, node.sizeOf("self", dim), [&](const Values &before, const Values &own) {
                return Values{node.emit("Mul", {before[0], own[0]})};
              }).front());
}

/// log(exp(a) + exp(b)), by what the larger is more; nothing is subtracted where both are the same infinity.
Name sumOfExponentials(NodeTranslation &node, const Name &a, const Name &b) {
  Name isSame = node.emit("Equal", {a, b});
  Name apart = node.emit("Sub", {a, node.emit("Where", {isSame, number(node, 0), b})});
  apart = node.emit("Where", {isSame, number(node, 0), apart});
  Name less = node.emit("Neg", {node.emit("Abs", {apart})});
  return node.emit("Add", {node.emit("Max", {a, b}), node.emit("Softplus", {less})});
}

void runningSumOfExponentials(NodeTranslation &node) {
  if (finishScalar(node))
    return;
  int64_t dim = node.dimension("dim", node.tensorRank("self"));
  Values self{node.operand("self", node.resultMeta().type)};
  node.finish(running(node, self, dim, node.sizeOf("self", dim), [&](const Values &before, const Values &own) {
                return Values{sumOfExponentials(node, before[0], own[0])};
              }).front());
}

/// log2(2^a + 2^b)
void sumOfTwoPowers(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  auto scaled = [&](const Name &value, double factor) {
    return node.emit("Mul", {value, node.constant(type, factor)});
  };
  Name a = scaled(node.operand("self", type), M_LN2), b = scaled(node.operand("other", type), M_LN2);
  node.finish(scaled(sumOfExponentials(node, a, b), 1 / M_LN2));
}

void sumOfTwoExponentials(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  node.finish(sumOfExponentials(node, node.operand("self", type), node.operand("other", type)));
}

/// The extreme so far, and the last place that it is at.
constexpr char kAtLeast[] = "GreaterOrEqual", kAtMost[] = "LessOrEqual";
template <const char *IsBeyond> void runningExtreme(NodeTranslation &node) {
  if (finishScalar(node))
    return;
  int64_t rank = node.tensorRank("self"), dim = node.dimension("dim", rank), size = node.sizeOf("self", dim);
  Name self = node.tensor("self");
  std::vector<int64_t> along(rank, 1);
  along[dim] = -1;
  Name counted =
      node.emit("Range", {node.constant(ScalarType::I64, 0), node.constant(ScalarType::I64, static_cast<double>(size)),
                          node.constant(ScalarType::I64, 1)});
  Name places =
      node.emit("Expand", {node.emit("Reshape", {counted, node.constant(along)}), node.emit("Shape", {self})});
  Values result = running(node, {self, places}, dim, size, [&](const Values &before, const Values &own) {
    Name isOwn = node.emit(IsBeyond, {own[0], before[0]});
    return Values{node.emit("Where", {isOwn, own[0], before[0]}), node.emit("Where", {isOwn, own[1], before[1]})};
  });
  node.finish(result[0]);
  node.finish(result[1], 1);
}

//===----------------------------------------------------------------------===//
// Elements by their rank
//===----------------------------------------------------------------------===//

/// The smallest `count` elements of a dimension in order, and where they are.
std::vector<Name> smallest(NodeTranslation &node, const Name &self, int64_t dim, int64_t count) {
  return node.emitAll("TopK", {self, node.constant({count})}, {{{"axis", dim}, {"largest", 0}, {"sorted", 1}}}, 2);
}

/// The k-th smallest element, counted from 1.
void finishRanked(NodeTranslation &node, int64_t dim, int64_t k) {
  const int64_t size = node.sizeOf("self", dim);
  if (!node.failed() && (k < 1 || k > size))
    node.error() << "takes element " << k << " of " << size << " in order, expected 1 to " << size;
  if (node.failed())
    return;
  std::vector<Name> sorted = smallest(node, node.tensor("self"), dim, k);
  for (size_t i = 0; i < 2; ++i)
    node.finish(withoutDim(node, partOf(node, sorted[i], dim, k - 1, k), dim), i);
}

void kthValue(NodeTranslation &node) {
  if (!finishScalar(node))
    finishRanked(node, node.dimension("dim", node.tensorRank("self"), -1), node.integer("k"));
}

/// The lower one of two in the middle.
void medianOfDim(NodeTranslation &node) {
  if (finishScalar(node))
    return;
  int64_t dim = node.dimension("dim", node.tensorRank("self"));
  finishRanked(node, dim, (node.sizeOf("self", dim) + 1) / 2);
}

/// In the order of the first dimension.
void sorted(NodeTranslation &node) {
  if (finishScalar(node))
    return;
  const int64_t size = node.sizeOf("self", 0);
  if (!node.failed())
    node.finish(smallest(node, node.tensor("self"), 0, size)[0]);
}

/// How many elements all known dimensions have together.
int64_t countAll(NodeTranslation &node) {
  int64_t count = 1;
  for (int64_t dim = 0; dim < node.tensorRank("self") && count < (int64_t(1) << 40); ++dim)
    count *= node.sizeOf("self", dim);
  return count;
}

void medianOfAll(NodeTranslation &node) {
  const int64_t middle = (countAll(node) + 1) / 2;
  if (node.failed())
    return;
  Name flat = node.emit("Reshape", {node.tensor("self"), node.constant({-1})});
  Name last = partOf(node, smallest(node, flat, 0, middle)[0], 0, middle - 1, middle);
  node.finish(node.emit("Squeeze", {last, node.constant({0})}));
}

/// The middle one of those elements of a dimension that are numbers, the lower one of two, and where it is. What is no
/// number stands behind all that are; where nothing else is there, it is the result.
std::vector<Name> middleNumber(NodeTranslation &node, const Name &self, int64_t dim, int64_t size) {
  const ScalarType type = node.metaOf("self").type;
  Name isNone = node.emit("IsNaN", {self});
  Name behind = node.constant(type, std::numeric_limits<double>::infinity());
  std::vector<Name> sorted = smallest(node, node.emit("Where", {isNone, behind, self}), dim, size);
  auto count = [&](int64_t value) { return node.constant(ScalarType::I64, static_cast<double>(value)); };
  Name isNumber = node.cast(node.emit("Not", {isNone}), ScalarType::I64);
  Name numbers = node.emit("ReduceSum", {isNumber, node.constant({dim})}, {{{"keepdims", 1}}});
  Name before = node.emit("Sub", {node.emit("Max", {numbers, count(1)}), count(1)});
  Name middle = node.emit("Div", {before, count(2)});
  for (Name &each : sorted)
    each = node.emit("GatherElements", {each, middle}, {{{"axis", dim}}});
  Name nothing = node.constant(type, std::numeric_limits<double>::quiet_NaN());
  sorted[0] = node.emit("Where", {node.emit("Equal", {numbers, count(0)}), nothing, sorted[0]});
  return sorted;
}

void medianOfNumbersOfDim(NodeTranslation &node) {
  if (!isFloat(node.resultMeta().type))
    return medianOfDim(node);
  if (finishScalar(node))
    return;
  const int64_t dim = node.dimension("dim", node.tensorRank("self")), size = node.sizeOf("self", dim);
  if (node.failed())
    return;
  std::vector<Name> middle = middleNumber(node, node.tensor("self"), dim, size);
  for (size_t i = 0; i < 2; ++i)
    node.finish(withoutDim(node, middle[i], dim), i);
}

void medianOfAllNumbers(NodeTranslation &node) {
  if (!isFloat(node.resultMeta().type))
    return medianOfAll(node);
  const int64_t size = countAll(node);
  if (node.failed())
    return;
  Name flat = node.emit("Reshape", {node.tensor("self"), node.constant({-1})});
  node.finish(node.emit("Squeeze", {middleNumber(node, flat, 0, size)[0], node.constant({0})}));
}

/// The element that there are most of, the smallest of several such, and its last place.
void mode(NodeTranslation &node) {
  if (finishScalar(node))
    return;
  int64_t rank = node.tensorRank("self"), dim = node.dimension("dim", rank, -1), size = node.sizeOf("self", dim);
  constexpr int64_t kMostElements = 4096; // pairs are compared
  if (!node.failed() && (size < 1 || size > kMostElements))
    node.error() << "compares " << size << " elements with one another, expected 1 to " << kMostElements;
  if (node.failed())
    return;
  std::vector<Name> sorted = smallest(node, node.tensor("self"), dim, size);
  auto apart = [&](int64_t at) { return node.emit("Unsqueeze", {sorted[0], node.constant({at})}); };
  Name isSame = node.cast(node.emit("Equal", {apart(dim), apart(dim + 1)}), ScalarType::I64);
  Name counts = node.emit("ReduceSum", {isSame, node.constant({dim})}, {{{"keepdims", 0}}});
  Name first = node.emit("ArgMax", {counts}, {{{"axis", dim}, {"keepdims", 1}}});
  // Equal ones stand together.
  Name most = node.emit("GatherElements", {counts, first}, {{{"axis", dim}}});
  Name last = node.emit("Sub", {node.emit("Add", {first, most}), node.constant(ScalarType::I64, 1)});
  for (size_t i = 0; i < 2; ++i)
    node.finish(withoutDim(node, node.emit("GatherElements", {sorted[i], last}, {{{"axis", dim}}}), dim), i);
}

/// What lies so far, from 0 to 1, between the smallest element and the largest: one share, or a vector of them, whose
/// results are dimension 0 then.
template <bool IsNumber> void quantile(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  const bool isOne = IsNumber || node.metaOf("q").sizes.empty(), isWhole = !node.has("dim");
  const bool keepsDim = node.boolean("keepdim", false);
  const int64_t rank = isWhole ? 1 : std::max<int64_t>(node.tensorRank("self"), 1);
  const int64_t dim = isWhole ? 0 : node.dimension("dim", rank);
  const int64_t size = isWhole || node.tensorRank("self") == 0 ? countAll(node) : node.sizeOf("self", dim);
  if (node.failed())
    return;
  Name self = node.tensor("self");
  if (isWhole || node.tensorRank("self") == 0)
    self = node.emit("Reshape", {self, node.constant({-1})});
  Name sorted = smallest(node, self, dim, size)[0];
  Name place = node.emit("Mul", {node.operand("q", type), node.constant(type, static_cast<double>(size - 1))});
  place = node.emit("Reshape", {place, node.constant({-1})});
  auto at = [&](const Name &where) { // with the shares where the dimension was
    return node.emit("Gather", {sorted, node.cast(where, ScalarType::I64)}, {{{"axis", dim}}});
  };
  const std::string how = node.text("interpolation", "linear");
  Name low = node.emit("Floor", {place}), high = node.emit("Ceil", {place}), result;
  if (how == "lower" || how == "higher" || how == "nearest") {
    result = at(how == "lower" ? low : how == "higher" ? high : node.emit("Round", {place}));
  } else {
    std::vector<int64_t> along(rank, 1);
    along[dim] = -1;
    Name share = how == "midpoint" ? node.constant(type, 0.5) : node.emit("Sub", {place, low});
    if (how != "midpoint")
      share = node.emit("Reshape", {share, node.constant(along)});
    Name below = at(low), way = node.emit("Sub", {at(high), below});
    result = node.emit("Add", {below, node.emit("Mul", {way, share})});
  }
  // Shares come first; of the dimension itself 1 is left where it is kept.
  std::vector<int64_t> order{dim};
  for (int64_t each = 0; each < rank; ++each)
    if (each != dim)
      order.push_back(each);
  result = node.emit("Transpose", {result}, {{}, {}, {{"perm", order}}});
  if (keepsDim && isWhole)
    result = node.emit("Reshape", {result, node.constant([&] {
                                     std::vector<int64_t> ones(node.tensorRank("self") + 1, 1);
                                     ones.front() = -1;
                                     return ones;
                                   }())});
  else if (keepsDim && node.tensorRank("self") > 0)
    result = node.emit("Unsqueeze", {result, node.constant({dim + 1})});
  node.finish(isOne ? node.emit("Squeeze", {result, node.constant({0})}) : result);
}
} // namespace

void hyc::torchexport::addOrder(TranslationTable &table) {
  table["aten.cumprod.default"] = runningProduct;
  table["aten.logcumsumexp.default"] = runningSumOfExponentials;
  table["aten.logaddexp.default"] = sumOfTwoExponentials;
  table["aten.cummax.default"] = runningExtreme<kAtLeast>;
  table["aten.cummin.default"] = runningExtreme<kAtMost>;
  table["aten.kthvalue.default"] = kthValue;
  table["aten.median.dim"] = medianOfDim;
  table["aten.median.default"] = medianOfAll;
  table["aten.nanmedian.dim"] = medianOfNumbersOfDim;
  table["aten.nanmedian.default"] = medianOfAllNumbers;
  table["aten.msort.default"] = sorted;
  table["aten.logaddexp2.default"] = sumOfTwoPowers;
  table["aten.mode.default"] = mode;
  table["aten.quantile.scalar"] = quantile<true>;
  table["aten.quantile.default"] = quantile<false>;
}
