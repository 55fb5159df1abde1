// aten operators that know of memory: strides, diagonals, sizes counted. hyc's tensors are row-major, so that only what
// torch has in that order can be taken apart by strides.
#include "Translator.h"

#include "llvm/Support/MathExtras.h"

using namespace hyc::torchexport;

namespace {
/// The most elements that are picked by numbers listed in the model.
constexpr int64_t kMostPicked = int64_t(1) << 22;

/// Whether the archive says that a tensor lies row by row from the beginning of its memory.
bool isRowMajor(const TensorMeta &meta) {
  int64_t step = 1;
  for (size_t dim = meta.sizes.size(); dim-- > 0;) {
    const Size &size = meta.sizes[dim];
    if (!size.value || dim >= meta.strides.size() || (*size.value != 1 && meta.strides[dim].value != step))
      return false;
    step *= *size.value;
  }
  return meta.offset == 0;
}

/// Elements of a row-major tensor by their place in memory.
void pickByStrides(NodeTranslation &node) {
  std::vector<int64_t> sizes = node.integers("size"), strides = node.integers("stride");
  const int64_t offset = node.integer("storage_offset", 0);
  if (node.failed())
    return;
  if (!isRowMajor(node.metaOf("self")) || sizes.size() != strides.size()) {
    node.error() << "takes elements by their place in the memory of a tensor that is a view, or of sizes that are not "
                    "known; write it with slices, or as_strided of a contiguous copy";
    return;
  }
  int64_t count = 1;
  for (int64_t size : sizes)
    if (size < 0 || llvm::MulOverflow(count, size, count) || count > kMostPicked) {
      node.error() << "takes more than " << kMostPicked << " elements by their place in memory";
      return;
    }
  std::vector<int64_t> places{offset};
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    std::vector<int64_t> next;
    for (int64_t place : places)
      for (int64_t i = 0; i < sizes[dim]; ++i)
        next.push_back(place + i * strides[dim]);
    places = std::move(next);
  }
  Name flat = node.emit("Reshape", {node.tensor("self"), node.constant({-1})});
  Name picked = node.emit("Gather", {flat, node.constant(places)}, {{{"axis", 0}}});
  node.finish(node.emit("Reshape", {picked, node.constant(sizes)}, {{{"allowzero", 1}}}));
}

/// A diagonal of two dimensions: where its elements are among those of both, row by row, and the order of dimensions in
/// which both are the last.
struct Diagonal {
  std::vector<int64_t> places, order;
  int64_t rows = 0, columns = 0;
};

std::optional<Diagonal> diagonalOf(NodeTranslation &node, const char *self, int64_t dim1, int64_t dim2) {
  const int64_t rank = node.tensorRank(self);
  if (rank < 2) {
    node.error() << "takes a diagonal of a tensor of " << rank << " dimensions, expected at least 2";
    return std::nullopt;
  }
  const int64_t first = node.dimension("dim1", rank, dim1), second = node.dimension("dim2", rank, dim2),
                offset = node.integer("offset", 0);
  Diagonal result;
  result.rows = node.sizeOf(self, first), result.columns = node.sizeOf(self, second);
  if (node.failed())
    return std::nullopt;
  for (int64_t row = std::max<int64_t>(0, -offset); row < result.rows && row + offset < result.columns; ++row)
    result.places.push_back(row * result.columns + row + offset);
  for (int64_t dim = 0; dim < rank; ++dim)
    if (dim != first && dim != second)
      result.order.push_back(dim);
  result.order.insert(result.order.end(), {first, second});
  return result;
}

/// The tensor with both dimensions as one, the last.
Name merged(NodeTranslation &node, const Name &self, const Diagonal &diagonal) {
  const auto rank = static_cast<int64_t>(diagonal.order.size());
  Name turned = node.emit("Transpose", {self}, {{}, {}, {{"perm", diagonal.order}}});
  Name lead = node.emit("Slice", {node.emit("Shape", {turned}), node.constant({0}), node.constant({rank - 2})});
  Name both = node.constant({diagonal.rows * diagonal.columns});
  return node.emit("Reshape", {turned, node.emit("Concat", {lead, both}, {{{"axis", 0}}})}, {{{"allowzero", 1}}});
}

/// As the last dimension.
void finishDiagonal(NodeTranslation &node, const char *self, int64_t dim1, int64_t dim2) {
  if (std::optional<Diagonal> diagonal = diagonalOf(node, self, dim1, dim2))
    node.finish(node.emit("Gather", {merged(node, node.tensor(self), *diagonal), node.constant(diagonal->places)},
                          {{{"axis", static_cast<int64_t>(diagonal->order.size()) - 2}}}));
}
void diagonal(NodeTranslation &node) { finishDiagonal(node, "self", 0, 1); }
void diagonalOfMatrices(NodeTranslation &node) { finishDiagonal(node, "A", -2, -1); }

/// What has the diagonal as its last dimension, put there.
void putDiagonal(NodeTranslation &node) {
  std::optional<Diagonal> diagonal = diagonalOf(node, "self", 0, 1);
  if (!diagonal)
    return;
  const auto rank = static_cast<int64_t>(diagonal->order.size());
  Name self = node.tensor("self"), source = node.operand("src", node.metaOf("self").type);
  if (diagonal->places.empty())
    return node.finish(self);
  std::vector<int64_t> lastFirst{rank - 2}, back(rank);
  for (int64_t dim = 0; dim < rank - 2; ++dim)
    lastFirst.push_back(dim);
  for (int64_t dim = 0; dim < rank; ++dim)
    back[diagonal->order[dim]] = dim;
  Name values = node.emit("Transpose", {source}, {{}, {}, {{"perm", lastFirst}}});
  Name put =
      putAt(node, merged(node, self, *diagonal), rank - 1, rank - 2, node.constant(diagonal->places), values, "none");
  Name turned = node.emit("Transpose", {self}, {{}, {}, {{"perm", diagonal->order}}});
  Name apart = node.emit("Reshape", {put, node.emit("Shape", {turned})}, {{{"allowzero", 1}}});
  node.finish(node.emit("Transpose", {apart}, {{}, {}, {{"perm", back}}}));
}

/// What is in it nobody has said.
void emptyStrided(NodeTranslation &node) { node.finish(node.filled(node.resultMeta().type, node.shape("size"), 0)); }

/// To the sizes that it has.
void resize(NodeTranslation &node) {
  std::vector<int64_t> wanted = node.integers("size");
  const std::vector<Size> &own = node.metaOf("self").sizes;
  bool isSame = own.size() == wanted.size();
  for (size_t dim = 0; isSame && dim < own.size(); ++dim)
    isSame = own[dim].value == wanted[dim];
  if (isSame)
    return node.finish(node.tensor("self"));
  if (!node.failed())
    node.error() << "gives a tensor another size where it lies, and what is in it then nobody has said; make a new one";
}

void countElements(NodeTranslation &node) { node.finish(node.emit("Size", {node.tensor("self")})); }

/// Of a row-major tensor: how many elements the dimensions after it have.
void strideOf(NodeTranslation &node) {
  const int64_t dim = node.dimension("dim", node.tensorRank("self"));
  Name shape = node.emit("Shape", {node.tensor("self")});
  Name after = node.emit("Slice", {shape, node.constant({dim + 1}), node.constant({INT64_MAX})});
  node.finish(node.emit("ReduceProd", {node.emit("Concat", {node.constant({1}), after}, {{{"axis", 0}}})},
                        {{{"keepdims", 0}}}));
}

void storageOffset(NodeTranslation &node) {
  node.finish(node.constant(ScalarType::I64, static_cast<double>(node.metaOf("self").offset)));
}

void isContiguous(NodeTranslation &node) { node.finish(node.constant(ScalarType::Bool, 1)); }

/// The one element of a tensor, as a number of the program. Where a size is made of it, it has to be known.
void item(NodeTranslation &node) {
  node.finish(node.emit("Reshape", {node.tensor("self"), node.constant(std::vector<int64_t>{})}));
}
} // namespace

void hyc::torchexport::addStrided(TranslationTable &table) {
  table["aten.as_strided.default"] = pickByStrides;
  table["aten.diagonal.default"] = diagonal;
  table["aten.linalg_diagonal.default"] = diagonalOfMatrices;
  table["aten.diagonal_scatter.default"] = putDiagonal;
  table["aten.empty_strided.default"] = emptyStrided;
  table["aten.resize_.default"] = resize;
  table["aten.sym_numel.default"] = countElements;
  table["aten.sym_stride.int"] = strideOf;
  table["aten.sym_storage_offset.default"] = storageOffset;
  table["aten.sym_is_contiguous.default"] = isContiguous;
  table["aten.item.default"] = item;
  table["aten._local_scalar_dense.default"] = item;
}
