// Products, quotients and functions of complex numbers, sums over dimensions of them, and tensors of them that are
// filled or written.
#include "ComplexParts.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <array>

using namespace hyc::torchexport;

/// Most complex operands of one product: it becomes two products of reals for each choice of their parts.
static constexpr size_t kMostFactors = 4;

namespace {
/// What is linear in each of its operands, over real tensors.
using Product = llvm::function_ref<Name(const std::vector<Name> &)>;

/// The same over complex ones: the sum over all choices of parts, each times i for every imaginary one.
Name multilinear(NodeTranslation &node, const std::vector<std::pair<Name, bool>> &factors, Product product) {
  std::vector<std::array<Name, 2>> parts; // of one that is real, the first alone
  size_t complexCount = 0;
  for (const auto &[value, isComplex] : factors) {
    complexCount += isComplex;
    Parts own = isComplex ? split(node, value) : Parts();
    parts.push_back(isComplex ? std::array<Name, 2>{withoutLast(node, own.real), withoutLast(node, own.imaginary)}
                              : std::array<Name, 2>{value, ""});
  }
  if (complexCount > kMostFactors) {
    node.error() << "multiplies " << complexCount << " complex tensors at once, expected at most " << kMostFactors
                 << "; multiply them one after another";
    return "";
  }
  std::array<Name, 2> sums;
  for (size_t choice = 0; choice < (size_t(1) << complexCount); ++choice) {
    std::vector<Name> operands;
    size_t place = 0, turns = 0;
    for (size_t i = 0; i < factors.size(); ++i) {
      const bool isImaginary = factors[i].second && ((choice >> place++) & 1) != 0;
      turns += isImaginary;
      operands.push_back(parts[i][isImaginary]);
    }
    Name term = product(operands), &sum = sums[turns % 2];
    const bool isNegative = turns % 4 >= 2;
    if (sum.empty())
      sum = isNegative ? node.emit("Neg", {term}) : term;
    else
      sum = node.emit(isNegative ? "Sub" : "Add", {sum, term});
  }
  return join(node, {withLast(node, sums[0]), withLast(node, sums[1])});
}

std::pair<Name, bool> factorOf(NodeTranslation &node, const char *argument) {
  return {node.tensor(argument), node.isComplex(argument)};
}

template <const char *Other> void matrixProduct(NodeTranslation &node) {
  node.finish(multilinear(node, {factorOf(node, "self"), factorOf(node, Other)},
                          [&](const std::vector<Name> &operands) { return node.emit("MatMul", operands); }));
}

void einsum(NodeTranslation &node) {
  std::string equation;
  for (char c : node.text("equation", ""))
    if (c != ' ')
      equation += c;
  std::vector<std::pair<Name, bool>> factors;
  const std::vector<const TensorMeta *> metas = node.metasOf("tensors");
  for (auto [index, value] : llvm::enumerate(node.tensors("tensors")))
    factors.push_back({value, index < metas.size() && metas[index]->type == ScalarType::C64});
  node.finish(multilinear(node, factors, [&](const std::vector<Name> &operands) {
    return node.emit("Einsum", operands, {{}, {}, {}, {{"equation", equation}}});
  }));
}

/// 1 / z = conj(z) / |z|²
Parts inverseOf(NodeTranslation &node, const Parts &parts) {
  auto square = [&](const Name &part) { return node.emit("Mul", {part, part}); };
  Name length = node.emit("Add", {square(parts.real), square(parts.imaginary)});
  return {node.emit("Div", {parts.real, length}), node.emit("Neg", {node.emit("Div", {parts.imaginary, length})})};
}

void reciprocal(NodeTranslation &node) { node.finish(join(node, inverseOf(node, partsOf(node, "self")))); }

Parts times(NodeTranslation &node, const Parts &a, const Parts &b) {
  auto product = [&](const Name &x, const Name &y) { return node.emit("Mul", {x, y}); };
  return {node.emit("Sub", {product(a.real, b.real), product(a.imaginary, b.imaginary)}),
          node.emit("Add", {product(a.real, b.imaginary), product(a.imaginary, b.real)})};
}

bool isPair(NodeTranslation &node, const char *argument) {
  return node.isComplex(argument) || node.complexNumber(argument).has_value();
}

void multiply(NodeTranslation &node) {
  const bool isFirst = isPair(node, "self"), isSecond = isPair(node, "other");
  if (isFirst && isSecond)
    return node.finish(join(node, times(node, partsOf(node, "self"), partsOf(node, "other"))));
  const char *pair = isFirst ? "self" : "other", *number = isFirst ? "other" : "self";
  Name pairs = node.isComplex(pair) ? node.tensor(pair) : join(node, partsOf(node, pair));
  node.finish(node.emit("Mul", {pairs, withLast(node, node.operand(number, ScalarType::F32))}));
}

void divide(NodeTranslation &node) {
  if (isPair(node, "other"))
    return node.finish(join(node, times(node, partsOf(node, "self"), inverseOf(node, partsOf(node, "other")))));
  node.finish(node.emit("Div", {node.tensor("self"), withLast(node, node.operand("other", ScalarType::F32))}));
}

/// e^(x + iy) = e^x (cos y + i sin y)
void exponential(NodeTranslation &node) {
  Parts parts = split(node, node.tensor("self"));
  Name length = node.emit("Exp", {parts.real});
  node.finish(join(node, {node.emit("Mul", {length, node.emit("Cos", {parts.imaginary})}),
                          node.emit("Mul", {length, node.emit("Sin", {parts.imaginary})})}));
}

/// Over the dimensions that are named, or all.
template <const char *Type> void reduce(NodeTranslation &node) {
  const int64_t rank = node.tensorRank("self");
  std::vector<int64_t> dims;
  if (node.has("dim"))
    for (int64_t dim : node.integers("dim"))
      dims.push_back(dim < 0 ? dim + rank : dim);
  if (dims.empty())
    for (int64_t dim = 0; dim < rank; ++dim)
      dims.push_back(dim);
  Name self = node.tensor("self");
  node.finish(rank == 0
                  ? self
                  : node.emit(Type, {self, node.constant(dims)}, {{{"keepdims", node.boolean("keepdim", false)}}}));
}

Name shapeOf(NodeTranslation &node, bool isLike) {
  return isLike ? node.emit("Shape", {node.tensor("self")})
                : node.emit("Concat", {node.shape("size"), node.constant({2})}, {{{"axis", 0}}});
}

template <bool Like> void zeros(NodeTranslation &node) {
  node.finish(node.filled(ScalarType::F32, shapeOf(node, Like), 0));
}

template <bool Like> void ones(NodeTranslation &node) {
  auto part = [&](double value) { return node.filled(ScalarType::F32, node.constant({1}), value); };
  node.finish(node.emit("Expand", {join(node, {part(1), part(0)}), shapeOf(node, Like)}));
}

template <bool Like> void full(NodeTranslation &node) {
  node.finish(node.emit("Expand", {join(node, partsOf(node, "fill_value")), shapeOf(node, Like)}));
}

void choose(NodeTranslation &node) {
  Name condition = withLast(node, node.tensor("condition"));
  node.finish(node.emit("Where", {condition, join(node, partsOf(node, "self")), join(node, partsOf(node, "other"))}));
}

/// Zeros around the last dimensions, the last named first.
void pad(NodeTranslation &node) {
  const int64_t rank = node.tensorRank("self");
  std::vector<int64_t> sizes = node.integers("pad"), begins, ends, dims;
  if (!node.failed() &&
      (sizes.size() % 2 != 0 || static_cast<int64_t>(sizes.size()) > 2 * rank ||
       node.text("mode", "constant") != "constant" || node.complexNumber("value") || node.number("value", 0) != 0))
    node.error() << "pads " << rank << " dimensions by a list of " << sizes.size()
                 << ", or by others than zeros, expected two sizes for each of some dimensions";
  for (size_t i = 0; i + 1 < sizes.size(); i += 2) {
    begins.push_back(sizes[i]);
    ends.push_back(sizes[i + 1]);
    dims.push_back(rank - 1 - static_cast<int64_t>(i / 2));
  }
  if (node.failed())
    return;
  begins.insert(begins.end(), ends.begin(), ends.end());
  node.finish(node.emit("Pad", {node.tensor("self"), node.constant(begins), "", node.constant(dims)}));
}

/// One tensor's values, repeated where it has no such dimension, in the place of the other's.
void copy(NodeTranslation &node) {
  Name source = node.isComplex("src") ? node.tensor("src") : join(node, partsOf(node, "src"));
  node.finish(node.emit("Expand", {source, node.emit("Shape", {node.tensor("self")})}));
}

void expand(NodeTranslation &node) {
  Name shape = node.emit("Concat", {node.shape("size", 1), node.constant({2})}, {{{"axis", 0}}});
  node.finish(node.emit("Expand", {node.tensor("self"), shape}));
}

constexpr char kOther[] = "other", kMat2[] = "mat2", kSum[] = "ReduceSum", kMean[] = "ReduceMean";
} // namespace

void hyc::torchexport::addComplexProducts(TranslationTable &table) {
  table["aten.matmul.default"] = matrixProduct<kOther>;
  table["aten.mm.default"] = table["aten.bmm.default"] = matrixProduct<kMat2>;
  table["aten.einsum.default"] = einsum;
  table["aten.exp.default"] = exponential;
  table["aten.reciprocal.default"] = reciprocal;
  for (const char *overload : {"Tensor", "Scalar"})
    table["aten.div." + std::string(overload)] = divide;
  for (const char *overload : {"Tensor", "Scalar"})
    table["aten.mul." + std::string(overload)] = multiply;
  table["aten.sum.default"] = table["aten.sum.dim_IntList"] = reduce<kSum>;
  table["aten.mean.default"] = table["aten.mean.dim"] = reduce<kMean>;
  for (const char *name : {"zeros.default", "new_zeros.default", "empty.memory_format", "new_empty.default"})
    table["aten." + std::string(name)] = zeros<false>;
  table["aten.zeros_like.default"] = table["aten.empty_like.default"] = zeros<true>;
  table["aten.ones.default"] = ones<false>;
  table["aten.ones_like.default"] = ones<true>;
  table["aten.full.default"] = full<false>;
  table["aten.full_like.default"] = full<true>;
  table["aten.where.self"] = choose;
  table["aten.constant_pad_nd.default"] = table["aten.pad.default"] = pad;
  table["aten.copy.default"] = copy;
  table["aten.expand.default"] = expand;
}
