// Resize: along each dimension a choice of elements, or a product with a matrix that is known when compiling, one row a
// result element.
#include "Expansion.h"
#include "hyc/Support/Truncation.h"

#include <cmath>

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::StringRef;

namespace {
struct Resizing {
  std::string mode, coordinates, nearest;
  double cubic = -0.75, extrapolation = 0;
  bool excludesOutside = false;
};

/// How one dimension is resized.
struct Axis {
  int64_t from, to;
  double scale, start = 0, end = 1; // the region, for tf_crop_and_resize
};

/// The place among the elements that result element `i` stands for.
double placeOf(const Resizing &r, const Axis &a, int64_t i) {
  double x = static_cast<double>(i), from = static_cast<double>(a.from), to = static_cast<double>(a.to);
  if (r.coordinates == "align_corners") // by the length before it is rounded
    return to == 1 ? 0 : x * (from - 1) / (from * a.scale - 1);
  if (r.coordinates == "asymmetric")
    return x / a.scale;
  if (r.coordinates == "pytorch_half_pixel")
    return to > 1 ? (x + 0.5) / a.scale - 0.5 : 0;
  if (r.coordinates == "tf_half_pixel_for_nn")
    return (x + 0.5) / a.scale;
  if (r.coordinates == "tf_crop_and_resize")
    return to > 1 ? a.start * (from - 1) + x * (a.end - a.start) * (from - 1) / (to - 1)
                  : 0.5 * (a.start + a.end) * (from - 1);
  return (x + 0.5) / a.scale - 0.5; // half_pixel
}

int64_t nearestTo(StringRef rule, double place) {
  double whole = std::floor(place);
  bool isHalf = place - whole == 0.5;
  if (rule == "floor")
    return truncated(whole);
  if (rule == "ceil")
    return truncated(std::ceil(place));
  if (rule == "round_prefer_ceil")
    return truncated(isHalf ? whole + 1 : std::round(place));
  return truncated(isHalf ? whole : std::round(place)); // round_prefer_floor
}

/// Keys' cubic convolution at distance `d`.
double cubicWeight(double a, double d) {
  d = std::fabs(d);
  if (d <= 1)
    return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/// The weights of all elements in one result element; true where it lies outside and is extrapolated.
bool weightsOf(const Resizing &r, const Axis &a, int64_t i, llvm::MutableArrayRef<double> row) {
  // A region far outside is as good as one a little less far, whose neighbours have numbers.
  double place = std::clamp(placeOf(r, a, i), -0x1p53, 0x1p53), last = static_cast<double>(a.from - 1);
  if (r.coordinates == "tf_crop_and_resize" && (place < 0 || place > last))
    return true;
  auto add = [&](int64_t at, double weight) {
    bool isOutside = at < 0 || at >= a.from;
    if (!(isOutside && r.excludesOutside))
      row[std::clamp<int64_t>(at, 0, a.from - 1)] += weight;
  };
  int64_t low = truncated(std::floor(place));
  double rest = place - std::floor(place);
  if (r.mode == "nearest") {
    add(nearestTo(r.nearest, place), 1);
  } else if (r.mode == "linear") {
    add(low, 1 - rest);
    add(low + 1, rest);
  } else {
    for (int64_t tap = -1; tap <= 2; ++tap)
      add(low + tap, cubicWeight(r.cubic, rest - static_cast<double>(tap)));
  }
  double sum = 0;
  for (double weight : row)
    sum += weight;
  if (r.excludesOutside && sum != 0)
    for (double &weight : row)
      weight /= sum;
  return false;
}

Binding resizeAlong(Expansion &e, const Resizing &r, const Binding &x, int64_t dim, const Axis &a) {
  if (!e.ok())
    return {};
  if (r.mode == "nearest" && r.coordinates != "tf_crop_and_resize") {
    Binding numbers = e.integers(
        a.to, [&](int64_t i) { return std::clamp<int64_t>(nearestTo(r.nearest, placeOf(r, a, i)), 0, a.from - 1); });
    return e("Gather", {x, numbers}, {{"axis", dim}});
  }
  // Row by row, in the order in which the matrix is listed.
  llvm::SmallVector<double> row, outside(a.to, 0);
  bool anyOutside = false;
  auto weightAt = [&](int64_t place) {
    if (place % a.from == 0) {
      row.assign(a.from, 0);
      if (weightsOf(r, a, place / a.from, row))
        outside[place / a.from] = 1, anyOutside = true;
    }
    return row[place % a.from];
  };
  // The dimension last, as rows of a product.
  int64_t tensorRank = x.type.getRank();
  llvm::SmallVector<int64_t> swap;
  for (int64_t d = 0; d < tensorRank; ++d)
    swap.push_back(d == dim ? tensorRank - 1 : d == tensorRank - 1 ? dim : d);
  Binding rows = e.transpose(x, swap);
  Binding weights = e.transpose(e.reals({a.to, a.from}, weightAt, x.type.getElementType()), {1, 0});
  Binding result = e.transpose(e("MatMul", {rows, weights}), swap);
  if (!anyOutside)
    return result;
  llvm::SmallVector<int64_t> shape(tensorRank, 1);
  shape[dim] = a.to;
  Binding isOutside =
      e("Greater", {e.reals(shape, [&](int64_t i) { return outside[i]; }, x.type.getElementType()), e.number(x, 0)});
  return e.where(isOutside, e.number(x, r.extrapolation), result);
}

std::optional<llvm::SmallVector<double>> getReals(NodeImport &node, int index) {
  const HostTensor *tensor = node.constant(index);
  if (!tensor)
    return std::nullopt;
  llvm::SmallVector<double> values;
  for (int64_t i = 0; i < tensor->getNumElements() && i < 64; ++i)
    values.push_back(tensor->isReal() ? tensor->atFlat(i).real : static_cast<double>(tensor->atFlat(i).integer));
  return values;
}

/// Scales or sizes a dimension; `axes` (since 18) names the dimensions that they are for.
std::optional<llvm::SmallVector<Axis>> getAxes(NodeImport &node, RankedTensorType x, int scales, int sizes,
                                               int region) {
  int64_t tensorRank = x.getRank();
  llvm::SmallVector<Axis> axes;
  for (int64_t size : x.getShape())
    axes.push_back({size, size, 1});
  auto isGiven = [&](int index) { return node.has(index) && node.input(index).type.getNumElements() > 0; };
  bool bySize = isGiven(sizes);
  if (!bySize && !isGiven(scales)) {
    node.error() << "has neither scales nor sizes";
    return std::nullopt;
  }
  std::optional<llvm::SmallVector<double>> values = getReals(node, bySize ? sizes : scales);
  std::optional<llvm::SmallVector<int64_t>> dims = node.getInts("axes");
  dims = node.normalizeAxes(dims ? *dims : llvm::to_vector(llvm::seq<int64_t>(0, tensorRank)), tensorRank);
  if (!values || !dims)
    return std::nullopt;
  std::optional<llvm::SmallVector<double>> roi;
  if (region >= 0 && isGiven(region) && !(roi = getReals(node, region)))
    return std::nullopt;
  bool good = values->size() == dims->size() && (!roi || roi->size() == 2 * dims->size());
  for (size_t i = 0; good && i < dims->size(); ++i) {
    Axis &axis = axes[(*dims)[i]];
    double value = (*values)[i], size = bySize ? value : std::floor(static_cast<double>(axis.from) * value);
    good = size >= 1 && size < (1 << 20);
    axis.to = good ? static_cast<int64_t>(size) : 1;
    axis.scale = bySize ? size / static_cast<double>(axis.from) : value;
    if (roi)
      axis.start = (*roi)[i], axis.end = (*roi)[dims->size() + i];
  }
  if (good)
    return axes;
  node.error() << "resizes " << x << " by " << values->size() << (bySize ? " sizes" : " scales") << " along "
               << dims->size() << " dimensions, expected one for each, that makes it 1 to 1048575 long";
  return std::nullopt;
}

LogicalResult resize(NodeImport &node, const Resizing &r, int scales, int sizes, int region) {
  Expansion e(node);
  Binding x = node.input(0);
  Type element = x.type.getElementType();
  std::optional<llvm::SmallVector<Axis>> axes = getAxes(node, x.type, scales, sizes, region);
  if (!axes)
    return failure();
  if (!isa<FloatType>(element))
    x = e.cast(x, node.importer().getBuilder().getF32Type());
  for (auto [dim, axis] : llvm::enumerate(*axes))
    if (axis.from != axis.to || axis.scale != 1 || axis.start != 0 || axis.end != 1)
      x = resizeAlong(e, r, x, static_cast<int64_t>(dim), axis);
  return e.finish(e.cast(x, element));
}

LogicalResult importResize(NodeImport &node) {
  bool isOld = node.opset() < 11; // data and scales only
  Resizing r{node.getString("mode", "nearest"),
             node.getString("coordinate_transformation_mode", isOld ? "asymmetric" : "half_pixel"),
             node.getString("nearest_mode", isOld ? "floor" : "round_prefer_floor"),
             node.getFloat("cubic_coeff_a", -0.75),
             node.getFloat("extrapolation_value", 0),
             node.getInt("exclude_outside", 0) != 0};
  if (node.getInt("antialias", 0) != 0 || node.getString("keep_aspect_ratio_policy", "stretch") != "stretch")
    return node.error() << "filters or keeps the aspect ratio, which hyc does not do";
  if (r.mode != "nearest" && r.mode != "linear" && r.mode != "cubic")
    return node.error() << "has the mode '" << r.mode << "', expected nearest, linear or cubic";
  if (isOld)
    return resize(node, r, 1, 3, -1);
  return resize(node, r, 2, 3, r.coordinates == "tf_crop_and_resize" ? 1 : -1);
}

LogicalResult importUpsample(NodeImport &node) {
  return resize(node, {node.getString("mode", "nearest"), "asymmetric", "floor"}, 1, 3, -1);
}
} // namespace

void hyc::onnx::addResizeOperators(OperatorTable &table) {
  table["Resize"] = {importResize,
                     {tensor("X").ranks(1), tensor("roi").ranks(0, 1).orEmptyConstant().optional(),
                      tensor("scales").ranks(0, 1).orEmptyConstant().optional(), list("sizes").optional()}};
  table["Upsample"] = {importUpsample, {tensor("X").ranks(1), tensor("scales").ranks(0, 1).optional()}};
}
