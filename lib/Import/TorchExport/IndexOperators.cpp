// aten operators that pick elements by tensors of indices, put them, and put them in order.
#include "Translator.h"

#include "llvm/ADT/STLExtras.h"

using namespace hyc::torchexport;

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

void pick(NodeTranslation &node) {
  std::vector<Name> indices = node.tensors("indices");
  int64_t given = llvm::count_if(indices, [](const Name &name) { return !name.empty(); });
  while (!indices.empty() && indices.back().empty())
    indices.pop_back();
  if (given == 1) {
    node.finish(node.emit("Gather", {node.tensor("self"), indices.back()},
                          {{{"axis", static_cast<int64_t>(indices.size()) - 1}}}));
    return;
  }
  if (given != static_cast<int64_t>(indices.size()) || given == 0) {
    node.error() << "picks by several indices with dimensions between them, which hyc does not";
    return;
  }
  node.finish(node.emit("GatherND", {node.tensor("self"), coordinatesOf(node, indices)}));
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
  Attributes attributes{{{"axis", 0}}};
  if (int64_t padding = node.integer("padding_idx", -1); padding >= 0)
    attributes.integers.push_back({hyc::onnx::kPaddingRow, padding});
  node.finish(node.emit("Gather", {node.tensor("weight"), node.tensor("indices")}, attributes));
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
  bool isSame = own.size() == index.size();
  for (size_t dim = 0; isSame && dim < own.size(); ++dim)
    isSame = own[dim].value == index[dim].value && own[dim].symbol == index[dim].symbol;
  if (isSame)
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

/// Values at what several indices name together, or where one of booleans is true.
void put(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name self = node.tensor("self"), values = node.operand("values", type);
  bool adds = node.boolean("accumulate", false);
  std::vector<Name> indices = leadingIndices(node);
  if (indices.empty()) {
    node.error() << "puts by indices with dimensions before or between them, which hyc does not";
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
