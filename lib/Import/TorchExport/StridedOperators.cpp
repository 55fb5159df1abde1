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

/// A diagonal of two dimensions, as the last one.
void diagonal(NodeTranslation &node) {
  const int64_t rank = node.tensorRank("self");
  if (rank < 2) {
    node.error() << "takes a diagonal of a tensor of " << rank << " dimensions, expected at least 2";
    return;
  }
  const int64_t first = node.dimension("dim1", rank, 0), second = node.dimension("dim2", rank, 1);
  const int64_t rows = node.sizeOf("self", first), columns = node.sizeOf("self", second),
                offset = node.integer("offset", 0);
  if (node.failed())
    return;
  std::vector<int64_t> places, order;
  for (int64_t row = std::max<int64_t>(0, -offset); row < rows && row + offset < columns; ++row)
    places.push_back(row * columns + row + offset);
  for (int64_t dim = 0; dim < rank; ++dim)
    if (dim != first && dim != second)
      order.push_back(dim);
  order.insert(order.end(), {first, second});
  Name turned = node.emit("Transpose", {node.tensor("self")}, {{}, {}, {{"perm", order}}});
  Name lead = node.emit("Slice", {node.emit("Shape", {turned}), node.constant({0}), node.constant({rank - 2})});
  Name merged =
      node.emit("Reshape", {turned, node.emit("Concat", {lead, node.constant({rows * columns})}, {{{"axis", 0}}})},
                {{{"allowzero", 1}}});
  node.finish(node.emit("Gather", {merged, node.constant(places)}, {{{"axis", rank - 2}}}));
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
  table["aten.empty_strided.default"] = emptyStrided;
  table["aten.resize_.default"] = resize;
  table["aten.sym_numel.default"] = countElements;
  table["aten.sym_stride.int"] = strideOf;
  table["aten.sym_storage_offset.default"] = storageOffset;
  table["aten.sym_is_contiguous.default"] = isContiguous;
  table["aten.item.default"] = item;
  table["aten._local_scalar_dense.default"] = item;
}
