// Tensors joined beside, above and behind one another, with the dimensions that this asks for.
#include "Translator.h"

#include <limits>

using namespace hyc::torchexport;

namespace {
/// At least `wanted` dimensions, as torch adds them: a vector is a row of a matrix, and both lie in depth 1 of a
/// volume.
Name withDimensions(NodeTranslation &node, const Name &value, int64_t rank, int64_t wanted) {
  static const std::vector<int64_t> added[4][4] = {
      {{}, {0}, {0, 1}, {0, 1, 2}}, {{}, {}, {0}, {0, 2}}, {{}, {}, {}, {2}}, {{}, {}, {}, {}}};
  if (rank >= wanted)
    return value;
  return node.emit("Unsqueeze", {value, node.constant(added[rank][wanted])});
}

template <int Wanted> void atLeast(NodeTranslation &node) {
  if (!node.has("tensors")) {
    node.finish(withDimensions(node, node.tensor("self"), node.tensorRank("self"), Wanted));
    return;
  }
  std::vector<Name> values = node.tensors("tensors");
  std::vector<const TensorMeta *> metas = node.metasOf("tensors");
  for (size_t i = 0; i < values.size() && i < metas.size(); ++i)
    node.finish(withDimensions(node, values[i], static_cast<int64_t>(metas[i]->sizes.size()), Wanted), i);
}

/// Each with at least `Wanted` dimensions, joined along `Dim`; vectors beside one another along their only one.
template <int Wanted, int Dim> void stacked(NodeTranslation &node) {
  std::vector<Name> values = node.promotedTensors("tensors");
  std::vector<const TensorMeta *> metas = node.metasOf("tensors");
  int64_t dim = Dim;
  for (size_t i = 0; i < values.size() && i < metas.size(); ++i) {
    int64_t rank = static_cast<int64_t>(metas[i]->sizes.size());
    values[i] = withDimensions(node, values[i], rank, Wanted);
    if (Wanted == 1 && rank <= 1)
      dim = 0;
  }
  node.finish(node.emit("Concat", values, {{{"axis", dim}}}));
}

/// Vectors as columns.
void columns(NodeTranslation &node) {
  std::vector<Name> values = node.promotedTensors("tensors");
  std::vector<const TensorMeta *> metas = node.metasOf("tensors");
  for (size_t i = 0; i < values.size() && i < metas.size(); ++i)
    if (metas[i]->sizes.size() < 2)
      values[i] = node.emit("Reshape", {values[i], node.constant({-1, 1})});
  node.finish(node.emit("Concat", values, {{{"axis", 1}}}));
}

/// By quarter turns, from the first dimension to the second.
void rotate(NodeTranslation &node) {
  int64_t rank = node.tensorRank("self"), turns = ((node.integer("k", 1) % 4) + 4) % 4;
  std::vector<int64_t> dims = node.has("dims") ? node.integers("dims") : std::vector<int64_t>{0, 1};
  if (dims.size() != 2 || rank < 2 || turns == 0) {
    node.finish(node.tensor("self"));
    return;
  }
  for (int64_t &dim : dims)
    dim = dim < 0 ? dim + rank : dim;
  auto flipped = [&](const Name &value, int64_t dim) {
    return node.emit("Slice", {value, node.constant({-1}), node.constant({std::numeric_limits<int64_t>::min() + 1}),
                               node.constant({dim}), node.constant({-1})});
  };
  Name value = node.tensor("self");
  if (turns == 2) {
    node.finish(flipped(flipped(value, dims[0]), dims[1]));
    return;
  }
  std::vector<int64_t> order;
  for (int64_t dim = 0; dim < rank; ++dim)
    order.push_back(dim == dims[0] ? dims[1] : dim == dims[1] ? dims[0] : dim);
  Name turned = node.emit("Transpose", {value}, {{}, {}, {{"perm", order}}});
  node.finish(flipped(turned, turns == 1 ? dims[0] : dims[1]));
}
} // namespace

void hyc::torchexport::addJoin(TranslationTable &table) {
  for (const char *overload : {"default", "Sequence"}) {
    table[std::string("aten.atleast_1d.") + overload] = atLeast<1>;
    table[std::string("aten.atleast_2d.") + overload] = atLeast<2>;
    table[std::string("aten.atleast_3d.") + overload] = atLeast<3>;
  }
  table["aten.hstack.default"] = stacked<1, 1>;
  table["aten.vstack.default"] = stacked<2, 0>;
  table["aten.dstack.default"] = stacked<3, 2>;
  table["aten.column_stack.default"] = columns;
  table["aten.rot90.default"] = rotate;
}
