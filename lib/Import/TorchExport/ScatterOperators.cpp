// aten operators that put values at positions along one dimension, or where a mask is true, and those that look
// positions up: in order, or beside one another.
#include "Translator.h"

#include <algorithm>
#include <limits>

using namespace hyc::torchexport;

namespace {
Name shapeOf(NodeTranslation &node, const Name &value) { return node.emit("Shape", {value}); }

/// A part of a vector.
Name partOf(NodeTranslation &node, const Name &vector, int64_t begin,
            int64_t end = std::numeric_limits<int64_t>::max()) {
  return node.emit("Slice", {vector, node.constant({begin}), node.constant({end})});
}

Name joined(NodeTranslation &node, std::vector<Name> parts) {
  return node.emit("Concat", std::move(parts), {{{"axis", 0}}});
}

/// With dimension `dim` first, or, turned back, where it was.
Name withFirst(NodeTranslation &node, const Name &value, int64_t rank, int64_t dim, bool turnsBack) {
  if (dim == 0)
    return value;
  std::vector<int64_t> order;
  for (int64_t each = 0; each < rank; ++each)
    order.push_back(!turnsBack ? (each == 0     ? dim
                                  : each <= dim ? each - 1
                                                : each)
                               : (each == dim  ? 0
                                  : each < dim ? each + 1
                                               : each));
  return node.emit("Transpose", {value}, {{}, {}, {{"perm", order}}});
}

Name putIntoSelf(NodeTranslation &node, int64_t dim, const Name &positions, const Name &values, const char *reduction) {
  const int64_t rank = node.tensorRank("self") + node.isComplex("self"); // the parts stand last
  return putAt(node, node.tensor("self"), rank, dim, positions, values, reduction);
}

/// The dimension that the node names; none, reported, of a scalar.
std::optional<int64_t> dimensionOfSelf(NodeTranslation &node, const char *argument = "dim") {
  int64_t rank = node.tensorRank("self");
  if (rank == 0 && !node.failed())
    node.error() << "puts into a scalar, which hyc does not; export the model without it";
  if (node.failed())
    return std::nullopt;
  return node.dimension(argument, rank, 0);
}

Name asVector(NodeTranslation &node, const char *argument) {
  return node.emit("Reshape", {node.tensor(argument), node.constant({-1})});
}

/// self plus alpha times the source's parts, at the positions of the index.
void addAtIndex(NodeTranslation &node) {
  std::optional<int64_t> dim = dimensionOfSelf(node);
  if (!dim)
    return;
  ScalarType type = node.metaOf("self").type;
  Name source = withFirst(node, node.tensor("source"), node.tensorRank("self"), *dim, false);
  if (double alpha = node.number("alpha", 1); alpha != 1)
    source = node.emit("Mul", {source, node.constant(type, alpha)});
  node.finish(putIntoSelf(node, *dim, asVector(node, "index"), source, "add"));
}

void copyToIndex(NodeTranslation &node) {
  if (std::optional<int64_t> dim = dimensionOfSelf(node))
    node.finish(putIntoSelf(node, *dim, asVector(node, "index"),
                            withFirst(node, node.tensor("source"), node.tensorRank("self"), *dim, false), "none"));
}

void fillAtIndex(NodeTranslation &node) {
  std::optional<int64_t> dim = dimensionOfSelf(node);
  if (!dim)
    return;
  Name index = asVector(node, "index"),
       self = withFirst(node, node.tensor("self"), node.tensorRank("self"), *dim, false);
  Name shape = joined(node, {shapeOf(node, index), partOf(node, shapeOf(node, self), 1)});
  Name values = node.emit("Expand", {node.operand("value", node.metaOf("self").type), shape});
  node.finish(putIntoSelf(node, *dim, index, values, "none"));
}

void putSelected(NodeTranslation &node) {
  std::optional<int64_t> dim = dimensionOfSelf(node);
  if (!dim)
    return;
  int64_t size = node.sizeOf("self", *dim), index = node.integer("index");
  index = index < 0 ? index + size : index;
  if (!node.failed() && (index < 0 || index >= size))
    node.error() << "puts at index " << node.integer("index") << " of a dimension of size " << size;
  Name source = node.emit("Unsqueeze", {node.operand("src", node.metaOf("self").type), node.constant({*dim})});
  node.finish(putRange(node, node.tensor("self"), *dim, size, index, index + 1, source));
}

void putSlice(NodeTranslation &node) {
  std::optional<int64_t> dim = dimensionOfSelf(node);
  if (!dim)
    return;
  int64_t size = node.sizeOf("self", *dim), step = node.integer("step", 1);
  auto bound = [&](const char *name, int64_t otherwise) {
    int64_t given = node.integer(name, otherwise);
    return std::clamp<int64_t>(given < 0 ? given + size : given, 0, size);
  };
  int64_t begin = bound("start", 0), end = bound("end", size);
  if (!node.failed() && step < 1)
    node.error() << "steps by " << step << ", expected at least 1";
  if (node.failed())
    return;
  Name source = node.operand("src", node.metaOf("self").type);
  if (begin >= end)
    return node.finish(node.tensor("self"));
  if (step == 1)
    return node.finish(putRange(node, node.tensor("self"), *dim, size, begin, end, source));
  Name positions = node.emit("Range", {node.constant(ScalarType::I64, static_cast<double>(begin)),
                                       node.constant(ScalarType::I64, static_cast<double>(end)),
                                       node.constant(ScalarType::I64, static_cast<double>(step))});
  Name first = withFirst(node, source, node.tensorRank("self") + node.isComplex("self"), *dim, false);
  node.finish(putIntoSelf(node, *dim, positions, first, "none"));
}

/// What is put into a tensor, and how.
struct Putting {
  Name self, index, source, isTouched;
  Attributes adding; ///< of a node that adds up what meets
  bool keepsSelf;
};

/// The least or greatest of what meets at each place: found without a gradient, then the mean of all that equal it,
/// among which torch shares the gradient out.
Name extremeAt(NodeTranslation &node, const Putting &put, const std::string &how, ScalarType type) {
  Attributes choosing = put.adding;
  choosing.texts = {{"reduction", how == "amin" ? "min" : "max"}};
  const double infinity = std::numeric_limits<double>::infinity(), worst = how == "amin" ? infinity : -infinity;
  Name start = put.keepsSelf ? put.self : node.emit("Where", {put.isTouched, node.constant(type, worst), put.self});
  Name chosen =
      node.emit(hyc::onnx::kStopGradient, {node.emit("ScatterElements", {start, put.index, put.source}, choosing)});
  Name there = node.emit("GatherElements", {chosen, put.index}, {put.adding.integers});
  Name zero = node.constant(type, 0), isSource = node.emit("Equal", {put.source, there});
  // Whatever was there before counts where it is not replaced.
  Name isSelf = put.keepsSelf ? node.emit("Equal", {put.self, chosen}) : node.emit("Not", {put.isTouched});
  auto sum = [&](const Name &ofSelf, const Name &ofSource) {
    return node.emit(
        "ScatterElements",
        {node.emit("Where", {isSelf, ofSelf, zero}), put.index, node.emit("Where", {isSource, ofSource, zero})},
        put.adding);
  };
  Name one = node.constant(type, 1);
  return node.emit("Div", {sum(put.self, put.source), sum(one, one)});
}

/// Values at one place added up, multiplied, their mean (a sum over their number), or their extreme.
void reduceInto(NodeTranslation &node) {
  std::optional<int64_t> dim = dimensionOfSelf(node);
  if (!dim)
    return;
  const std::string how = node.text("reduce", "");
  const bool isMean = how == "mean", isProduct = how == "prod", keepsSelf = node.boolean("include_self", true);
  ScalarType type = node.resultMeta().type;
  const bool isExtreme = how == "amin" || how == "amax";
  if ((!isMean && !isExtreme && !isProduct && how != "sum") || ((isMean || isExtreme) && !isFloat(type)) ||
      type == ScalarType::Bool) {
    node.error()
        << "combines what it puts by \"" << how
        << "\"; expected \"sum\" or \"prod\" of numbers, or \"mean\", \"amin\" or \"amax\" of floating-point ones";
    return;
  }
  Attributes adding{{{"axis", *dim}}, {}, {}, {{"reduction", "add"}}};
  Name self = node.tensor("self"), index = node.tensor("index");
  Name ones = node.emit("Expand", {node.constant(type, 1), shapeOf(node, index)});
  Name counts =
      node.emit("ScatterElements", {node.filled(type, shapeOf(node, self), keepsSelf ? 1 : 0), index, ones}, adding);
  Name isTouched = node.emit("Greater", {counts, node.constant(type, 0)});
  Name start = keepsSelf ? self : node.emit("Where", {isTouched, node.constant(type, isProduct ? 1 : 0), self});
  Name source = node.emit("Slice", {node.tensor("src"), node.constant(std::vector<int64_t>(node.tensorRank("src"), 0)),
                                    shapeOf(node, index)});
  if (isExtreme)
    return node.finish(extremeAt(node, {node.tensor("self"), index, source, isTouched, adding, keepsSelf}, how, type));
  Attributes joining = adding;
  joining.texts = {{"reduction", isProduct ? "mul" : "add"}};
  Name result = node.emit("ScatterElements", {start, index, source}, joining);
  if (isMean)
    result = node.emit("Div", {result, node.emit("Max", {counts, node.constant(type, 1)})});
  node.finish(result);
}

/// The source's elements, in order, where the mask is true.
void putMasked(NodeTranslation &node) {
  Name own = node.operand("mask", ScalarType::Bool);
  Name self = node.emit("Expand", {node.tensor("self"), shapeOf(node, own)}), shape = shapeOf(node, self);
  Name mask = node.emit("Expand", {own, shape});
  Name flat = node.cast(node.emit("Reshape", {mask, node.constant({-1})}), ScalarType::I64);
  Name place = node.emit(
      "Sub", {node.emit("CumSum", {flat, node.constant(ScalarType::I64, 0)}), node.constant(ScalarType::I64, 1)});
  Name source = asVector(node, "source");
  Name last = node.emit("Sub", {node.emit("Reshape", {shapeOf(node, source), node.constant(std::vector<int64_t>{})}),
                                node.constant(ScalarType::I64, 1)});
  place = node.emit("Min", {node.emit("Max", {place, node.constant(ScalarType::I64, 0)}), last});
  Name picked = node.emit("Gather", {source, place}, {{{"axis", 0}}});
  node.finish(node.emit("Where", {mask, node.emit("Reshape", {picked, shape}, {{{"allowzero", 1}}}), self}));
}

//===----------------------------------------------------------------------===//
// Looked up
//===----------------------------------------------------------------------===//

/// Each repeated along the dimensions in which the other is longer, but for `dim`.
void takeAlong(NodeTranslation &node) {
  int64_t rank = node.tensorRank("self");
  if (!node.has("dim")) {
    node.finish(node.emit("GatherElements", {asVector(node, "self"), asVector(node, "indices")}, {{{"axis", 0}}}));
    return;
  }
  int64_t dim = node.dimension("dim", rank);
  Name self = node.tensor("self"), indices = node.tensor("indices");
  auto spread = [&](const Name &value, const Name &other) {
    Name shape = shapeOf(node, other);
    return node.emit("Expand", {value, joined(node, {partOf(node, shape, 0, dim), node.constant({1}),
                                                     partOf(node, shape, dim + 1)})});
  };
  node.finish(node.emit("GatherElements", {spread(self, indices), spread(indices, self)}, {{{"axis", dim}}}));
}

/// How many boundaries lie below each value, or at it.
void countBoundaries(NodeTranslation &node, const char *values, const char *boundaries) {
  bool isRight = node.boolean("right", false) || node.text("side", "left") == "right";
  ScalarType type = node.commonType({values, boundaries});
  Name own = node.emit("Unsqueeze", {node.operand(values, type), node.constant({-1})});
  Name bounds = node.operand(boundaries, type);
  if (node.tensorRank(boundaries) > 1)
    bounds = node.emit("Unsqueeze", {bounds, node.constant({-2})});
  Name isBelow = node.emit(isRight ? "LessOrEqual" : "Less", {bounds, own});
  Name count = node.emit("ReduceSum", {node.cast(isBelow, ScalarType::F32), node.constant({-1})}, {{{"keepdims", 0}}});
  node.finish(node.cast(count, node.resultMeta().type));
}
void bucketize(NodeTranslation &node) { countBoundaries(node, "self", "boundaries"); }
void searchSorted(NodeTranslation &node) {
  if (node.has("sorter"))
    node.error() << "searches by an order of its own (sorter), which hyc does not read";
  else
    countBoundaries(node, "self", "sorted_sequence");
}

void oneHot(NodeTranslation &node) {
  int64_t classes = node.integer("num_classes", -1);
  if (classes < 1) {
    if (!node.failed())
      node.error() << "has as many classes as its largest value, known only when it runs; give num_classes";
    return;
  }
  Name numbers = node.emit("Range", {node.constant(ScalarType::I64, 0),
                                     node.constant(ScalarType::I64, static_cast<double>(classes)),
                                     node.constant(ScalarType::I64, 1)});
  Name own = node.emit("Unsqueeze", {node.operand("self", ScalarType::I64), node.constant({-1})});
  node.finish(node.cast(node.emit("Equal", {own, numbers}), ScalarType::I64));
}
} // namespace

Name hyc::torchexport::putAt(NodeTranslation &node, const Name &self, int64_t tensorRank, int64_t dim,
                             const Name &positions, const Name &values, const char *reduction) {
  Name first = withFirst(node, self, tensorRank, dim, false);
  Name at = node.emit("Unsqueeze", {positions, node.constant({-1})});
  Name put = node.emit("ScatterND", {first, at, values}, {{}, {}, {}, {{"reduction", reduction}}});
  return withFirst(node, put, tensorRank, dim, true);
}

Name hyc::torchexport::putRange(NodeTranslation &node, const Name &self, int64_t dim, int64_t size, int64_t begin,
                                int64_t end, const Name &values) {
  auto part = [&](int64_t from, int64_t to) {
    return node.emit("Slice", {self, node.constant({from}), node.constant({to}), node.constant({dim})});
  };
  std::vector<Name> parts;
  if (begin > 0)
    parts.push_back(part(0, begin));
  parts.push_back(values);
  if (end < size)
    parts.push_back(part(end, size));
  return parts.size() == 1 ? values : node.emit("Concat", parts, {{{"axis", dim}}});
}

void hyc::torchexport::addScatter(TranslationTable &table) {
  table["aten.index_add.default"] = addAtIndex;
  table["aten.index_copy.default"] = copyToIndex;
  table["aten.index_fill.int_Scalar"] = fillAtIndex;
  table["aten.index_fill.int_Tensor"] = fillAtIndex;
  table["aten.select_scatter.default"] = putSelected;
  table["aten.slice_scatter.default"] = putSlice;
  table["aten.scatter_reduce.two"] = reduceInto;
  table["aten.masked_scatter.default"] = putMasked;
  table["aten.take_along_dim.default"] = takeAlong;
  table["aten.bucketize.Tensor"] = bucketize;
  table["aten.searchsorted.Tensor"] = searchSorted;
  table["aten.one_hot.default"] = oneHot;
}
