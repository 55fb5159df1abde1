// Products of other forms than rows and columns, norms of tensors and matrices, diagonals, and what else is made of
// matrices without a factorisation.
#include "Translator.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace hyc::torchexport;

namespace {
constexpr int64_t kMostLetters = 12; // dimensions of a tensor in an equation

std::string letters(char first, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    text += static_cast<char>(first + i);
  return text;
}

Name einsum(NodeTranslation &node, std::vector<Name> operands, const std::string &equation) {
  return node.emit("Einsum", std::move(operands), {{}, {}, {}, {{"equation", equation}}});
}

Name over(NodeTranslation &node, const char *reduction, const Name &value, std::vector<int64_t> dims, bool keepsDims) {
  return node.emit(reduction, {value, node.constant(dims)}, {{{"keepdims", keepsDims}}});
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Over pairs of dimensions.
void tensorProduct(NodeTranslation &node) {
  const int64_t own = node.tensorRank("self"), others = node.tensorRank("other");
  std::vector<int64_t> left = node.integers("dims_self"), right = node.integers("dims_other");
  if (!node.failed() && (left.size() != right.size() || own > kMostLetters || others > kMostLetters))
    node.error() << "contracts " << left.size() << " dimensions with " << right.size()
                 << ", expected as many, of tensors of at most " << kMostLetters << " dimensions";
  if (node.failed())
    return;
  std::string a = letters('a', own), b = letters('m', others), rest, summed;
  for (size_t i = 0; i < left.size(); ++i) {
    const int64_t x = left[i] < 0 ? left[i] + own : left[i], y = right[i] < 0 ? right[i] + others : right[i];
    if (x < 0 || x >= own || y < 0 || y >= others) {
      node.error() << "contracts dimension " << left[i] << " of " << own << " with " << right[i] << " of " << others;
      return;
    }
    // Where one of them has size 1, torch sums the other alone.
    summed += {a[x], b[y]};
    if (node.metaOf("self").sizes[x] == node.metaOf("other").sizes[y])
      b[y] = a[x];
  }
  for (char letter : a + b)
    if (!llvm::is_contained(summed, letter))
      rest += letter;
  ScalarType type = node.resultMeta().type;
  node.finish(einsum(node, {node.operand("self", type), node.operand("other", type)}, a + "," + b + "->" + rest));
}

/// Every element of the one times all of the other, in its place.
void blockProduct(NodeTranslation &node) {
  const int64_t own = node.tensorRank("self"), others = node.tensorRank("other"), rank = std::max(own, others);
  ScalarType type = node.resultMeta().type;
  std::vector<int64_t> left, right, both;
  for (int64_t dim = 0; dim < rank; ++dim) {
    const int64_t x = dim < rank - own ? 1 : node.sizeOf("self", dim - (rank - own));
    const int64_t y = dim < rank - others ? 1 : node.sizeOf("other", dim - (rank - others));
    left.insert(left.end(), {x, 1});
    right.insert(right.end(), {1, y});
    both.push_back(x * y);
  }
  auto shaped = [&](const Name &value, const std::vector<int64_t> &shape) {
    return node.emit("Reshape", {value, node.constant(shape)});
  };
  Name product =
      node.emit("Mul", {shaped(node.operand("self", type), left), shaped(node.operand("other", type), right)});
  node.finish(shaped(product, both));
}

/// Of vectors of three along a dimension: a[i+1] · b[i+2] - a[i+2] · b[i+1]. The older form takes the first dimension
/// of three where it names none.
template <bool FindsDim> void crossProduct(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  const int64_t rank = std::max(node.tensorRank("self"), node.tensorRank("other"));
  int64_t dim = node.has("dim") ? node.integer("dim") : -1;
  if (dim >= 0)
    dim -= rank;
  const int64_t own = node.tensorRank("self");
  for (int64_t each = own - 1; FindsDim && !node.has("dim") && own == rank && each >= 0; --each)
    if (node.sizeOf("self", each) == 3)
      dim = each - rank;
  if (!node.failed() && (dim < -std::min(own, node.tensorRank("other")) || dim >= 0))
    node.error() << "multiplies vectors along dimension " << dim << " of tensors of " << own << " and "
                 << node.tensorRank("other") << " dimensions";
  if (node.failed())
    return;
  auto turned = [&](const char *argument, std::vector<int64_t> order) {
    return node.emit("Gather", {node.operand(argument, type), node.constant(order)},
                     {{{"axis", dim + node.tensorRank(argument)}}});
  };
  auto product = [&](std::vector<int64_t> x, std::vector<int64_t> y) {
    return node.emit("Mul", {turned("self", std::move(x)), turned("other", std::move(y))});
  };
  node.finish(node.emit("Sub", {product({1, 2, 0}, {2, 0, 1}), product({2, 0, 1}, {1, 2, 0})}));
}

/// The sum over some dimensions of three tensors' product, to each of which dimensions of one are added first.
void tripleProduct(NodeTranslation &node) {
  static constexpr const char *operands[] = {"i1", "i2", "i3"}, *added[] = {"expand1", "expand2", "expand3"};
  std::string equations[3];
  const int64_t rank = node.tensorRank("i1") + node.listSize("expand1");
  if (!node.failed() && (rank < 1 || rank > kMostLetters))
    node.error() << "multiplies tensors of " << rank << " dimensions, expected 1 to " << kMostLetters;
  for (int i = 0; i < 3 && !node.failed(); ++i) {
    std::vector<int64_t> ones = node.integers(added[i]);
    for (int64_t dim = 0; dim < rank; ++dim)
      if (!llvm::is_contained(ones, dim) && !llvm::is_contained(ones, dim - rank))
        equations[i] += static_cast<char>('a' + dim);
    if (static_cast<int64_t>(equations[i].size()) != node.tensorRank(operands[i]) && !node.failed())
      node.error() << "multiplies tensors of different numbers of dimensions";
  }
  std::vector<int64_t> summed = node.integers("sumdim"), missing;
  if (node.failed())
    return;
  std::string half, result;
  auto isIn = [&](int i, char letter) { return equations[i].find(letter) != std::string::npos; };
  for (int64_t dim = 0, at = 0; dim < rank; ++dim) {
    const char letter = static_cast<char>('a' + dim);
    const bool isSummed = llvm::is_contained(summed, dim) || llvm::is_contained(summed, dim - rank);
    if ((isIn(0, letter) || isIn(1, letter)) && (!isSummed || isIn(2, letter)))
      half += letter;
    if (isSummed)
      continue;
    if (isIn(0, letter) || isIn(1, letter) || isIn(2, letter))
      result += letter;
    else
      missing.push_back(at);
    ++at;
  }
  Name both = einsum(node, {node.tensor("i1"), node.tensor("i2")}, equations[0] + "," + equations[1] + "->" + half);
  Name all = einsum(node, {both, node.tensor("i3")}, half + "," + equations[2] + "->" + result);
  node.finish(missing.empty() ? all : node.emit("Unsqueeze", {all, node.constant(missing)}));
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// The largest, or least, sum of sizes over a matrix's rows or columns; all other norms ask for singular values.
void matrixNorm(NodeTranslation &node, const Name &self, double order, int64_t rows, int64_t columns, bool keepsDims) {
  const bool overRows = std::fabs(order) == 1;
  if (!overRows && !std::isinf(order)) {
    node.error()
        << "takes a matrix's norm of order " << order
        << ", which is one of singular values; hyc has no matrix factorisations: use the Frobenius norm (fro), or "
           "an order of 1, -1, inf or -inf";
    return;
  }
  Name sums = over(node, "ReduceSum", node.emit("Abs", {self}), {overRows ? rows : columns}, true);
  Name result = over(node, order > 0 ? "ReduceMax" : "ReduceMin", sums, {overRows ? columns : rows}, true);
  node.finish(keepsDims ? result : node.emit("Squeeze", {result, node.constant({rows, columns})}));
}

/// `isNamed` where the order is a name. Of matrices the last two dimensions are taken where none are named.
void normBy(NodeTranslation &node, bool isNamed, bool ofMatrices) {
  const int64_t rank = node.tensorRank("self");
  const bool keepsDims = node.boolean("keepdim", false);
  std::vector<int64_t> dims = node.has("dim") ? node.integers("dim") : std::vector<int64_t>();
  if (dims.empty() && ofMatrices)
    dims = {-2, -1};
  for (int64_t &dim : dims) {
    dim = dim < 0 ? dim + rank : dim;
    if (!node.failed() && (dim < 0 || dim >= rank))
      node.error() << "takes a norm over dimension " << dim << " of " << rank;
  }
  ScalarType type = node.resultMeta().type;
  Name self = node.operand("self", type);
  const std::string name = isNamed ? node.text("ord", "fro") : "";
  if (!node.failed() && isNamed && name != "fro")
    node.error() << "takes the norm '" << name
                 << "' of a matrix, which is one of singular values; hyc has no matrix factorisations: use 'fro'";
  if (node.failed())
    return;
  if (isNamed || !node.has("ord"))
    return node.finish(normOf(node, self, 2, type, dims, keepsDims));
  for (int64_t dim = 0; !node.has("dim") && !ofMatrices && dim < rank; ++dim)
    dims.push_back(dim);
  if (dims.size() == 1)
    return node.finish(normOf(node, self, node.number("ord"), type, dims, keepsDims));
  if (dims.size() == 2)
    return matrixNorm(node, self, node.number("ord"), dims[0], dims[1], keepsDims);
  node.error() << "takes a norm over " << dims.size() << " dimensions, expected 1 or 2";
}
template <bool IsNamed, bool OfMatrices> void norm(NodeTranslation &node) { normBy(node, IsNamed, OfMatrices); }

/// Each part along a dimension no longer than maxnorm.
void shorten(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  const int64_t rank = node.tensorRank("self"), dim = node.dimension("dim", rank);
  const double most = node.number("maxnorm");
  Name self = node.tensor("self");
  std::vector<int64_t> others;
  for (int64_t each = 0; each < rank; ++each)
    if (each != dim)
      others.push_back(each);
  Name length = normOf(node, self, node.number("p", 2), type, others, true);
  Name isLong = node.emit("Greater", {length, node.constant(type, most)});
  Name by = node.emit("Add", {node.emit("Where", {isLong, length, node.constant(type, 1)}), node.constant(type, 1e-7)});
  Name factor = node.emit("Where", {isLong, node.emit("Div", {node.constant(type, most), by}), node.constant(type, 1)});
  node.finish(node.emit("Mul", {self, factor}));
}

//===----------------------------------------------------------------------===//
// Diagonals and single elements
//===----------------------------------------------------------------------===//

/// True on a diagonal of a matrix of this size.
Name onDiagonal(NodeTranslation &node, int64_t rows, int64_t columns, int64_t offset) {
  Name like = node.filled(ScalarType::F32, node.constant({rows, columns}), 0);
  return node.cast(node.emit("EyeLike", {like}, {{{"k", offset}}}), ScalarType::Bool);
}

void trace(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name isOn = onDiagonal(node, node.sizeOf("self", 0), node.sizeOf("self", 1), 0);
  Name kept = node.emit("Where", {isOn, node.operand("self", type), node.constant(type, 0)});
  node.finish(over(node, "ReduceSum", kept, {0, 1}, false));
}

/// Matrices with rows of `self` on a diagonal and zeros elsewhere.
void toDiagonal(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  const int64_t rank = node.tensorRank("self"), offset = node.integer("offset", 0);
  const int64_t count = rank > 0 ? node.sizeOf("self", rank - 1) : 1, aside = offset < 0 ? -offset : offset;
  constexpr int64_t kMost = 1 << 16;
  int64_t first = node.dimension("dim1", rank + 1, -2), second = node.dimension("dim2", rank + 1, -1);
  if (!node.failed() && (rank < 1 || aside > kMost || count > kMost || first == second))
    node.error() << "puts " << count << " elements on a diagonal " << offset << " aside, expected at most " << kMost
                 << ", and two different dimensions";
  if (node.failed())
    return;
  const int64_t size = count + aside;
  Name isOn = onDiagonal(node, size, size, offset), self = node.tensor("self"); // the element of column j
  if (aside > 0) {
    Name lead = node.emit("Slice", {node.emit("Shape", {self}), node.constant({0}), node.constant({-1})});
    Name none = node.filled(type, node.emit("Concat", {lead, node.constant({aside})}, {{{"axis", 0}}}), 0);
    self = node.emit("Concat", offset > 0 ? std::vector<Name>{none, self} : std::vector<Name>{self, none},
                     {{{"axis", -1}}});
  }
  Name rows = node.emit("Unsqueeze", {self, node.constant({-2})});
  Name matrices = node.emit("Where", {isOn, rows, node.constant(type, 0)});
  std::vector<int64_t> order;
  for (int64_t dim = 0, next = 0; dim <= rank; ++dim)
    order.push_back(dim == first ? rank - 1 : dim == second ? rank : next++);
  node.finish(node.emit("Transpose", {matrices}, {{}, {}, {{"perm", order}}}));
}

/// By numbers of elements counted over all of the tensor.
void take(NodeTranslation &node) {
  Name flat = node.emit("Reshape", {node.tensor("self"), node.constant({-1})});
  node.finish(node.emit("Gather", {flat, node.tensor("index")}, {{{"axis", 0}}}));
}

/// The sign of a determinant, and the logarithm of its size.
template <const char *Matrices> void determinantByLogarithm(NodeTranslation &node) {
  Name determinant = node.emit("Det", {node.tensor(Matrices)});
  node.finish(node.emit("Sign", {determinant}));
  node.finish(node.emit("Log", {node.emit("Abs", {determinant})}), 1); // what comes then is for torch's own backward
}

/// Where each place of an image is between -1 and 1 along a dimension of `size`: whose outermost places are there where
/// corners are aligned, and whose edges are there otherwise.
Name placesBetween(NodeTranslation &node, int64_t size, bool alignsCorners, ScalarType type) {
  std::vector<int64_t> numbers;
  for (int64_t place = 0; place < size; ++place)
    numbers.push_back(2 * place + 1 - size);
  const int64_t parts = alignsCorners ? size - 1 : size;
  return node.emit("Div", {node.cast(node.constant(numbers), type),
                           node.constant(type, static_cast<double>(std::max<int64_t>(parts, 1)))});
}

/// Where each place of an image of the result's size is under matrices (N, 2, 3), or of a volume under (N, 3, 4): of
/// its coordinates, the last dimension's first, and 1.
void affineGrid(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  const int64_t dims = node.listSize("size") - 2; // (N, C, H, W)
  constexpr int64_t kMost = 1 << 16;
  if (!node.failed() && (dims < 2 || dims > 3))
    node.error() << "makes a grid of " << dims << " dimensions, expected 2 or 3";
  std::vector<int64_t> all;
  for (int64_t dim = 0; dim < dims && !node.failed(); ++dim) {
    all.push_back(node.integerAt("size", dim + 2));
    if (!node.failed() && (all.back() < 1 || all.back() > kMost))
      node.error() << "makes a grid of " << all.back() << " places along a dimension, expected 1 to " << kMost;
  }
  if (node.failed())
    return;
  const std::vector<int64_t> sizes = all;
  all.push_back(1);
  Name shape = node.constant(all);
  std::vector<Name> columns;
  for (int64_t dim = dims - 1; dim >= 0; --dim) {
    std::vector<int64_t> along(dims + 1, 1);
    along[dim] = -1;
    Name places = placesBetween(node, sizes[dim], node.boolean("align_corners", false), type);
    columns.push_back(node.emit("Expand", {node.emit("Reshape", {places, node.constant(along)}), shape}));
  }
  columns.push_back(node.filled(type, shape, 1));
  const std::string image = letters('a', dims);
  node.finish(einsum(node, {node.emit("Concat", columns, {{{"axis", -1}}}), node.operand("theta", type)},
                     image + "y,nxy->n" + image + "x"));
}
constexpr char kA[] = "A", kSelf[] = "self";
} // namespace

void hyc::torchexport::addMatrix(TranslationTable &table) {
  table["aten.tensordot.default"] = tensorProduct;
  table["aten.kron.default"] = blockProduct;
  table["aten.linalg_cross.default"] = crossProduct<false>;
  table["aten.cross.default"] = crossProduct<true>;
  table["aten._trilinear.default"] = tripleProduct;
  table["aten.linalg_norm.default"] = norm<false, false>;
  table["aten.linalg_norm.ord_str"] = norm<true, false>;
  table["aten.linalg_matrix_norm.default"] = norm<false, true>;
  table["aten.linalg_matrix_norm.str_ord"] = norm<true, true>;
  table["aten.renorm.default"] = shorten;
  table["aten.trace.default"] = trace;
  table["aten.diag_embed.default"] = toDiagonal;
  table["aten.take.default"] = take;
  table["aten.linalg_slogdet.default"] = determinantByLogarithm<kA>;
  table["aten._linalg_slogdet.default"] = determinantByLogarithm<kA>;
  table["aten.slogdet.default"] = determinantByLogarithm<kSelf>;
  table["aten.affine_grid_generator.default"] = affineGrid;
}
