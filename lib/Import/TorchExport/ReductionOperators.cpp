// aten's reductions over some dimensions, or all.
#include "Translator.h"

#include <algorithm>
#include <limits>
#include <optional>

using namespace hyc::torchexport;

namespace {
/// What `dim` names, counted from the front; none stands for all.
std::vector<int64_t> reducedDims(NodeTranslation &node, const char *argument = "dim") {
  const int64_t rank = node.tensorRank("self");
  if (rank == 0) // torch lets dimension 0 of a scalar be named
    return {};
  std::vector<int64_t> dims = node.has(argument) ? node.integers(argument) : std::vector<int64_t>();
  for (int64_t &dim : dims)
    dim = dim < 0 ? dim + rank : dim;
  return dims;
}

Name reduced(NodeTranslation &node, const char *type, const Name &value, const std::vector<int64_t> &dims,
             bool keepsDims) {
  std::vector<Name> inputs{value};
  if (!dims.empty())
    inputs.push_back(node.constant(dims));
  return node.emit(type, inputs, {{{"keepdims", keepsDims}}});
}

/// In the result's type, which is that of a sum where integers are added up.
template <const char *Type> void reduce(NodeTranslation &node) {
  node.finish(reduced(node, Type, node.operand("self", node.resultMeta().type), reducedDims(node),
                      node.boolean("keepdim", false)));
}
constexpr char kSum[] = "ReduceSum", kMean[] = "ReduceMean", kMax[] = "ReduceMax", kMin[] = "ReduceMin",
               kProd[] = "ReduceProd";

/// Over what is no NaN; the mean of nothing is NaN again.
template <bool IsMean> void reduceNumbers(NodeTranslation &node) {
  const ScalarType type = node.resultMeta().type;
  const std::vector<int64_t> dims = reducedDims(node);
  const bool keepsDims = node.boolean("keepdim", false);
  Name self = node.operand("self", type);
  if (!isFloat(type))
    return node.finish(reduced(node, kSum, self, dims, keepsDims));
  Name isNothing = node.emit("IsNaN", {self});
  Name sum = reduced(node, kSum, node.emit("Where", {isNothing, node.constant(type, 0), self}), dims, keepsDims);
  if (!IsMean)
    return node.finish(sum);
  Name count = reduced(node, kSum, node.cast(node.emit("Not", {isNothing}), type), dims, keepsDims);
  node.finish(node.emit("Div", {sum, count}));
}

/// The least element and the greatest, of one dimension or of all.
void bothExtremes(NodeTranslation &node) {
  Name self = node.tensor("self");
  auto extreme = [&](const char *type) {
    return reduced(node, type, self, reducedDims(node), node.boolean("keepdim", false));
  };
  node.finish(extreme(kMin), 0);
  node.finish(extreme(kMax), 1);
}

/// Whether any element is true, or all are.
template <const char *Type> void reduceTruth(NodeTranslation &node) {
  Name ones = node.cast(node.operand("self", ScalarType::Bool), ScalarType::F32);
  Name result = reduced(node, Type, ones, reducedDims(node), node.boolean("keepdim", false));
  node.finish(node.cast(result, node.resultMeta().type));
}

/// The first of the extreme elements' positions: of a dimension, or of all elements in order.
Name extremePosition(NodeTranslation &node, const char *type, bool keepsDim) {
  Name self = node.tensor("self");
  int64_t dim = 0;
  if (node.has("dim"))
    dim = node.dimension("dim", node.tensorRank("self"));
  else
    self = node.emit("Reshape", {self, node.constant({-1})});
  return node.emit(type, {self}, {{{"axis", dim}, {"keepdims", keepsDim}}});
}

constexpr char kArgMax[] = "ArgMax", kArgMin[] = "ArgMin";
template <const char *Type> void position(NodeTranslation &node) {
  if (node.tensorRank("self") == 0) {
    node.finish(node.constant(ScalarType::I64, 0));
    return;
  }
  Name result = extremePosition(node, Type, node.boolean("keepdim", false) && node.has("dim"));
  if (node.boolean("keepdim", false) && !node.has("dim"))
    result = node.emit("Reshape", {result, node.constant(std::vector<int64_t>(node.tensorRank("self"), 1))});
  node.finish(result);
}

/// The extreme elements of a dimension, and where they are. The gradient is that of the one that is picked.
template <const char *Type> void extremeOfDimension(NodeTranslation &node) {
  int64_t rank = node.tensorRank("self"), dim = node.dimension("dim", rank);
  if (rank == 0) {
    node.finish(node.tensor("self"));
    node.finish(node.constant(ScalarType::I64, 0), 1);
    return;
  }
  Name at = extremePosition(node, Type, /*keepsDim=*/true);
  Name values = node.emit("GatherElements", {node.tensor("self"), at}, {{{"axis", dim}}});
  auto shaped = [&](const Name &value) {
    return node.boolean("keepdim", false) ? value : node.emit("Squeeze", {value, node.constant({dim})});
  };
  node.finish(shaped(values));
  node.finish(shaped(at), 1);
}

/// The elements over `dims`, or over all where there are none; nothing where a size is not known.
std::optional<double> knownCount(NodeTranslation &node, const std::vector<int64_t> &dims) {
  double count = 1;
  const std::vector<Size> &sizes = node.metaOf("self").sizes;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (!dims.empty() && std::find(dims.begin(), dims.end(), static_cast<int64_t>(dim)) == dims.end())
      continue;
    if (!sizes[dim].value)
      return std::nullopt;
    count *= static_cast<double>(*sizes[dim].value);
  }
  return count;
}

/// n / (n - correction) of the n elements over `dims`.
Name correctionFactor(NodeTranslation &node, const std::vector<int64_t> &dims, double correction, ScalarType type) {
  if (std::optional<double> count = knownCount(node, dims))
    return node.constant(type, *count / std::max(*count - correction, 0.0));
  Name shape = node.emit("Shape", {node.tensor("self")});
  if (!dims.empty())
    shape = node.emit("Gather", {shape, node.constant(dims)}, {{{"axis", 0}}});
  Name count = node.cast(node.emit("ReduceProd", {shape}, {{{"keepdims", 0}}}), type);
  Name less = node.emit("Sub", {count, node.constant(type, correction)});
  return node.emit("Div", {count, node.emit("Max", {less, node.constant(type, 0)})});
}

struct Moments {
  Name variance, mean;
};

/// Σ (x - mean)² / (n - correction), over `dim`.
Moments momentsOf(NodeTranslation &node, bool keepsDims) {
  ScalarType type = node.resultMeta().type;
  std::vector<int64_t> dims = reducedDims(node);
  double correction = node.has("correction") ? node.number("correction") : node.boolean("unbiased", true) ? 1 : 0;
  Name self = node.operand("self", type), mean = reduced(node, kMean, self, dims, true);
  Name centred = node.emit("Sub", {self, mean});
  Name variance = reduced(node, kMean, node.emit("Mul", {centred, centred}), dims, keepsDims);
  if (correction != 0)
    variance = node.emit("Mul", {variance, correctionFactor(node, dims, correction, type)});
  return {variance, reduced(node, kMean, self, dims, keepsDims)};
}

void variance(NodeTranslation &node) { node.finish(momentsOf(node, node.boolean("keepdim", false)).variance); }

Name deviationOf(NodeTranslation &node, const Moments &moments) {
  return rootOf(node, moments.variance, node.resultMeta().type);
}

void deviation(NodeTranslation &node) {
  node.finish(deviationOf(node, momentsOf(node, node.boolean("keepdim", false))));
}

template <bool IsDeviation> void withMean(NodeTranslation &node) {
  Moments moments = momentsOf(node, node.boolean("keepdim", false));
  node.finish(IsDeviation ? deviationOf(node, moments) : moments.variance);
  node.finish(moments.mean, 1);
}

void countNonzero(NodeTranslation &node) {
  Name isCounted = node.cast(node.operand("self", ScalarType::Bool), ScalarType::I64);
  node.finish(reduced(node, kSum, isCounted, reducedDims(node), /*keepsDims=*/false));
}

/// Whether each of one's elements is among another's.
void isAmong(NodeTranslation &node) {
  ScalarType type = node.commonType({"elements", "test_elements"});
  Name own = node.emit("Unsqueeze", {node.operand("elements", type), node.constant({-1})});
  Name others = node.emit("Reshape", {node.operand("test_elements", type), node.constant({-1})});
  Name isEqual = node.cast(node.emit("Equal", {own, others}), ScalarType::F32);
  Name isIn = node.cast(reduced(node, kMax, isEqual, {-1}, /*keepsDims=*/false), ScalarType::Bool);
  node.finish(node.boolean("invert", false) ? node.emit("Not", {isIn}) : isIn);
}

/// Σ x y over a dimension.
void productOfVectors(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name product = node.emit("Mul", {node.operand("x", type), node.operand("y", type)});
  const int64_t dim = node.integer("dim", -1);
  node.finish(reduced(node, kSum, product, {dim}, /*keepsDims=*/false));
}

void norm(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  double order = node.has("ord") ? node.number("ord") : node.number("p", 2);
  node.finish(normOf(node, node.operand("self", type), order, type, reducedDims(node), node.boolean("keepdim", false)));
}

/// log Σ exp(x), over what is left of the highest.
void logSumExp(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  std::vector<int64_t> dims = reducedDims(node);
  bool keepsDims = node.boolean("keepdim", false);
  Name self = node.operand("self", type), highest = reduced(node, kMax, self, dims, true);
  // Of a row of infinities there is nothing to be less than.
  Name isInfinite =
      node.emit("Equal", {node.emit("Abs", {highest}), node.constant(type, std::numeric_limits<double>::infinity())});
  Name by = node.emit("Where", {isInfinite, node.constant(type, 0), highest});
  Name sum = reduced(node, kSum, node.emit("Exp", {node.emit("Sub", {self, by})}), dims, keepsDims);
  if (!keepsDims)
    by = dims.empty() ? node.emit("Squeeze", {by}) : node.emit("Squeeze", {by, node.constant(dims)});
  node.finish(node.emit("Add", {node.emit("Log", {sum}), by}));
}
} // namespace

void hyc::torchexport::addReduction(TranslationTable &table) {
  table["aten.sum.default"] = reduce<kSum>;
  table["aten.sum.dim_IntList"] = reduce<kSum>;
  table["aten.mean.default"] = reduce<kMean>;
  table["aten.mean.dim"] = reduce<kMean>;
  table["aten.nansum.default"] = reduceNumbers<false>;
  table["aten.nanmean.default"] = reduceNumbers<true>;
  table["aten.aminmax.default"] = bothExtremes;
  table["aten.amax.default"] = reduce<kMax>;
  table["aten.amin.default"] = reduce<kMin>;
  table["aten.max.default"] = reduce<kMax>;
  table["aten.min.default"] = reduce<kMin>;
  table["aten.prod.default"] = reduce<kProd>;
  table["aten.prod.dim_int"] = reduce<kProd>;
  table["aten.max.dim"] = extremeOfDimension<kArgMax>;
  table["aten.min.dim"] = extremeOfDimension<kArgMin>;
  table["aten.argmax.default"] = position<kArgMax>;
  table["aten.argmin.default"] = position<kArgMin>;
  for (const char *overload : {"default", "dim", "dims"}) {
    table[std::string("aten.any.") + overload] = reduceTruth<kMax>;
    table[std::string("aten.all.") + overload] = reduceTruth<kMin>;
  }
  for (const char *overload : {"default", "dim", "correction"}) {
    table[std::string("aten.var.") + overload] = variance;
    table[std::string("aten.std.") + overload] = deviation;
    table[std::string("aten.var_mean.") + overload] = withMean<false>;
    table[std::string("aten.std_mean.") + overload] = withMean<true>;
  }
  for (const char *overload : {"default", "dim_IntList"})
    table[std::string("aten.count_nonzero.") + overload] = countNonzero;
  table["aten.isin.Tensor_Tensor"] = isAmong;
  table["aten.linalg_vecdot.default"] = productOfVectors;
  table["aten.linalg_vector_norm.default"] = norm;
  table["aten.norm.Scalar"] = norm;
  table["aten.norm.ScalarOpt_dim"] = norm;
  table["aten.logsumexp.default"] = logSumExp;
}
