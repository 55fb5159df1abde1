// Resize: along each dimension a choice of elements, or weighted sums of a few, by tables that are known when
// compiling.
#include "Expansion.h"
#include "hyc/Support/Truncation.h"
#include "llvm/ADT/StringExtras.h"

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
  if (r.coordinates == "half_pixel_symmetric") // as far from the middle as without rounding the length
    return from / 2 * (1 - to / (from * a.scale)) + (x + 0.5) / a.scale - 0.5;
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

/// What one result element is made of: numbers of elements and their weights; a number may come twice.
using Taps = llvm::SmallVector<std::pair<int64_t, double>, 4>;

/// None where the result element lies outside and is extrapolated.
Taps tapsOf(const Resizing &r, const Axis &a, int64_t i) {
  // A region far outside is as good as one a little less far, whose neighbours have numbers.
  double place = std::clamp(placeOf(r, a, i), -0x1p53, 0x1p53), last = static_cast<double>(a.from - 1);
  Taps taps;
  if (r.coordinates == "tf_crop_and_resize" && (place < 0 || place > last))
    return taps;
  double sum = 0;
  auto add = [&](int64_t at, double weight) {
    bool isOutside = at < 0 || at >= a.from;
    if (isOutside && r.excludesOutside)
      return;
    taps.push_back({std::clamp<int64_t>(at, 0, a.from - 1), weight});
    sum += weight;
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
  if (r.excludesOutside && sum != 0)
    for (auto &[at, weight] : taps)
      weight /= sum;
  return taps;
}

/// The tables of hyc.resample along one dimension.
struct ResampleTable {
  llvm::SmallVector<int64_t> firsts;
  llvm::SmallVector<double> weights;
  llvm::SmallVector<double> outside; ///< 1 where a result element is extrapolated, if there is such a one
};

ResampleTable tableOf(const Resizing &r, const Axis &a) {
  std::vector<Taps> rows;
  ResampleTable table;
  int64_t width = 1;
  for (int64_t i = 0; i < a.to; ++i) {
    Taps &taps = rows.emplace_back(tapsOf(r, a, i));
    auto [low, high] = std::minmax_element(taps.begin(), taps.end());
    table.firsts.push_back(taps.empty() ? 0 : low->first);
    width = std::max(width, taps.empty() ? 1 : high->first - low->first + 1);
  }
  table.weights.assign(a.to * width, 0);
  for (auto [i, taps] : llvm::enumerate(rows)) {
    table.firsts[i] = std::min(table.firsts[i], a.from - width);
    for (auto [at, weight] : taps)
      table.weights[i * width + at - table.firsts[i]] += weight;
  }
  if (llvm::any_of(rows, [](const Taps &taps) { return taps.empty(); }))
    for (const Taps &taps : rows)
      table.outside.push_back(taps.empty() ? 1 : 0);
  return table;
}

/// Dimensions from `dim` on, that follow one another.
Binding resample(Expansion &e, const Resizing &r, Binding x, int64_t dim, llvm::ArrayRef<Axis> axes) {
  Builder &builder = e.getImporter().getBuilder();
  llvm::SmallVector<Attribute> firsts, weights;
  llvm::SmallVector<ResampleTable> tables;
  for (const Axis &axis : axes) {
    ResampleTable &table = tables.emplace_back(tableOf(r, axis));
    firsts.push_back(builder.getDenseI64ArrayAttr(table.firsts));
    weights.push_back(builder.getDenseF64ArrayAttr(table.weights));
  }
  ResampleOp::Properties properties;
  properties.dim = builder.getI64IntegerAttr(dim);
  properties.firsts = builder.getArrayAttr(firsts);
  properties.weights = builder.getArrayAttr(weights);
  Binding result = e.emit([&] { return e.getImporter().emitInferred<ResampleOp>(e.value(x), properties); });
  for (auto [k, table] : llvm::enumerate(tables)) {
    if (table.outside.empty() || !e.ok())
      continue;
    llvm::SmallVector<int64_t> shape(x.type.getRank(), 1);
    shape[dim + k] = axes[k].to;
    const auto &parts = table.outside;
    Binding outside = e.reals(shape, [&](int64_t i) { return parts[i]; }, x.type.getElementType());
    result = e.where(e("Greater", {outside, e.number(x, 0)}), e.number(x, r.extrapolation), result);
  }
  return result;
}

/// A choice of elements, of any type.
Binding choose(Expansion &e, const Resizing &r, const Binding &x, int64_t dim, const Axis &a) {
  if (!e.ok())
    return {};
  Binding numbers = e.integers(
      a.to, [&](int64_t i) { return std::clamp<int64_t>(nearestTo(r.nearest, placeOf(r, a, i)), 0, a.from - 1); });
  return e("Gather", {x, numbers}, {{"axis", dim}});
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

/// Whether hyc knows what the node asks for; reports it if not.
bool checkModes(NodeImport &node, const Resizing &r) {
  const struct {
    StringRef what, given;
    llvm::SmallVector<StringRef> known;
  } modes[] = {{"mode", r.mode, {"nearest", "linear", "cubic"}},
               {"coordinate_transformation_mode",
                r.coordinates,
                {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
                 "tf_half_pixel_for_nn", "tf_crop_and_resize"}},
               {"nearest_mode", r.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}}};
  for (const auto &mode : modes)
    if (!llvm::is_contained(mode.known, mode.given)) {
      node.error() << "has the '" << mode.what << "' '" << mode.given << "', expected " << llvm::join(mode.known, ", ");
      return false;
    }
  return true;
}

LogicalResult resize(NodeImport &node, const Resizing &r, int scales, int sizes, int region) {
  if (!checkModes(node, r))
    return failure();
  Expansion e(node);
  Binding x = node.input(0);
  Type element = x.type.getElementType();
  std::optional<llvm::SmallVector<Axis>> axes = getAxes(node, x.type, scales, sizes, region);
  if (!axes)
    return failure();
  auto isResized = [&](int64_t dim) {
    const Axis &axis = (*axes)[dim];
    return axis.from != axis.to || axis.scale != 1 || axis.start != 0 || axis.end != 1;
  };
  // Whole numbers that are chosen stay what they are, and so do numbers that a program has no kernel for.
  bool isChoice = r.mode == "nearest" && r.coordinates != "tf_crop_and_resize" &&
                  (!isa<FloatType>(element) || element.isF64() || x.constant);
  if (!isChoice && !isa<FloatType>(element))
    x = e.cast(x, node.importer().getBuilder().getF32Type());
  constexpr int64_t kMostDims = 3;
  for (int64_t dim = 0, count; dim < x.type.getRank() && e.ok(); dim += std::max<int64_t>(count, 1)) {
    for (count = 0; count < kMostDims && dim + count < x.type.getRank() && isResized(dim + count); ++count)
      ;
    if (isChoice && count > 0)
      x = choose(e, r, x, dim, (*axes)[dim]), count = 1;
    else if (count > 0)
      x = resample(e, r, x, dim, llvm::ArrayRef(*axes).slice(dim, count));
  }
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
