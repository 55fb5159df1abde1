// aten operators that pick elements by tensors of indices, put them, and put them in order.
#include "Translator.h"

#include "llvm/ADT/STLExtras.h"

using namespace hyc::torchexport;

bool hyc::torchexport::dividesByFrequency(NodeTranslation &node) {
  if (!node.boolean("scale_grad_by_freq", false))
    return false;
  node.error()
      << "divides gradients by how often a row is looked up (scale_grad_by_freq), which hyc does not: export the "
         "model without";
  return true;
}

namespace {
Name shapeOf(NodeTranslation &node, const Name &value) { return node.emit("Shape", {value}); }

/// Indices on the leading dimensions, broadcast to one shape and joined: (…, indices).
Name coordinatesOf(NodeTranslation &node, const std::vector<Name> &indices) {
  Name shape = shapeOf(node, indices.front());
  for (const Name &index : llvm::drop_begin(indices)) {
    // Of what two zeros broadcast to.
    Name zeros = node.filled(ScalarType::I64, shape, 0);
    shape = shapeOf(node, node.emit("Add", {zeros, node.filled(ScalarType::I64, shapeOf(node, index), 0)}));
  }
  std::vector<Name> columns;
  for (const Name &index : indices)
    columns.push_back(node.emit("Unsqueeze", {node.emit("Expand", {index, shape}), node.constant({-1})}));
  return node.emit("Concat", columns, {{{"axis", -1}}});
}

/// The indices of an argument, without those that are None at its end; none where others are None.
std::vector<Name> leadingIndices(NodeTranslation &node) {
  std::vector<Name> indices = node.tensors("indices");
  while (!indices.empty() && indices.back().empty())
    indices.pop_back();
  return llvm::is_contained(indices, "") ? std::vector<Name>() : indices;
}

/// Where a tensor of truths is true: for each of its dimensions a vector of places. It has to be known when compiling.
std::vector<Name> placesOfTruth(NodeTranslation &node, const Name &mask, size_t rank) {
  Name places = node.emit("NonZero", {mask});
  std::vector<Name> vectors;
  for (size_t dim = 0; dim < rank; ++dim)
    vectors.push_back(
        node.emit("Gather", {places, node.constant(ScalarType::I64, static_cast<double>(dim))}, {{{"axis", 0}}}));
  return vectors;
}

/// The indices of an argument, masks among them as the places where they are true, and of how many dimensions the
/// widest is.
struct Indices {
  std::vector<Name> names; ///< empty for dimensions that are taken whole; none of these at the end
  int64_t rank = 0;
  std::vector<int64_t> picked; ///< the dimensions that have an index
};

Indices indicesOf(NodeTranslation &node) {
  Indices indices;
  std::vector<const TensorMeta *> metas = node.metasOf("indices");
  size_t given = 0; // metas are of those that are not None
  for (const Name &index : node.tensors("indices")) {
    const TensorMeta *meta = !index.empty() && given < metas.size() ? metas[given++] : nullptr;
    if (meta && meta->type == ScalarType::Bool) {
      llvm::append_range(indices.names, placesOfTruth(node, index, meta->sizes.size()));
      indices.rank = std::max<int64_t>(indices.rank, 1);
      continue;
    }
    indices.names.push_back(index);
    indices.rank = std::max(indices.rank, meta ? static_cast<int64_t>(meta->sizes.size()) : 0);
  }
  while (!indices.names.empty() && indices.names.back().empty())
    indices.names.pop_back();
  for (size_t dim = 0; dim < indices.names.size(); ++dim)
    if (!indices.names[dim].empty())
      indices.picked.push_back(static_cast<int64_t>(dim));
  return indices;
}

/// By several indices that are not all in front: the dimensions that they pick from are brought there. torch has what
/// they pick where the first of them is, or in front where others are between them.
Name pickBehind(NodeTranslation &node, const Indices &indices) {
  const int64_t rank = node.tensorRank("self"), depth = static_cast<int64_t>(indices.picked.size());
  std::vector<int64_t> order = indices.picked, back;
  std::vector<Name> given;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!llvm::is_contained(indices.picked, dim))
      order.push_back(dim);
  for (int64_t dim : indices.picked)
    given.push_back(indices.names[dim]);
  Name turned = node.emit("Transpose", {node.tensor("self")}, {{}, {}, {{"perm", order}}});
  Name picked = node.emit("GatherND", {turned, coordinatesOf(node, given)}); // (indices…, the rest…)
  const int64_t first = indices.picked.front();
  if (indices.picked.back() - first != depth - 1 || first == 0)
    return picked;
  for (int64_t dim = 0; dim < rank - depth + indices.rank; ++dim)
    back.push_back(dim < first ? indices.rank + dim : dim < first + indices.rank ? dim - first : dim);
  return node.emit("Transpose", {picked}, {{}, {}, {{"perm", back}}});
}

void pick(NodeTranslation &node) {
  Indices indices = indicesOf(node);
  if (indices.picked.empty()) {
    if (!node.failed())
      node.error() << "picks by no index";
    return;
  }
  if (indices.picked.size() == 1)
    node.finish(node.emit("Gather", {node.tensor("self"), indices.names.back()}, {{{"axis", indices.picked.front()}}}));
  else if (indices.picked.size() == indices.names.size())
    node.finish(node.emit("GatherND", {node.tensor("self"), coordinatesOf(node, indices.names)}));
  else
    node.finish(pickBehind(node, indices));
}

/// One element a position of the index, along one dimension: in the others a position's coordinates are its own.
void gather(NodeTranslation &node) {
  int64_t rank = node.tensorRank("self"), picked = node.dimension("dim", rank);
  if (rank == 0) { // one element, whatever the index's shape
    node.finish(node.emit("Expand", {node.tensor("self"), shapeOf(node, node.tensor("index"))}));
    return;
  }
  Name index = node.tensor("index"), shape = shapeOf(node, index);
  std::vector<Name> columns;
  for (int64_t dim = 0; dim < rank; ++dim) {
    Name column = index;
    if (dim != picked) {
      Name at = node.constant(ScalarType::I64, static_cast<double>(dim));
      Name size = node.emit("Gather", {shape, at}, {{{"axis", 0}}});
      Name own = node.emit("Range", {node.constant(ScalarType::I64, 0), size, node.constant(ScalarType::I64, 1)});
      std::vector<int64_t> along(rank, 1);
      along[dim] = -1;
      column = node.emit("Expand", {node.emit("Reshape", {own, node.constant(along)}), shape});
    }
    columns.push_back(node.emit("Unsqueeze", {column, node.constant({-1})}));
  }
  node.finish(node.emit("GatherND", {node.tensor("self"), node.emit("Concat", columns, {{{"axis", -1}}})}));
}

/// By integers of torch's embedding. The padding row is read as any other, and has no gradient.
void embedding(NodeTranslation &node) {
  if (dividesByFrequency(node))
    return;
  Attributes attributes{{{"axis", 0}, {hyc::onnx::kCountsFromFront, 1}}};
  if (int64_t padding = node.integer("padding_idx", -1); padding >= 0)
    attributes.integers.push_back({hyc::onnx::kPaddingRow, padding});
  node.finish(node.emit("Gather", {node.tensor("weight"), node.tensor("indices")}, attributes));
}

void placesNotZero(NodeTranslation &node) {
  node.finish(node.emit("Transpose", {node.emit("NonZero", {node.tensor("self")})}));
}

/// The same, a vector for each dimension.
void placesNotZeroApart(NodeTranslation &node) {
  std::vector<Name> vectors = placesOfTruth(node, node.tensor("self"), node.tensorRank("self"));
  for (size_t dim = 0; dim < vectors.size(); ++dim)
    node.finish(vectors[dim], dim);
}

/// What stands where the mask is true, in one row.
void selectMasked(NodeTranslation &node) {
  Name self = node.tensor("self"), mask = node.operand("mask", ScalarType::Bool);
  auto flat = [&](const Name &value, const Name &other) {
    // Each as large as both.
    Name whole = node.emit("Expand", {value, shapeOf(node, other)});
    return node.emit("Reshape", {whole, node.constant({-1})});
  };
  Name places = placesOfTruth(node, flat(mask, self), 1).front();
  node.finish(node.emit("Gather", {flat(self, mask), places}, {{{"axis", 0}}}));
}

void selectByIndex(NodeTranslation &node) {
  int64_t rank = node.tensorRank("self"), dim = node.dimension("dim", rank);
  Name index = node.tensor("index");
  if (node.tensorRank("index") == 0 && rank > 0)
    index = node.emit("Unsqueeze", {index, node.constant({0})});
  node.finish(rank == 0 ? node.tensor("self") : node.emit("Gather", {node.tensor("self"), index}, {{{"axis", dim}}}));
}

//===----------------------------------------------------------------------===//
// Put
//===----------------------------------------------------------------------===//

/// A tensor's first elements in each dimension, as many as the index has.
Name likeIndex(NodeTranslation &node, const char *argument) {
  int64_t rank = node.tensorRank(argument);
  Name value = node.tensor(argument);
  const std::vector<Size> &own = node.metaOf(argument).sizes, &index = node.metaOf("index").sizes;
  if (own == index)
    return value;
  return node.emit("Slice", {value, node.constant(std::vector<int64_t>(rank, 0)), shapeOf(node, node.tensor("index"))});
}

/// Of the elements that the index names, along one dimension.
void putAlong(NodeTranslation &node, Name values, const char *reduction) {
  int64_t rank = node.tensorRank("self"), dim = node.dimension("dim", rank);
  Name self = node.tensor("self");
  // Booleans add up to whether there is one.
  const bool isOr = node.metaOf("self").type == ScalarType::Bool && llvm::StringRef(reduction) == "add";
  if (isOr) {
    self = node.cast(self, ScalarType::I64);
    values = node.cast(values, ScalarType::I64);
  }
  if (rank == 0) {
    node.error() << "puts into a scalar, which hyc does not; export the model without it";
    return;
  }
  Name result = node.emit("ScatterElements", {self, node.tensor("index"), values},
                          {{{"axis", dim}}, {}, {}, {{"reduction", reduction}}});
  node.finish(isOr ? node.cast(result, ScalarType::Bool) : result);
}

void scatter(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  putAlong(node,
           node.has("src") ? likeIndex(node, "src")
                           : node.emit("Expand", {node.operand("value", type), shapeOf(node, node.tensor("index"))}),
           "none");
}

void scatterAdd(NodeTranslation &node) { putAlong(node, likeIndex(node, "src"), "add"); }

/// By indices with dimensions before or between them: those that have one are brought to the front, and back. The
/// values have what the indices name where the first of them is, or in front where others are between them, as torch
/// picks it.
void putBehind(NodeTranslation &node, const Indices &indices, const Name &values, bool adds) {
  const int64_t rank = node.tensorRank("self"), depth = static_cast<int64_t>(indices.picked.size());
  const int64_t first = indices.picked.front(), wide = indices.rank;
  std::vector<int64_t> order = indices.picked, others, back(rank), turn;
  std::vector<Name> given;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!llvm::is_contained(indices.picked, dim))
      others.push_back(dim);
  order.insert(order.end(), others.begin(), others.end());
  for (int64_t dim = 0; dim < rank; ++dim)
    back[order[dim]] = dim;
  for (int64_t dim : indices.picked)
    given.push_back(indices.names[dim]);
  Name self = node.tensor("self"), at = coordinatesOf(node, given), sizes = shapeOf(node, self);
  Name named = node.emit("Slice", {shapeOf(node, at), node.constant({0}), node.constant({-1})});
  auto sizesOf = [&](const std::vector<int64_t> &dims) {
    return node.emit("Gather", {sizes, node.constant(dims)}, {{{"axis", 0}}});
  };
  const bool isTogether = indices.picked.back() - first == depth - 1 && first > 0;
  std::vector<int64_t> before(others.begin(), others.begin() + (isTogether ? first : 0)),
      behind(others.begin() + static_cast<int64_t>(before.size()), others.end());
  std::vector<Name> shape{named};
  if (!before.empty())
    shape.insert(shape.begin(), sizesOf(before));
  if (!behind.empty())
    shape.push_back(sizesOf(behind));
  Name spread = node.emit("Expand", {values, node.emit("Concat", shape, {{{"axis", 0}}})});
  const auto lead = static_cast<int64_t>(before.size());
  for (int64_t dim = 0; dim < static_cast<int64_t>(others.size()) + wide; ++dim)
    turn.push_back(dim < wide ? lead + dim : dim < wide + lead ? dim - wide : dim);
  spread = node.emit("Transpose", {spread}, {{}, {}, {{"perm", turn}}});
  Name turned = node.emit("Transpose", {self}, {{}, {}, {{"perm", order}}});
  Name put = node.emit("ScatterND", {turned, at, spread}, {{}, {}, {}, {{"reduction", adds ? "add" : "none"}}});
  node.finish(node.emit("Transpose", {put}, {{}, {}, {{"perm", back}}}));
}

/// Values at what several indices name together, or where one of booleans is true.
void put(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name self = node.tensor("self"), values = node.operand("values", type);
  bool adds = node.boolean("accumulate", false);
  std::vector<Name> indices = leadingIndices(node);
  if (indices.empty()) {
    Indices all = indicesOf(node);
    if (llvm::any_of(node.metasOf("indices"), [](const TensorMeta *meta) { return meta->type == ScalarType::Bool; }))
      node.error() << "puts by a mask behind dimensions that are taken whole; write it with torch.where";
    else if (!all.picked.empty())
      putBehind(node, all, values, adds);
    else if (!node.failed())
      node.error() << "puts by no index";
    return;
  }
  if (node.metasOf("indices").front()->type == ScalarType::Bool) {
    if (indices.size() > 1 || node.tensorRank("values") > 0 || adds) {
      node.error()
          << "puts as many values as a mask has true elements, which is known only when it runs; write it with "
             "torch.where";
      return;
    }
    int64_t inside = node.tensorRank("self") - static_cast<int64_t>(node.metasOf("indices").front()->sizes.size());
    Name mask = indices.front();
    for (; inside > 0; --inside)
      mask = node.emit("Unsqueeze", {mask, node.constant({-1})});
    node.finish(node.emit("Where", {mask, values, self}));
    return;
  }
  Name at = coordinatesOf(node, indices);
  // The indices' shape, and of what each names the rest.
  Name lead = node.emit("Slice", {shapeOf(node, at), node.constant({0}), node.constant({-1})});
  Name rest = node.emit("Slice", {shapeOf(node, self), node.constant({static_cast<int64_t>(indices.size())}),
                                  node.constant({node.tensorRank("self")})});
  Name spread = node.emit("Expand", {values, node.emit("Concat", {lead, rest}, {{{"axis", 0}}})});
  node.finish(node.emit("ScatterND", {self, at, spread}, {{}, {}, {}, {{"reduction", adds ? "add" : "none"}}}));
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

/// The values and the positions of `count` elements of a dimension in order.
std::vector<Name> ordered(NodeTranslation &node, int64_t dim, const Name &count, bool largest) {
  return node.emitAll("TopK", {node.tensor("self"), count}, {{{"axis", dim}, {"largest", largest}, {"sorted", 1}}}, 2);
}

/// As many as a dimension has, which may be of the batch.
Name wholeSize(NodeTranslation &node, int64_t dim) {
  return node.emit("Slice", {shapeOf(node, node.tensor("self")), node.constant({dim}), node.constant({dim + 1})});
}

/// Of a scalar there is one.
bool finishScalar(NodeTranslation &node) {
  if (node.tensorRank("self") > 0)
    return false;
  node.finish(node.tensor("self"));
  node.finish(node.constant(ScalarType::I64, 0), 1);
  return true;
}

void topK(NodeTranslation &node) {
  if (finishScalar(node))
    return;
  int64_t dim = node.dimension("dim", node.tensorRank("self"), -1);
  std::vector<Name> results = ordered(node, dim, node.constant({node.integer("k")}), node.boolean("largest", true));
  node.finish(results[0]);
  node.finish(results[1], 1);
}

void sort(NodeTranslation &node) {
  if (finishScalar(node))
    return;
  int64_t dim = node.dimension("dim", node.tensorRank("self"), -1);
  std::vector<Name> results = ordered(node, dim, wholeSize(node, dim), node.boolean("descending", false));
  node.finish(results[0]);
  node.finish(results[1], 1);
}

void argsort(NodeTranslation &node) {
  if (node.tensorRank("self") == 0) {
    node.finish(node.constant(ScalarType::I64, 0));
    return;
  }
  int64_t dim = node.dimension("dim", node.tensorRank("self"), -1);
  node.finish(ordered(node, dim, wholeSize(node, dim), node.boolean("descending", false))[1]);
}
} // namespace

void hyc::torchexport::addIndex(TranslationTable &table) {
  table["aten.index.Tensor"] = pick;
  table["aten.gather.default"] = gather;
  table["aten.nonzero.default"] = placesNotZero;
  table["aten.nonzero_numpy.default"] = placesNotZeroApart;
  table["aten.masked_select.default"] = selectMasked;
  table["aten.embedding.default"] = embedding;
  table["aten.index_select.default"] = selectByIndex;
  table["aten.scatter.src"] = scatter;
  table["aten.scatter.value"] = scatter;
  table["aten.scatter_add.default"] = scatterAdd;
  table["aten.index_put.default"] = put;
  table["aten.topk.default"] = topK;
  table["aten.sort.default"] = sort;
  table["aten.sort.stable"] = sort;
  table["aten.argsort.default"] = argsort;
  table["aten.argsort.stable"] = argsort;
}
