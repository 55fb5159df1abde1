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

/// Of matrices; vectors and scalars stay.
void turn(NodeTranslation &node) {
  if (node.tensorRank("self") == 2)
    permuteTo(node, {1, 0});
  else
    node.finish(node.tensor("self"));
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

void concat(NodeTranslation &node) {
  const auto type = node.resultMeta();
  int64_t dim = node.dimension("dim", static_cast<int64_t>(type.sizes.size()), 0);
  node.finish(node.emit("Concat", node.joinedTensors("tensors"), {{{"axis", dim}}}));
}

void stack(NodeTranslation &node) {
  int64_t dim = node.dimension("dim", static_cast<int64_t>(node.resultMeta().sizes.size()), 0);
  std::vector<Name> parts;
  for (const Name &part : node.promotedTensors("tensors"))
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

/// Each of a dimension's slices by itself.
void unbind(NodeTranslation &node) {
  int64_t dim = node.dimension("dim", node.tensorRank("self"), 0);
  const auto count = node.resultCount();
  std::vector<Name> parts = node.emitAll("Split", {node.tensor("self"), node.constant(std::vector<int64_t>(count, 1))},
                                         {{{"axis", dim}}}, static_cast<int>(count));
  for (size_t i = 0; i < count; ++i)
    node.finish(node.emit("Squeeze", {parts[i], node.constant({dim})}), i);
}

//===----------------------------------------------------------------------===//
// Repeated, turned round, shifted
//===----------------------------------------------------------------------===//

Name partOf(NodeTranslation &node, const Name &shape, int64_t begin, int64_t end) {
  return node.emit("Slice", {shape, node.constant({begin}), node.constant({end})});
}

Name joined(NodeTranslation &node, std::vector<Name> parts, int64_t dim = 0) {
  return node.emit("Concat", std::move(parts), {{{"axis", dim}}});
}

Name reshaped(NodeTranslation &node, const Name &value, const Name &shape) {
  return node.emit("Reshape", {value, shape}, {{{"allowzero", 1}}});
}

template <const char *Argument> void reshapeLike(NodeTranslation &node) {
  node.finish(reshaped(node, node.tensor("self"), shapeOf(node, node.tensor(Argument))));
}
template <const char *Argument> void expandLike(NodeTranslation &node) {
  node.finish(node.emit("Expand", {node.tensor("self"), shapeOf(node, node.tensor(Argument))}));
}
constexpr char kOther[] = "other";

/// Whole copies beside one another; numbers for more dimensions than there are add some in front, fewer are for the
/// last.
template <const char *Argument> void repeat(NodeTranslation &node) {
  const auto rank = node.tensorRank("self"), wanted = static_cast<int64_t>(node.resultMeta().sizes.size()),
             given = node.listSize(Argument);
  Name self = node.tensor("self"), times = node.shape(Argument);
  if (wanted > rank)
    self = reshaped(node, self,
                    joined(node, {node.constant(std::vector<int64_t>(wanted - rank, 1)), shapeOf(node, self)}));
  if (given < wanted)
    times = joined(node, {node.constant(std::vector<int64_t>(wanted - given, 1)), times});
  node.finish(wanted == 0 ? self : node.emit("Tile", {self, times}));
}
constexpr char kRepeats[] = "repeats", kDims[] = "dims";

/// Copies of each element beside it; of all elements in order where no dimension is named.
void repeatInterleave(NodeTranslation &node) {
  int64_t rank = node.tensorRank("self"), dim = 0, count = node.integer("repeats");
  Name self = node.tensor("self");
  if (!node.has("dim") || rank == 0) {
    self = node.emit("Reshape", {self, node.constant({-1})});
    rank = 1;
  } else {
    dim = node.dimension("dim", rank);
  }
  Name shape = shapeOf(node, self);
  std::vector<int64_t> copies(rank + 1, 1);
  copies[dim + 1] = count;
  Name apart = node.emit("Unsqueeze", {self, node.constant({dim + 1})});
  Name merged = joined(node, {partOf(node, shape, 0, dim),
                              node.emit("Mul", {partOf(node, shape, dim, dim + 1), node.constant({count})}),
                              partOf(node, shape, dim + 1, kEnd)});
  node.finish(reshaped(node, node.emit("Tile", {apart, node.constant(copies)}), merged));
}

void unflatten(NodeTranslation &node) {
  int64_t dim = node.dimension("dim", node.tensorRank("self"));
  Name self = node.tensor("self"), shape = shapeOf(node, self);
  node.finish(
      reshaped(node, self,
               joined(node, {partOf(node, shape, 0, dim), node.shape("sizes"), partOf(node, shape, dim + 1, kEnd)})));
}

/// All dimensions, or the last two, the other way round.
template <bool Matrices> void reverseOrder(NodeTranslation &node) {
  int64_t rank = node.tensorRank("self");
  std::vector<int64_t> order(rank);
  for (int64_t dim = 0; dim < rank; ++dim)
    order[dim] = Matrices && dim < rank - 2 ? dim : (Matrices ? 2 * rank - 3 - dim : rank - 1 - dim);
  permuteTo(node, order);
}

void narrow(NodeTranslation &node) {
  int64_t dim = node.dimension("dim", node.tensorRank("self"));
  Name start = node.size("start", 0);
  node.finish(node.emit(
      "Slice", {node.tensor("self"), start, node.emit("Add", {start, node.size("length", 0)}), node.constant({dim})}));
}

/// What leaves at the end comes in at the beginning.
/// What leaves a dimension at its end comes in where it begins.
Name rolled(NodeTranslation &node, const Name &value, int64_t dim, int64_t size, int64_t shift) {
  shift = size == 0 ? 0 : ((shift % size) + size) % size;
  if (shift == 0)
    return value;
  Name axis = node.constant({dim});
  Name last = node.emit("Slice", {value, node.constant({size - shift}), node.constant({kEnd}), axis});
  Name first = node.emit("Slice", {value, node.constant({0}), node.constant({size - shift}), axis});
  return joined(node, {last, first}, dim);
}

void roll(NodeTranslation &node) {
  std::vector<int64_t> shifts = node.integers("shifts");
  std::vector<int64_t> dims = node.has("dims") ? node.integers("dims") : std::vector<int64_t>();
  Name self = node.tensor("self"), value = self;
  const bool isFlat = dims.empty();
  int64_t rank = node.tensorRank("self");
  if (isFlat) {
    value = node.emit("Reshape", {self, node.constant({-1})});
    dims = {0};
  }
  for (size_t i = 0; i < dims.size() && i < shifts.size(); ++i) {
    int64_t dim = dims[i] < 0 ? dims[i] + rank : dims[i];
    int64_t size = 1;
    for (int64_t each = isFlat ? 0 : dim; each < (isFlat ? rank : dim + 1); ++each)
      size *= node.sizeOf("self", each);
    value = rolled(node, value, dim, size, shifts[i]);
  }
  node.finish(isFlat ? reshaped(node, value, shapeOf(node, self)) : value);
}

/// The second half of the dimensions that are named, or of all, before the first; `IsInverse`: the other way.
template <bool IsInverse> void swapHalves(NodeTranslation &node) {
  const int64_t rank = node.tensorRank("self");
  std::vector<int64_t> dims = node.has("dim") ? node.integers("dim") : std::vector<int64_t>();
  for (int64_t dim = 0; !node.has("dim") && dim < rank; ++dim)
    dims.push_back(dim);
  Name value = node.tensor("self");
  for (int64_t dim : dims) {
    dim = dim < 0 ? dim + rank : dim;
    const int64_t size = node.sizeOf("self", dim);
    value = rolled(node, value, dim, size, IsInverse ? -(size / 2) : size / 2);
  }
  node.finish(value);
}

void flip(NodeTranslation &node) {
  int64_t rank = node.tensorRank("self");
  std::vector<int64_t> dims = node.integers("dims");
  for (int64_t &dim : dims)
    dim = dim < 0 ? dim + rank : dim;
  size_t count = dims.size();
  if (count == 0 || rank == 0)
    node.finish(node.tensor("self"));
  else
    node.finish(node.emit("Slice", {node.tensor("self"), node.constant(std::vector<int64_t>(count, -1)),
                                    node.constant(std::vector<int64_t>(count, -kEnd)), node.constant(dims),
                                    node.constant(std::vector<int64_t>(count, -1))}));
}

/// Dimensions to other places; the rest stay in order.
void moveDims(NodeTranslation &node) {
  int64_t rank = node.tensorRank("self");
  std::vector<int64_t> from = node.integers("source"), to = node.integers("destination"), order(rank, -1);
  llvm::SmallVector<bool> isMoved(rank, false);
  for (size_t i = 0; i < from.size() && i < to.size(); ++i) {
    int64_t source = from[i] < 0 ? from[i] + rank : from[i], target = to[i] < 0 ? to[i] + rank : to[i];
    if (source < 0 || source >= rank || target < 0 || target >= rank) {
      node.error() << "moves dimension " << from[i] << " to " << to[i] << " of " << rank;
      return;
    }
    order[target] = source;
    isMoved[source] = true;
  }
  int64_t next = 0;
  for (int64_t &dim : order)
    if (dim < 0) {
      while (next < rank && isMoved[next])
        ++next;
      dim = next++;
    }
  permuteTo(node, order);
}

/// All in one row.
void ravel(NodeTranslation &node) { node.finish(node.emit("Reshape", {node.tensor("self"), node.constant({-1})})); }

/// Channels, which are groups of so many, change places with the groups.
void shuffleChannels(NodeTranslation &node) {
  const int64_t rank = node.tensorRank("self"), groups = node.integer("groups"), channels = node.sizeOf("self", 1);
  if (!node.failed() && (rank < 3 || groups < 1 || channels % groups != 0))
    node.error() << "shuffles " << channels << " channels in " << groups << " groups, expected a multiple";
  if (node.failed())
    return;
  std::vector<int64_t> order(rank + 1);
  for (int64_t dim = 0; dim <= rank; ++dim)
    order[dim] = dim;
  std::swap(order[1], order[2]);
  Name self = node.tensor("self"), sizes = shapeOf(node, self);
  auto shape = [&](const std::vector<int64_t> &between) {
    return joined(node, {partOf(node, sizes, 0, 1), node.constant(between), partOf(node, sizes, 2, rank)});
  };
  Name split = reshaped(node, self, shape({groups, channels / groups}));
  node.finish(reshaped(node, node.emit("Transpose", {split}, {{}, {}, {{"perm", order}}}), shape({channels})));
}

/// Blocks of r × r channels become blocks of the image, or the other way round.
template <bool ToImage> void shufflePixels(NodeTranslation &node) {
  const int64_t rank = node.tensorRank("self"), r = node.integer(ToImage ? "upscale_factor" : "downscale_factor");
  const int64_t channels = node.sizeOf("self", rank - 3), rows = node.sizeOf("self", rank - 2),
                columns = node.sizeOf("self", rank - 1);
  constexpr int64_t kMost = 1 << 16;
  if (!node.failed() && (r < 1 || r > kMost))
    node.error() << "has a factor of " << r << ", expected 1 to " << kMost;
  if (node.failed())
    return;
  Name self = node.tensor("self");
  Name lead = partOf(node, shapeOf(node, self), 0, rank - 3);
  auto shape = [&](const std::vector<int64_t> &sizes) { return joined(node, {lead, node.constant(sizes)}); };
  std::vector<int64_t> order;
  for (int64_t dim = 0; dim < rank - 3; ++dim)
    order.push_back(dim);
  auto transposed = [&](const Name &value, const std::vector<int64_t> &last) {
    for (int64_t dim : last)
      order.push_back(rank - 3 + dim);
    return node.emit("Transpose", {value}, {{}, {}, {{"perm", order}}});
  };
  if (ToImage) {
    Name apart = reshaped(node, self, shape({channels / (r * r), r, r, rows, columns}));
    node.finish(reshaped(node, transposed(apart, {0, 3, 1, 4, 2}), shape({channels / (r * r), rows * r, columns * r})));
  } else {
    Name apart = reshaped(node, self, shape({channels, rows / r, r, columns / r, r}));
    node.finish(reshaped(node, transposed(apart, {0, 2, 4, 1, 3}), shape({channels * r * r, rows / r, columns / r})));
  }
}

//===----------------------------------------------------------------------===//
// Several at once
//===----------------------------------------------------------------------===//

/// Grids of coordinates, one a vector.
void meshgrid(NodeTranslation &node) {
  std::vector<Name> vectors = node.tensors("tensors");
  const auto rank = static_cast<int64_t>(vectors.size());
  const bool turnsFirst = node.text("indexing", "ij") == "xy" && rank > 1;
  auto dimOf = [&](int64_t i) { return turnsFirst && i < 2 ? 1 - i : i; };
  std::vector<Name> sizes(rank);
  for (int64_t i = 0; i < rank; ++i)
    sizes[dimOf(i)] = shapeOf(node, node.emit("Reshape", {vectors[i], node.constant({-1})}));
  Name whole = joined(node, sizes);
  for (int64_t i = 0; i < rank; ++i) {
    std::vector<int64_t> along(rank, 1);
    along[dimOf(i)] = -1;
    Name column = node.emit("Reshape", {vectors[i], node.constant(along)});
    node.finish(node.emit("Expand", {column, whole}), i);
  }
}

/// Sizes that the archive knows, as it has them for the results.
void broadcastTensors(NodeTranslation &node) {
  std::vector<Name> tensors = node.tensors("tensors");
  if (tensors.empty())
    return;
  Name shape = shapeOf(node, tensors.front());
  for (const Name &other : llvm::drop_begin(tensors)) {
    Name zeros = node.filled(ScalarType::I64, shape, 0);
    shape = shapeOf(node, node.emit("Add", {zeros, node.filled(ScalarType::I64, shapeOf(node, other), 0)}));
  }
  for (size_t i = 0; i < tensors.size(); ++i)
    node.finish(node.emit("Expand", {tensors[i], shape}), i);
}

//===----------------------------------------------------------------------===//
// Tensors out of nothing
//===----------------------------------------------------------------------===//

/// Real numbers are counted in double, as torch does it: rounded to single, 0 to 0.3 by 0.1 would be four.
void arange(NodeTranslation &node) {
  const ScalarType type = node.resultMeta().type, in = isFloat(type) ? ScalarType::F64 : type;
  Name start = node.has("start") ? node.operand("start", in) : node.constant(in, 0);
  Name step = node.has("step") ? node.operand("step", in) : node.constant(in, 1);
  Name numbers = node.emit("Range", {start, node.operand("end", in), step});
  node.finish(in == type ? numbers : node.cast(numbers, type));
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

/// Ones on the diagonal.
void eye(NodeTranslation &node) {
  Name rows = node.size("n", 0), columns = node.has("m") ? node.size("m", 0) : rows;
  auto numbers = [&](const Name &count, int64_t other) {
    Name end = node.emit("Squeeze", {count, node.constant({0})});
    Name range = node.emit("Range", {node.constant(ScalarType::I64, 0), end, node.constant(ScalarType::I64, 1)});
    return node.emit("Unsqueeze", {range, node.constant({other})});
  };
  node.finish(node.cast(node.emit("Equal", {numbers(rows, 1), numbers(columns, 0)}), node.resultMeta().type));
}

/// `steps` numbers from start to end, both among them.
void linspace(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  int64_t steps = node.integer("steps");
  Name start = node.operand("start", ScalarType::F32), end = node.operand("end", ScalarType::F32);
  Name numbers = node.emit("Range", {node.constant(ScalarType::F32, 0), node.constant(ScalarType::F32, steps),
                                     node.constant(ScalarType::F32, 1)});
  Name by = node.emit("Div", {node.emit("Sub", {end, start}),
                              node.constant(ScalarType::F32, static_cast<double>(std::max<int64_t>(steps - 1, 1)))});
  node.finish(node.cast(node.emit("Add", {start, node.emit("Mul", {numbers, by})}), type));
}

/// One value everywhere, in place of what was there.
void fillWith(NodeTranslation &node) {
  Name value = node.operand("value", node.resultMeta().type);
  node.finish(node.emit("Expand", {value, shapeOf(node, node.tensor("self"))}));
}

template <int Upper> void triangle(NodeTranslation &node) {
  Name diagonal = node.constant(ScalarType::I64, static_cast<double>(node.integer("diagonal", 0)));
  node.finish(node.emit("Trilu", {node.tensor("self"), diagonal}, {{{"upper", Upper}}}));
}

/// Rows and columns of what lies on one side of a diagonal of a matrix, row by row.
template <bool Upper> void triangleIndices(NodeTranslation &node) {
  const int64_t rows = node.integer("row"), columns = node.integer("col"), offset = node.integer("offset", 0);
  constexpr int64_t kMost = int64_t(1) << 22; // indices that are listed in the model
  if (!node.failed() && (rows < 0 || columns < 0 || (columns > 0 && rows > kMost / columns)))
    node.error() << "lists places of a matrix of " << rows << " rows and " << columns << " columns, expected at most "
                 << kMost << " places";
  if (node.failed())
    return;
  std::vector<int64_t> indices, ofColumns;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < columns; ++column)
      if (Upper ? column - row >= offset : column - row <= offset) {
        indices.push_back(row);
        ofColumns.push_back(column);
      }
  const int64_t count = static_cast<int64_t>(ofColumns.size());
  indices.insert(indices.end(), ofColumns.begin(), ofColumns.end());
  Name pairs = node.emit("Reshape", {node.constant(indices), node.constant({2, count})}, {{{"allowzero", 1}}});
  node.finish(node.resultMeta().type == ScalarType::I64 ? pairs : node.cast(pairs, node.resultMeta().type));
}

void cumulate(NodeTranslation &node) {
  Name dim = node.constant(ScalarType::I64, static_cast<double>(node.dimension("dim", node.tensorRank("self"))));
  Name self = node.operand("self", node.resultMeta().type);
  node.finish(node.tensorRank("self") == 0 ? self : node.emit("CumSum", {self, dim}));
}

/// Each element less the one before it, after what is prepended.
void difference(NodeTranslation &node) {
  int64_t dim = node.dimension("dim", node.tensorRank("self"), -1);
  std::vector<Name> parts;
  for (llvm::StringRef part : {"prepend", "self", "append"})
    if (part == "self" || node.has(part))
      parts.push_back(node.tensor(part));
  Name all = parts.size() > 1 ? node.emit("Concat", parts, {{{"axis", dim}}}) : parts.front();
  Name axis = node.constant({dim});
  const bool isBoolean = node.resultMeta().type == ScalarType::Bool; // which differ, or do not
  constexpr int64_t kMost = 64;
  int64_t times = node.integer("n", 1);
  if (times > kMost)
    node.error() << "takes differences of differences " << times << " times, expected at most " << kMost;
  for (; times > 0 && !node.failed(); --times) {
    Name later = node.emit("Slice", {all, node.constant({1}), node.constant({kEnd}), axis});
    Name earlier = node.emit("Slice", {all, node.constant({0}), node.constant({-1}), axis});
    all = node.emit(isBoolean ? "Xor" : "Sub", {later, earlier});
  }
  node.finish(all);
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

void symbolicSize(NodeTranslation &node) {
  Name dim = node.constant(ScalarType::I64, static_cast<double>(node.integer("dim")));
  node.finish(node.emit("Gather", {shapeOf(node, node.tensor("self")), dim}, {{{"axis", 0}}}));
}

constexpr char kAdd[] = "Add", kSub[] = "Sub", kMul[] = "Mul";
/// Python's operators on sizes.
template <const char *Type> void sizeArithmetic(NodeTranslation &node) {
  node.finish(node.emit(Type, {node.operand("a", ScalarType::I64), node.operand("b", ScalarType::I64)}));
}

void negatedSize(NodeTranslation &node) { node.finish(node.emit("Neg", {node.operand("a", ScalarType::I64)})); }

/// Rounded down: -(-size // part) is how many parts there are, a last one that is not full among them.
void floorOfSizes(NodeTranslation &node) {
  Name a = node.operand("a", ScalarType::I64), b = node.operand("b", ScalarType::I64);
  node.finish(node.emit("Div", {node.emit("Sub", {a, node.emit("Mod", {a, b})}), b}));
}
} // namespace

/// Tensors out of nothing, and sizes.
static void addCreation(TranslationTable &table) {
  table["aten.eye.default"] = eye;
  table["aten.eye.m"] = eye;
  table["aten.linspace.default"] = linspace;
  for (const char *name : {"empty.memory_format", "new_empty.default"})
    table[std::string("aten.") + name] = fill<0, false>;
  table["aten.empty_permuted.default"] = fill<0, false>;
  table["aten.empty_like.default"] = fill<0, true>;
  table["aten.fill.Scalar"] = fillWith;
  table["aten.fill.Tensor"] = fillWith;
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
  table["aten.tril_indices.default"] = triangleIndices<false>;
  table["aten.triu_indices.default"] = triangleIndices<true>;
  table["aten.cumsum.default"] = cumulate;
  table["aten.diff.default"] = difference;
  table["aten.sym_size.int"] = symbolicSize;
  table["_operator.add"] = sizeArithmetic<kAdd>;
  table["_operator.sub"] = sizeArithmetic<kSub>;
  table["_operator.mul"] = sizeArithmetic<kMul>;
  table["_operator.neg"] = negatedSize;
  table["_operator.floordiv"] = floorOfSizes;
}

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
  table["aten.cat.default"] = concat;
  table["aten.stack.default"] = stack;
  for (const std::string prefix : {"aten.", "aten.unsafe_"}) {
    table[prefix + "split.Tensor"] = split;
    table[prefix + "split_with_sizes.default"] = splitWithSizes;
    table[prefix + "chunk.default"] = chunk;
  }
  table["aten.concat.default"] = concat;
  table["aten.concatenate.default"] = concat;
  table["aten.unbind.int"] = unbind;
  table["aten.reshape_as.default"] = reshapeLike<kOther>;
  table["aten.view_as.default"] = reshapeLike<kOther>;
  table["aten.expand_as.default"] = expandLike<kOther>;
  table["aten.repeat.default"] = repeat<kRepeats>;
  table["aten.tile.default"] = repeat<kDims>;
  table["aten.repeat_interleave.self_int"] = repeatInterleave;
  table["aten.unflatten.int"] = unflatten;
  table["aten.numpy_T.default"] = reverseOrder<false>;
  for (const char *name : {"mT", "mH", "matrix_H", "adjoint"}) // of real numbers the same
    table["aten." + std::string(name) + ".default"] = reverseOrder<true>;
  table["aten.narrow.default"] = narrow;
  table["aten.roll.default"] = roll;
  table["aten.fft_fftshift.default"] = swapHalves<false>;
  table["aten.fft_ifftshift.default"] = swapHalves<true>;
  table["aten.flip.default"] = flip;
  table["aten.movedim.intlist"] = moveDims;
  table["aten.movedim.int"] = moveDims;
  table["aten.ravel.default"] = ravel;
  table["aten.broadcast_to.default"] = expand;
  table["aten.channel_shuffle.default"] = shuffleChannels;
  table["aten.native_channel_shuffle.default"] = shuffleChannels;
  table["aten.pixel_shuffle.default"] = shufflePixels<true>;
  table["aten.pixel_unshuffle.default"] = shufflePixels<false>;
  table["aten.meshgrid.default"] = meshgrid;
  table["aten.meshgrid.indexing"] = meshgrid;
  table["aten.broadcast_tensors.default"] = broadcastTensors;
  addCreation(table);
}
