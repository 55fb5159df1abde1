// Complex numbers, which hyc has none of: a value of them is a tensor of floats with one dimension more, the last, of a
// real and an imaginary part. Only the operators of this table know of them; every other one refuses them.
#include "ComplexParts.h"

#include <cmath>

using namespace hyc::torchexport;

static constexpr int64_t kEnd = INT64_MAX;
/// Most elements along a dimension that is transformed: the matrix has four numbers for each pair of them.
static constexpr int64_t kMostFrequencies = 4096;

Parts hyc::torchexport::split(NodeTranslation &node, const Name &pairs) {
  Name last = node.constant({-1});
  return {node.emit("Slice", {pairs, node.constant({0}), node.constant({1}), last}),
          node.emit("Slice", {pairs, node.constant({1}), node.constant({kEnd}), last})};
}

Name hyc::torchexport::join(NodeTranslation &node, const Parts &parts) {
  return node.emit("Concat", {parts.real, parts.imaginary}, {{{"axis", -1}}});
}

Name hyc::torchexport::withLast(NodeTranslation &node, const Name &value) {
  return node.emit("Unsqueeze", {value, node.constant({-1})});
}
Name hyc::torchexport::withoutLast(NodeTranslation &node, const Name &value) {
  return node.emit("Squeeze", {value, node.constant({-1})});
}

Parts hyc::torchexport::partsOf(NodeTranslation &node, const char *argument) {
  if (node.isComplex(argument))
    return split(node, node.tensor(argument));
  if (auto number = node.complexNumber(argument)) {
    auto part = [&](double value) { return node.filled(ScalarType::F32, node.constant({1}), value); };
    return {part(number->first), part(number->second)};
  }
  Name value = withLast(node, node.operand(argument, ScalarType::F32));
  return {value, node.emit("Mul", {value, node.constant(ScalarType::F32, 0)})};
}

namespace {

Name real(NodeTranslation &node, const char *argument) { return node.operand(argument, ScalarType::F32); }

/// Of two tensors, whose sizes torch makes equal.
void fromParts(NodeTranslation &node) {
  node.finish(join(node, {withLast(node, real(node, "real")), withLast(node, real(node, "imag"))}));
}

void fromPolar(NodeTranslation &node) {
  Name length = real(node, "abs"), angle = real(node, "angle");
  Name x = node.emit("Mul", {length, node.emit("Cos", {angle})}),
       y = node.emit("Mul", {length, node.emit("Sin", {angle})});
  node.finish(join(node, {withLast(node, x), withLast(node, y)}));
}

void same(NodeTranslation &node) {
  if (node.isComplex("self"))
    return node.finish(node.tensor("self"));
  node.finish(join(node, partsOf(node, "self"))); // a real tensor that is to be complex
}

/// A tensor of pairs, of which torch makes complex numbers, and back.
void samePairs(NodeTranslation &node) { node.finish(node.tensor("self")); }

void realPart(NodeTranslation &node) { node.finish(withoutLast(node, split(node, node.tensor("self")).real)); }

void imaginaryPart(NodeTranslation &node) {
  node.finish(withoutLast(node, split(node, node.tensor("self")).imaginary));
}

void conjugate(NodeTranslation &node) {
  Parts parts = split(node, node.tensor("self"));
  node.finish(join(node, {parts.real, node.emit("Neg", {parts.imaginary})}));
}

void negate(NodeTranslation &node) { node.finish(node.emit("Neg", {node.tensor("self")})); }

void absolute(NodeTranslation &node) {
  Name pairs = node.tensor("self");
  Name squares = node.emit("ReduceSum", {node.emit("Mul", {pairs, pairs}), node.constant({-1})}, {{{"keepdims", 0}}});
  node.finish(rootOf(node, squares, ScalarType::F32));
}

template <const char *Type> void combine(NodeTranslation &node) {
  Parts a = partsOf(node, "self"), b = partsOf(node, "other");
  if (double scale = node.number("alpha", 1); scale != 1)
    for (Name *part : {&b.real, &b.imaginary})
      *part = node.emit("Mul", {*part, node.constant(ScalarType::F32, scale)});
  node.finish(join(node, {node.emit(Type, {a.real, b.real}), node.emit(Type, {a.imaginary, b.imaginary})}));
}

template <const char *Shape> void reshape(NodeTranslation &node) {
  Name sizes = node.emit("Concat", {node.shape(Shape), node.constant({2})}, {{{"axis", 0}}});
  node.finish(node.emit("Reshape", {node.tensor("self"), sizes}));
}

void transpose(NodeTranslation &node) {
  const int64_t rank = node.tensorRank("self");
  std::vector<int64_t> order(rank + 1);
  for (int64_t dim = 0; dim <= rank; ++dim)
    order[dim] = dim;
  std::swap(order[node.dimension("dim0", rank)], order[node.dimension("dim1", rank)]);
  node.finish(node.emit("Transpose", {node.tensor("self")}, {{}, {}, {{"perm", order}}}));
}

void permute(NodeTranslation &node) {
  const int64_t rank = node.tensorRank("self");
  std::vector<int64_t> order = node.integers("dims");
  for (int64_t &dim : order)
    dim = dim < 0 ? dim + rank : dim;
  order.push_back(rank);
  node.finish(node.emit("Transpose", {node.tensor("self")}, {{}, {}, {{"perm", order}}}));
}

//===----------------------------------------------------------------------===//
// Transforms
//===----------------------------------------------------------------------===//

/// What an index n and its part become at frequency k: (N, 2, N, 2), from cos and sin of 2πnk/N. One for all nodes.
Name transformMatrix(NodeTranslation &node, int64_t size, bool isInverse) {
  Name &matrix = node.shared((isInverse ? "inverse transform of " : "transform of ") + std::to_string(size));
  if (!matrix.empty())
    return matrix;
  auto number = [&](double value) { return node.constant(ScalarType::I64, value); };
  Name places = node.emit("Range", {number(0), number(static_cast<double>(size)), number(1)});
  // Whole turns are taken off among integers, where nothing is rounded.
  Name turns = node.emit("Mod", {node.emit("Mul", {node.emit("Unsqueeze", {places, node.constant({1})}), places}),
                                 number(static_cast<double>(size))});
  Name angle = node.emit(
      "Mul", {node.cast(turns, ScalarType::F32), node.constant(ScalarType::F32, 2 * M_PI / static_cast<double>(size))});
  Name cosine = node.emit("Cos", {angle}), sine = node.emit("Sin", {angle}), negative = node.emit("Neg", {sine});
  auto pair = [&](const Name &x, const Name &y) {
    return node.emit("Unsqueeze", {join(node, {withLast(node, x), withLast(node, y)}), node.constant({1})});
  };
  // The real part n gives (cos, -sin) of it, the imaginary one (sin, cos); the inverse turns the other way.
  matrix = node.emit("Concat", {pair(cosine, isInverse ? sine : negative), pair(isInverse ? negative : sine, cosine)},
                     {{{"axis", 1}}});
  return matrix;
}

/// `pairs` of `rank` dimensions beside the parts, transformed along one of them.
Name transformAlong(NodeTranslation &node, const Name &pairs, int64_t rank, int64_t dim, int64_t size, bool isInverse) {
  std::string from, to;
  for (int64_t each = 0; each < rank; ++each) {
    from += static_cast<char>(each == dim ? 'n' : 'A' + each);
    to += static_cast<char>(each == dim ? 'k' : 'A' + each);
  }
  return node.emit("Einsum", {pairs, transformMatrix(node, size, isInverse)},
                   {{}, {}, {}, {{"equation", from + "c,ncke->" + to + "e"}}});
}

/// What each result is divided by, as `norm` has it, or as torch numbers that.
double divisorOf(NodeTranslation &node, double elements, bool isInverse) {
  if (node.has("normalization"))
    switch (node.integer("normalization")) {
    case 0:
      return 1;
    case 1:
      return std::sqrt(elements);
    default:
      return elements;
    }
  const std::string norm = node.text("norm", "backward");
  return norm == "ortho" ? std::sqrt(elements) : (norm == "forward") != isInverse ? elements : 1;
}

/// Which dimensions are transformed where none is named.
enum class Dims { Last, LastTwo, All };

/// What is transformed: dimensions, and how many elements each is cut or padded to before.
struct Transformed {
  std::vector<int64_t> dims, sizes;
};

/// What a node names, or means; nothing, reported, where it names what is not there.
Transformed transformedDims(NodeTranslation &node, Dims otherwise) {
  const int64_t rank = node.tensorRank("self");
  Transformed result;
  std::vector<int64_t> given = node.has("s") ? node.integers("s") : std::vector<int64_t>();
  if (node.has("n"))
    given = {node.integer("n")};
  int64_t count = otherwise == Dims::All ? rank : otherwise == Dims::Last ? 1 : 2;
  if (!given.empty())
    count = static_cast<int64_t>(given.size());
  if (node.has("dim") && node.isNumber("dim"))
    result.dims = {node.dimension("dim", rank, -1)};
  else if (node.has("dim"))
    for (int64_t dim : node.integers("dim"))
      result.dims.push_back(dim < 0 ? dim + rank : dim);
  else
    for (int64_t dim = std::max<int64_t>(rank - count, 0); dim < rank; ++dim)
      result.dims.push_back(dim);
  if (!node.failed() && (rank < 1 || rank > 12 || (!given.empty() && given.size() != result.dims.size())))
    node.error() << "transforms " << result.dims.size() << " of " << rank << " dimensions to " << given.size()
                 << " sizes, expected one for each of at most 12";
  for (int64_t dim : result.dims)
    if ((dim < 0 || dim >= rank) && !node.failed())
      node.error() << "transforms dimension " << dim << " of " << rank;
  if (node.failed())
    return {};
  for (size_t i = 0; i < result.dims.size(); ++i)
    result.sizes.push_back(given.empty() || given[i] == -1 ? node.sizeOf("self", result.dims[i]) : given[i]);
  return node.failed() ? Transformed() : result;
}

/// Whether a dimension's matrix is one that hyc makes.
bool checkSize(NodeTranslation &node, int64_t size) {
  if (!node.failed() && (size < 1 || size > kMostFrequencies))
    node.error() << "transforms a dimension of " << size << " elements, expected 1 to " << kMostFrequencies;
  return !node.failed();
}

/// A dimension of `from` elements with the first `size` of them, or with zeros behind.
Name resized(NodeTranslation &node, const Name &pairs, int64_t dim, int64_t from, int64_t size) {
  Name at = node.constant({dim});
  if (size <= from)
    return size == from ? pairs : node.emit("Slice", {pairs, node.constant({0}), node.constant({size}), at});
  return node.emit("Pad", {pairs, node.constant({0, size - from}), "", at});
}

/// Transforms what a node names, and counts in `elements` what it has.
Name transformAll(NodeTranslation &node, Name pairs, const Transformed &what, bool isInverse, double &elements) {
  for (auto [dim, size] : llvm::zip_equal(what.dims, what.sizes)) {
    if (!checkSize(node, size))
      return "";
    elements *= static_cast<double>(size);
    pairs = resized(node, pairs, dim, node.sizeOf("self", dim), size);
    pairs = transformAlong(node, pairs, node.tensorRank("self"), dim, size, isInverse);
  }
  return pairs;
}

void finishDivided(NodeTranslation &node, const Name &value, double elements, bool isInverse) {
  if (node.failed())
    return;
  const double divisor = divisorOf(node, elements, isInverse);
  node.finish(divisor == 1 ? value : node.emit("Div", {value, node.constant(ScalarType::F32, divisor)}));
}

void transform(NodeTranslation &node, Dims otherwise, bool isInverse) {
  const Transformed what = transformedDims(node, otherwise);
  double elements = 1;
  if (node.failed())
    return;
  Name pairs = transformAll(node, join(node, partsOf(node, "self")), what, isInverse, elements);
  finishDivided(node, pairs, elements, isInverse);
}

template <bool IsInverse, Dims Otherwise> void fourier(NodeTranslation &node) { transform(node, Otherwise, IsInverse); }
/// In the spelling that has one operator for both ways.
void fourierEitherWay(NodeTranslation &node) { transform(node, Dims::All, !node.boolean("forward", true)); }

/// Of real numbers: the second half of the last dimension's frequencies says nothing new, and is left out.
template <Dims Otherwise> void fourierOfReal(NodeTranslation &node) {
  const Transformed what = transformedDims(node, Otherwise);
  double elements = 1;
  if (node.failed() || what.dims.empty())
    return;
  Name pairs = transformAll(node, join(node, partsOf(node, "self")), what, /*isInverse=*/false, elements);
  if (node.failed())
    return;
  if (node.boolean("onesided", true))
    pairs = node.emit("Slice", {pairs, node.constant({0}), node.constant({what.sizes.back() / 2 + 1}),
                                node.constant({what.dims.back()})});
  finishDivided(node, pairs, elements, /*isInverse=*/false);
}

/// What a frequency and its part become at place n: (K, 2, N). All but the first, and the last of an even number, stand
/// for two.
Name realMatrix(NodeTranslation &node, int64_t frequencies, int64_t size) {
  std::vector<Name> parts;
  auto number = [&](double value) { return node.constant(ScalarType::I64, value); };
  auto count = [&](int64_t end) {
    return node.emit("Range", {number(0), number(static_cast<double>(end)), number(1)});
  };
  Name turns = node.emit(
      "Mod", {node.emit("Mul", {node.emit("Unsqueeze", {count(frequencies), node.constant({1})}), count(size)}),
              number(static_cast<double>(size))});
  Name angle = node.emit(
      "Mul", {node.cast(turns, ScalarType::F32), node.constant(ScalarType::F32, 2 * M_PI / static_cast<double>(size))});
  Name stands = node.emit("Unsqueeze", {count(frequencies), node.constant({1})});
  Name isAlone =
      node.emit("Equal", {node.emit("Mod", {node.emit("Mul", {stands, number(2)}), number(static_cast<double>(size))}),
                          number(0)});
  Name times = node.emit("Where", {isAlone, node.constant(ScalarType::F32, 1), node.constant(ScalarType::F32, 2)});
  for (const Name &part : {node.emit("Cos", {angle}), node.emit("Neg", {node.emit("Sin", {angle})})})
    parts.push_back(node.emit("Unsqueeze", {node.emit("Mul", {part, times}), node.constant({1})}));
  return node.emit("Concat", parts, {{{"axis", 1}}});
}

/// Back to real numbers from half of the frequencies.
template <Dims Otherwise> void fourierToReal(NodeTranslation &node) {
  Transformed what = transformedDims(node, Otherwise);
  if (node.failed() || what.dims.empty())
    return;
  const bool isGiven = node.has("n") || (node.has("s") && node.integers("s").back() != -1);
  const int64_t last = what.dims.back(), rank = node.tensorRank("self"), given = node.sizeOf("self", last);
  const int64_t otherwise = isGiven ? what.sizes.back() : 2 * (given - 1);
  const int64_t size = node.integer("last_dim_size", otherwise), frequencies = size / 2 + 1;
  if (node.failed() || !checkSize(node, size))
    return;
  double elements = static_cast<double>(size);
  what.dims.pop_back();
  what.sizes.pop_back();
  Name pairs = resized(node, join(node, partsOf(node, "self")), last, given, frequencies);
  pairs = transformAll(node, pairs, what, /*isInverse=*/true, elements);
  if (node.failed())
    return;
  std::string from, to;
  for (int64_t each = 0; each < rank; ++each) {
    from += static_cast<char>(each == last ? 'k' : 'A' + each);
    to += static_cast<char>(each == last ? 'n' : 'A' + each);
  }
  Name real = node.emit("Einsum", {pairs, realMatrix(node, frequencies, size)},
                        {{}, {}, {}, {{"equation", from + "c,kcn->" + to}}});
  finishDivided(node, real, elements, /*isInverse=*/true);
}

/// The window of a short-time transform, as (size, 1, 1): what is shorter stands in the middle.
Name windowOf(NodeTranslation &node, int64_t size, int64_t length) {
  auto none = [&](int64_t count) { return node.filled(ScalarType::F32, node.constant({count}), 0); };
  Name window = node.has("window") ? real(node, "window") : node.filled(ScalarType::F32, node.constant({length}), 1);
  std::vector<Name> parts{window};
  const int64_t before = (size - length) / 2, behind = size - length - before;
  if (before > 0)
    parts.insert(parts.begin(), none(before));
  if (behind > 0)
    parts.push_back(none(behind));
  if (parts.size() > 1)
    window = node.emit("Concat", parts, {{{"axis", 0}}});
  return node.emit("Reshape", {window, node.constant({size, 1, 1})});
}

/// Transforms of windows of a signal, each so far from the last: a convolution of real numbers by the windowed matrix.
void shortTimeFourier(NodeTranslation &node) {
  const int64_t rank = node.tensorRank("self"), size = node.integer("n_fft");
  const int64_t step = node.integer("hop_length", size / 4), length = node.integer("win_length", size);
  const bool isComplex = node.isComplex("self") || node.isComplex("window");
  if (!checkSize(node, size))
    return;
  if (rank < 1 || rank > 2 || isComplex || step < 1 || length < 1 || length > size || node.has("align_to_window") ||
      node.sizeOf("self", rank - 1) < size) {
    if (!node.failed())
      node.error() << "transforms windows of " << length << " of " << size << " elements, " << step
                   << " apart, expected at most as many as the signal has, of real numbers in one or two dimensions";
    return;
  }
  const int64_t count = node.boolean("onesided", true) ? size / 2 + 1 : size;
  Name matrix =
      node.emit("Gather", {transformMatrix(node, size, /*isInverse=*/false), node.constant(ScalarType::I64, 0)},
                {{{"axis", 1}}}); // (n, k, part)
  matrix = node.emit("Slice", {matrix, node.constant({0}), node.constant({count}), node.constant({1})});
  Name weight = node.emit("Transpose", {node.emit("Mul", {matrix, windowOf(node, size, length)})},
                          {{}, {}, {{"perm", {1, 2, 0}}}});
  weight = node.emit("Reshape", {weight, node.constant({2 * count, 1, size})});
  Name signal = node.emit("Unsqueeze", {real(node, "self"), rank == 1 ? node.constant({0, 1}) : node.constant({1})});
  Name windows = node.emit("Conv", {signal, weight}, {{}, {}, {{"strides", {step}}}}); // (B, k · part, T)
  Name apart = node.emit("Reshape", {windows, node.constant({0, count, 2, -1})});
  Name result = node.emit("Transpose", {apart}, {{}, {}, {{"perm", {0, 1, 3, 2}}}});
  if (node.boolean("normalized", false))
    result = node.emit("Mul", {result, node.constant(ScalarType::F32, 1 / std::sqrt(static_cast<double>(size)))});
  node.finish(rank == 1 ? node.emit("Squeeze", {result, node.constant({0})}) : result);
}

constexpr char kAdd[] = "Add", kSub[] = "Sub", kSize[] = "size", kShape[] = "shape";

void addArithmetic(TranslationTable &table) {
  table["aten.complex.default"] = fromParts;
  table["aten.polar.default"] = fromPolar;
  table["aten.real.default"] = realPart;
  table["aten.imag.default"] = imaginaryPart;
  for (const char *name : {"_conj", "conj", "conj_physical", "_conj_physical"})
    table["aten." + std::string(name) + ".default"] = conjugate;
  table["aten.neg.default"] = negate;
  table["aten.abs.default"] = absolute;
  for (const char *overload : {"Tensor", "Scalar"}) {
    table["aten.add." + std::string(overload)] = combine<kAdd>;
    table["aten.sub." + std::string(overload)] = combine<kSub>;
  }
  table["aten.fft_fft.default"] = fourier<false, Dims::Last>;
  table["aten.fft_ifft.default"] = fourier<true, Dims::Last>;
  table["aten.fft_fft2.default"] = fourier<false, Dims::LastTwo>;
  table["aten.fft_ifft2.default"] = fourier<true, Dims::LastTwo>;
  table["aten.fft_fftn.default"] = fourier<false, Dims::All>;
  table["aten.fft_ifftn.default"] = fourier<true, Dims::All>;
  table["aten._fft_c2c.default"] = fourierEitherWay;
  table["aten.fft_rfft.default"] = fourierOfReal<Dims::Last>;
  table["aten.fft_rfft2.default"] = fourierOfReal<Dims::LastTwo>;
  table["aten.fft_rfftn.default"] = fourierOfReal<Dims::All>;
  table["aten._fft_r2c.default"] = fourierOfReal<Dims::All>;
  table["aten.fft_irfft.default"] = fourierToReal<Dims::Last>;
  table["aten.fft_irfft2.default"] = fourierToReal<Dims::LastTwo>;
  table["aten.fft_irfftn.default"] = fourierToReal<Dims::All>;
  table["aten._fft_c2r.default"] = fourierToReal<Dims::All>;
}
} // namespace

const TranslationTable &hyc::torchexport::complexTranslations() {
  static const TranslationTable table = [] {
    TranslationTable result;
    addArithmetic(result);
    addComplexProducts(result);
    result["aten.view_as_complex.default"] = result["aten.view_as_real.default"] = samePairs;
    for (const char *name : {"alias.default", "clone.default", "contiguous.default", "resolve_conj.default",
                             "detach.default", "to.dtype", "to.device", "to.dtype_layout", "_to_copy.default"})
      result["aten." + std::string(name)] = same;
    for (const char *name : {"view.default", "_unsafe_view.default"})
      result["aten." + std::string(name)] = reshape<kSize>;
    result["aten.reshape.default"] = reshape<kShape>;
    result["aten.transpose.int"] = transpose;
    result["aten.permute.default"] = permute;
    result["aten.stft.default"] = shortTimeFourier;
    // Those that count dimensions from the front take pairs as they take anything.
    for (const char *name : {"unsqueeze.default", "slice.Tensor", "select.int", "cat.default", "slice_scatter.default",
                             "select_scatter.default", "fft_fftshift.default", "fft_ifftshift.default"})
      result["aten." + std::string(name)] = findTranslation("aten." + std::string(name));
    return result;
  }();
  return table;
}
