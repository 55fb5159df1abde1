// aten operators that rearrange, pick and make tensors, and torch's arithmetic on sizes.
#include "Translator.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <limits>

using namespace hyc::torchexport;
using llvm::ArrayRef;

static constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

namespace {
Name shapeOf(NodeTranslation &node, const Name &value) { return node.emit("Shape", {value}); }

void view(NodeTranslation &node) {
  node.finish(node.emit("Reshape", {node.tensor("self"), node.shape(node.has("size") ? "size" : "shape")},
                        {{{"allowzero", 1}}}));
}

void flatten(NodeTranslation &node) {
  int64_t rank = node.tensorRank("self"), first = node.dimension("start_dim", rank, 0),
          last = node.dimension("end_dim", rank, -1);
  Name shape = shapeOf(node, node.tensor("self"));
  auto part = [&](int64_t begin, int64_t end) {
    return node.emit("Slice", {shape, node.constant({begin}), node.constant({end})});
  };
  Name target = node.emit("Concat", {part(0, first), node.constant({-1}), part(last + 1, kEnd)}, {{{"axis", 0}}});
  node.finish(node.emit("Reshape", {node.tensor("self"), target}, {{{"allowzero", 1}}}));
}

/// -1 keeps a dimension, which a 1 does in ONNX.
void expand(NodeTranslation &node) { node.finish(node.emit("Expand", {node.tensor("self"), node.shape("size", 1)})); }

void unsqueeze(NodeTranslation &node) {
  int64_t dim = node.dimension("dim", node.tensorRank("self") + 1);
  node.finish(node.emit("Unsqueeze", {node.tensor("self"), node.constant({dim})}));
}

/// Only dimensions of size 1 go; others stay without a word.
void squeeze(NodeTranslation &node) {
  int64_t rank = node.tensorRank("self");
  std::vector<int64_t> dims;
  if (node.has("dim"))
    dims = node.integers("dim");
  else
    for (int64_t dim = 0; dim < rank; ++dim)
      dims.push_back(dim);
  std::vector<int64_t> dropped;
  for (int64_t dim : dims) {
    dim = dim < 0 ? dim + rank : dim;
    if (dim >= 0 && dim < rank && node.sizeOf("self", dim) == 1)
      dropped.push_back(dim);
  }
  node.finish(node.emit("Squeeze", {node.tensor("self"), node.constant(dropped)}));
}

void permuteTo(NodeTranslation &node, std::vector<int64_t> order) {
  node.finish(node.emit("Transpose", {node.tensor("self")}, {{}, {}, {{"perm", std::move(order)}}}));
}

void transpose(NodeTranslation &node) {
  int64_t rank = node.tensorRank("self");
  auto dims = llvm::seq<int64_t>(0, rank);
  std::vector<int64_t> order(dims.begin(), dims.end());
  int64_t first = node.dimension("dim0", rank), second = node.dimension("dim1", rank);
  if (!node.failed() && rank > 0)
    std::swap(order[first], order[second]);
  permuteTo(node, order);
}

/// Of matrices; vectors stay.
void turn(NodeTranslation &node) {
  permuteTo(node, node.tensorRank("self") == 2 ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{0});
}

void permute(NodeTranslation &node) {
  int64_t rank = node.tensorRank("self");
  std::vector<int64_t> order = node.integers("dims");
  for (int64_t &dim : order)
    dim = dim < 0 ? dim + rank : dim;
  permuteTo(node, order);
}

void slice(NodeTranslation &node) {
  int64_t dim = node.dimension("dim", node.tensorRank("self"), 0);
  node.finish(node.emit("Slice", {node.tensor("self"), node.size("start", 0), node.size("end", kEnd),
                                  node.constant({dim}), node.constant({node.integer("step", 1)})}));
}

void select(NodeTranslation &node) {
  int64_t dim = node.dimension("dim", node.tensorRank("self"));
  Name index = node.constant(ScalarType::I64, static_cast<double>(node.integer("index")));
  node.finish(node.emit("Gather", {node.tensor("self"), index}, {{{"axis", dim}}}));
}

/// Indices on the leading dimensions are broadcast to one shape and joined into coordinates.
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
  Name shape = shapeOf(node, indices.front());
  for (const Name &index : llvm::drop_begin(indices)) {
    // Of what two zeros broadcast to.
    Name zeros = node.filled(ScalarType::I64, shape, 0);
    shape = shapeOf(node, node.emit("Add", {zeros, node.filled(ScalarType::I64, shapeOf(node, index), 0)}));
  }
  std::vector<Name> columns;
  for (const Name &index : indices)
    columns.push_back(node.emit("Unsqueeze", {node.emit("Expand", {index, shape}), node.constant({-1})}));
  node.finish(node.emit("GatherND", {node.tensor("self"), node.emit("Concat", columns, {{{"axis", -1}}})}));
}

/// One element a position of the index, along one dimension: in the others a position's coordinates are its own.
void gather(NodeTranslation &node) {
  int64_t rank = node.tensorRank("self"), picked = node.dimension("dim", rank);
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

/// By integers of torch's embedding; padding_idx only concerns its gradient.
void embedding(NodeTranslation &node) {
  if (node.integer("padding_idx", -1) >= 0)
    node.error() << "has a padding_idx, whose row torch never updates; export the embedding without it";
  else
    node.finish(node.emit("Gather", {node.tensor("weight"), node.tensor("indices")}, {{{"axis", 0}}}));
}

void concat(NodeTranslation &node) {
  const auto type = node.resultMeta();
  int64_t dim = node.dimension("dim", static_cast<int64_t>(type.sizes.size()), 0);
  node.finish(node.emit("Concat", node.joinedTensors("tensors"), {{{"axis", dim}}}));
}

void stack(NodeTranslation &node) {
  int64_t dim = node.dimension("dim", static_cast<int64_t>(node.resultMeta().sizes.size()), 0);
  std::vector<Name> parts;
  for (const Name &part : node.tensors("tensors"))
    parts.push_back(node.emit("Unsqueeze", {part, node.constant({dim})}));
  node.finish(node.emit("Concat", parts, {{{"axis", dim}}}));
}

void splitBySizes(NodeTranslation &node, const std::vector<int64_t> &sizes, int64_t dim) {
  node.emitResults("Split", {node.tensor("self"), node.constant(sizes)}, {{{"axis", dim}}});
}

/// Parts of one size, but for the last.
void split(NodeTranslation &node) {
  int64_t dim = node.dimension("dim", node.tensorRank("self"), 0), part = node.integer("split_size"),
          left = node.sizeOf("self", dim);
  if (!node.failed() && part < 1)
    node.error() << "splits into parts of " << part << " elements, expected at least 1";
  if (node.failed())
    return;
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < node.resultCount(); ++i, left -= part)
    sizes.push_back(std::min(part, left));
  splitBySizes(node, sizes, dim);
}

void splitWithSizes(NodeTranslation &node) {
  int64_t dim = node.dimension("dim", node.tensorRank("self"), 0);
  splitBySizes(node, node.integers("split_sizes"), dim);
}

void chunk(NodeTranslation &node) {
  int64_t dim = node.dimension("dim", node.tensorRank("self"), 0), left = node.sizeOf("self", dim);
  int64_t chunks = std::clamp<int64_t>(node.integer("chunks"), 1, std::max<int64_t>(left, 1));
  int64_t part = left / chunks + (left % chunks != 0);
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < node.resultCount(); ++i, left -= part)
    sizes.push_back(std::min(part, left));
  splitBySizes(node, sizes, dim);
}

//===----------------------------------------------------------------------===//
// Tensors out of nothing
//===----------------------------------------------------------------------===//

void arange(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name start = node.has("start") ? node.operand("start", type) : node.constant(type, 0);
  Name step = node.has("step") ? node.operand("step", type) : node.constant(type, 1);
  node.finish(node.emit("Range", {start, node.operand("end", type), step}));
}

/// `Value`: what it is filled with; Like: the shape is that of `self`.
template <int Value, bool Like> void fill(NodeTranslation &node) {
  Name shape = Like ? shapeOf(node, node.tensor("self")) : node.shape("size");
  node.finish(node.filled(node.resultMeta().type, shape, Value));
}

template <bool Like> void full(NodeTranslation &node) {
  Name shape = Like ? shapeOf(node, node.tensor("self")) : node.shape("size");
  node.finish(node.filled(node.resultMeta().type, shape, node.number("fill_value")));
}

void scalarTensor(NodeTranslation &node) { node.finish(node.constant(node.resultMeta().type, node.number("s"))); }

template <int Upper> void triangle(NodeTranslation &node) {
  Name diagonal = node.constant(ScalarType::I64, static_cast<double>(node.integer("diagonal", 0)));
  node.finish(node.emit("Trilu", {node.tensor("self"), diagonal}, {{{"upper", Upper}}}));
}

void cumulate(NodeTranslation &node) {
  Name dim = node.constant(ScalarType::I64, static_cast<double>(node.dimension("dim", node.tensorRank("self"))));
  node.finish(node.emit("CumSum", {node.operand("self", node.resultMeta().type), dim}));
}

/// Each element less the one before it, after what is prepended.
void difference(NodeTranslation &node) {
  int64_t dim = node.dimension("dim", node.tensorRank("self"), -1);
  if (node.integer("n", 1) != 1) {
    node.error() << "takes differences of differences, which hyc does not";
    return;
  }
  std::vector<Name> parts;
  for (llvm::StringRef part : {"prepend", "self", "append"})
    if (part == "self" || node.has(part))
      parts.push_back(node.tensor(part));
  Name all = parts.size() > 1 ? node.emit("Concat", parts, {{{"axis", dim}}}) : parts.front();
  Name axis = node.constant({dim});
  Name later = node.emit("Slice", {all, node.constant({1}), node.constant({kEnd}), axis});
  Name earlier = node.emit("Slice", {all, node.constant({0}), node.constant({-1}), axis});
  node.finish(node.emit("Sub", {later, earlier}));
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

void symbolicSize(NodeTranslation &node) {
  Name dim = node.constant(ScalarType::I64, static_cast<double>(node.integer("dim")));
  node.finish(node.emit("Gather", {shapeOf(node, node.tensor("self")), dim}, {{{"axis", 0}}}));
}

constexpr char kAdd[] = "Add", kSub[] = "Sub", kMul[] = "Mul", kFloorDiv[] = "Div";
/// Python's operators on sizes, which are never negative, so that rounding down is cutting off.
template <const char *Type> void sizeArithmetic(NodeTranslation &node) {
  node.finish(node.emit(Type, {node.operand("a", ScalarType::I64), node.operand("b", ScalarType::I64)}));
}
} // namespace

void hyc::torchexport::addShape(TranslationTable &table) {
  for (const char *name : {"view.default", "_unsafe_view.default", "reshape.default", "view_copy.default"})
    table[std::string("aten.") + name] = view;
  table["aten.flatten.using_ints"] = flatten;
  table["aten.expand.default"] = expand;
  table["aten.unsqueeze.default"] = unsqueeze;
  table["aten.squeeze.default"] = squeeze;
  table["aten.squeeze.dim"] = squeeze;
  table["aten.squeeze.dims"] = squeeze;
  table["aten.transpose.int"] = transpose;
  table["aten.t.default"] = turn;
  table["aten.permute.default"] = permute;
  table["aten.slice.Tensor"] = slice;
  table["aten.select.int"] = select;
  table["aten.index.Tensor"] = pick;
  table["aten.gather.default"] = gather;
  table["aten.embedding.default"] = embedding;
  table["aten.cat.default"] = concat;
  table["aten.stack.default"] = stack;
  table["aten.split.Tensor"] = split;
  table["aten.split_with_sizes.default"] = splitWithSizes;
  table["aten.chunk.default"] = chunk;
  table["aten.arange.default"] = arange;
  table["aten.arange.start"] = arange;
  table["aten.arange.start_step"] = arange;
  table["aten.ones.default"] = fill<1, false>;
  table["aten.zeros.default"] = fill<0, false>;
  table["aten.new_ones.default"] = fill<1, false>;
  table["aten.new_zeros.default"] = fill<0, false>;
  table["aten.ones_like.default"] = fill<1, true>;
  table["aten.zeros_like.default"] = fill<0, true>;
  table["aten.full.default"] = full<false>;
  table["aten.new_full.default"] = full<false>;
  table["aten.full_like.default"] = full<true>;
  table["aten.scalar_tensor.default"] = scalarTensor;
  table["aten.tril.default"] = triangle<0>;
  table["aten.triu.default"] = triangle<1>;
  table["aten.cumsum.default"] = cumulate;
  table["aten.diff.default"] = difference;
  table["aten.sym_size.int"] = symbolicSize;
  table["_operator.add"] = sizeArithmetic<kAdd>;
  table["_operator.sub"] = sizeArithmetic<kSub>;
  table["_operator.mul"] = sizeArithmetic<kMul>;
  table["_operator.floordiv"] = sizeArithmetic<kFloorDiv>;
}
