// Images read at places that are computed: at those of a grid, and within regions. A neighbour outside of the image is
// element -1 of it, which hyc.gather gives as 0.
#include "Expansion.h"

#include <cmath>

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::ArrayRef;

namespace {
/// Coordinates among the elements of one dimension: integers as floats, and whether they are within it.
struct Neighbour {
  Binding place, share; ///< which element, as a float; how much of it counts
};

enum class Outside { Zeros, Border, Reflection };

//===----------------------------------------------------------------------===//
// GridSample
//===----------------------------------------------------------------------===//

class GridSampling {
public:
  GridSampling(NodeImport &node, Outside outside, bool isAligned)
      : e(node), node(node), outside(outside), isAligned(isAligned), image(node.input(0)), grid(node.input(1)) {
    ArrayRef<int64_t> shape = image.type.getShape(), places = grid.type.getShape();
    samples = shape[0], channels = shape[1];
    sizes.assign(shape.begin() + 2, shape.end());
    inner = *countElements(sizes);
    count = *countElements(places.drop_front().drop_back());
    rows = e.transpose(e.reshape(image, {samples, channels, inner}), {0, 2, 1});
  }

  /// Of each dimension its neighbours by `mode`; all combinations, each as far as its neighbours count.
  LogicalResult sample(llvm::StringRef mode) {
    std::vector<std::vector<Neighbour>> byDim;
    for (size_t dim = 0; dim < sizes.size(); ++dim)
      byDim.push_back(mode == "nearest"                      ? nearest(dim)
                      : mode == "bicubic" || mode == "cubic" ? cubic(dim)
                                                             : linear(dim));
    Binding sum;
    std::vector<size_t> at(sizes.size(), 0);
    for (bool more = e.ok(); more && e.ok();) {
      Binding part = combination(byDim, at);
      sum = sum.type ? e.add(sum, part) : part;
      more = false;
      for (size_t dim = sizes.size(); dim-- > 0 && !more;) {
        more = ++at[dim] < byDim[dim].size();
        if (!more)
          at[dim] = 0;
      }
    }
    llvm::SmallVector<int64_t> shape{samples, channels};
    llvm::append_range(shape, grid.type.getShape().drop_front().drop_back());
    return e.finish(e.reshape(e.transpose(sum, {0, 2, 1}), shape));
  }

private:
  Binding number(double value) { return e.number(grid, value); }

  Binding clamped(const Binding &x, double low, double high) {
    return e("Min", {e("Max", {x, number(low)}), number(high)});
  }

  /// Within the image, where what is outside is the border or the image turned round.
  Binding within(const Binding &x, size_t dim) {
    auto size = static_cast<double>(sizes[dim]);
    if (outside == Outside::Zeros)
      return x;
    if (outside == Outside::Border)
      return clamped(x, 0, size - 1);
    double low = isAligned ? 0 : -0.5, span = isAligned ? size - 1 : size;
    if (span == 0)
      return e.mul(x, number(0));
    // A wave that rises over `span` and falls over `span`.
    Binding moved = e.sub(x, number(low)), period = number(2 * span);
    Binding rest = e.sub(moved, e.mul(period, e("Floor", {e.div(moved, period)})));
    return clamped(e.add(e("Min", {rest, e.sub(period, rest)}), number(low)), 0, size - 1);
  }

  /// From -1 … 1 to elements: (samples, places). The grid counts dimensions from the last.
  Binding coordinate(size_t dim) {
    auto size = static_cast<double>(sizes[dim]);
    auto last = grid.type.getRank() - 1;
    Binding whole = grid;
    Binding own = e.reshape(*node.importer().slice(whole, last, static_cast<int64_t>(sizes.size() - 1 - dim), 1, 1),
                            {samples, count});
    Binding moved = e.mul(e.add(own, number(1)), number((isAligned ? size - 1 : size) / 2));
    return isAligned ? moved : e.sub(moved, number(0.5));
  }

  std::vector<Neighbour> nearest(size_t dim) { return {{e("Round", {within(coordinate(dim), dim)}), {}}}; }

  std::vector<Neighbour> linear(size_t dim) {
    Binding x = within(coordinate(dim), dim), low = e("Floor", {x}), part = e.sub(x, low);
    return {{low, e.sub(number(1), part)}, {e.add(low, number(1)), part}};
  }

  /// Keys' convolution with a = -0.75; each neighbour is brought into the image by itself.
  std::vector<Neighbour> cubic(size_t dim) {
    constexpr double a = -0.75;
    Binding x = coordinate(dim), low = e("Floor", {x}), t = e.sub(x, low), rest = e.sub(number(1), t);
    // Σ c[i] d^i, highest first
    auto polynomial = [&](const Binding &d, std::initializer_list<double> coefficients) {
      Binding sum;
      for (double coefficient : coefficients)
        sum = sum.type ? e.add(e.mul(sum, d), number(coefficient)) : number(coefficient);
      return sum;
    };
    auto near = [&](const Binding &d) { return polynomial(d, {a + 2, -(a + 3), 0, 1}); };
    auto far = [&](const Binding &d) { return polynomial(d, {a, -5 * a, 8 * a, -4 * a}); };
    std::vector<Neighbour> neighbours{
        {{}, far(e.add(t, number(1)))}, {{}, near(t)}, {{}, near(rest)}, {{}, far(e.add(rest, number(1)))}};
    for (int i = 0; i < 4; ++i)
      neighbours[i].place = within(e.add(low, number(i - 1)), dim);
    return neighbours;
  }

  /// (samples, places, channels)
  Binding combination(const std::vector<std::vector<Neighbour>> &byDim, ArrayRef<size_t> at) {
    Binding index, isInside, share;
    Type i64 = node.importer().getBuilder().getI64Type();
    for (size_t dim = 0; dim < sizes.size(); ++dim) {
      const Neighbour &neighbour = byDim[dim][at[dim]];
      Binding place = clamped(neighbour.place, 0, static_cast<double>(sizes[dim] - 1));
      Binding inside = e("Equal", {place, neighbour.place}), whole = e.cast(place, i64);
      isInside = isInside.type ? e("And", {isInside, inside}) : inside;
      index = index.type ? e.add(e.mul(index, e.integer(sizes[dim])), whole) : whole;
      if (neighbour.share.type)
        share = share.type ? e.mul(share, neighbour.share) : neighbour.share;
    }
    // What lies outside is 0, whatever its nearest element within is.
    Binding values = e.where(e.reshape(isInside, {samples, count, 1}), e.gather(rows, index, 1, 1), number(0));
    if (!share.type || !e.ok())
      return values;
    Binding beside = e.reshape(e.cast(share, image.type.getElementType()), {samples, count, 1});
    return e.mul(values, beside);
  }

  Expansion e;
  NodeImport &node;
  Outside outside;
  bool isAligned;
  Binding image, grid;
  int64_t samples = 0, channels = 0, inner = 0, count = 0;
  llvm::SmallVector<int64_t> sizes;
  Binding rows; ///< (samples, elements, channels)
};

LogicalResult importGridSample(NodeImport &node) {
  RankedTensorType image = node.input(0).type, grid = node.input(1).type;
  const int64_t dims = image.getRank() - 2;
  if (grid.getRank() != dims + 2 || grid.getShape().back() != dims || grid.getDimSize(0) != image.getDimSize(0))
    return node.error() << "samples " << image << " at the places " << grid << ", expected as many samples, and "
                        << dims << " coordinates last";
  std::string mode = node.getString("mode", node.opset() >= 20 ? "linear" : "bilinear"),
              padding = node.getString("padding_mode", "zeros");
  const bool isCubic = mode == "bicubic" || mode == "cubic";
  if (!isCubic && mode != "bilinear" && mode != "linear" && mode != "nearest")
    return node.error() << "has the mode '" << mode << "', expected linear, nearest or cubic";
  if (dims > 3 || (isCubic && dims != 2))
    return node.error() << "samples " << image << " by the mode '" << mode
                        << "', expected at most 3 dimensions beside samples and channels, 2 for cubic";
  Outside outside = padding == "zeros" ? Outside::Zeros : padding == "border" ? Outside::Border : Outside::Reflection;
  if (outside == Outside::Reflection && padding != "reflection")
    return node.error() << "has the padding_mode '" << padding << "', expected zeros, border or reflection";
  return GridSampling(node, outside, node.getInt("align_corners", 0) != 0).sample(mode);
}

//===----------------------------------------------------------------------===//
// RoiAlign
//===----------------------------------------------------------------------===//

class RegionSampling {
public:
  explicit RegionSampling(NodeImport &node) : e(node), node(node), regions(node.input(1)) {
    ArrayRef<int64_t> shape = node.shapeOf(0);
    samples = shape[0], channels = shape[1], size[0] = shape[2], size[1] = shape[3];
    count = regions.type.getDimSize(0);
    isHalfPixel = node.opset() >= 16 && node.getString("coordinate_transformation_mode", "half_pixel") == "half_pixel";
    output[0] = node.getInt("output_height", 1), output[1] = node.getInt("output_width", 1);
    ratio = node.getInt("sampling_ratio", 0);
  }

  LogicalResult sample() {
    constexpr int64_t kMost = 1 << 12;
    if (output[0] < 1 || output[1] < 1 || ratio < 1 || output[0] > kMost || output[1] > kMost || ratio > kMost)
      return node.error() << "takes " << ratio << " samples a bin of " << output[0] << " by " << output[1]
                          << " bins, expected at least one of each and at most " << kMost
                          << "; a sampling_ratio of 0 makes their number depend on the regions' values";
    std::string mode = node.getString("mode", "avg");
    if (mode != "avg" && mode != "max")
      return node.error() << "has the mode '" << mode << "', expected avg or max";
    std::vector<Neighbour> rows = neighbours(0), columns = neighbours(1);
    Binding image = e.reshape(e.transpose(node.input(0), {0, 2, 3, 1}), {samples * size[0] * size[1], channels});
    Type i64 = node.importer().getBuilder().getI64Type();
    Binding base = e.reshape(e.mul(e.cast(node.input(2), i64), e.integer(size[0] * size[1])), {count, 1, 1});
    Binding result;
    for (const Neighbour &row : rows)
      for (const Neighbour &column : columns) {
        // (regions, places down, places across)
        Binding down = e.reshape(e.cast(row.place, i64), {count, output[0] * ratio, 1});
        Binding across = e.reshape(e.cast(column.place, i64), {count, 1, output[1] * ratio});
        Binding index = e.add(base, e.add(e.mul(down, e.integer(size[1])), across));
        Binding share = e.mul(e.reshape(row.share, {count, output[0] * ratio, 1, 1}),
                              e.reshape(column.share, {count, 1, output[1] * ratio, 1}));
        Binding part = e.mul(e.gather(image, index, 0, 0), e.cast(share, image.type.getElementType()));
        result = !result.type ? part : mode == "avg" ? e.add(result, part) : e("Max", {result, part});
      }
    Binding bins = e.reshape(result, {count, output[0], ratio, output[1], ratio, channels});
    return e.finish(
        e.transpose(e.reduce(mode == "avg" ? "ReduceMean" : "ReduceMax", bins, {2, 4}, false), {0, 3, 1, 2}));
  }

private:
  Binding number(double value) { return e.number(regions, value); }
  Binding bound(int64_t column) {
    Binding whole = regions;
    Binding own = e.reshape(*node.importer().slice(whole, 1, column, 1, 1), {count, 1});
    return e.sub(e.mul(own, number(node.getFloat("spatial_scale", 1))), number(isHalfPixel ? 0.5 : 0));
  }

  /// The two elements beside each place of dimension `dim` (0 down, 1 across) where a bin is sampled, and their shares:
  /// (regions, bins · ratio). A place further than one element outside counts nothing.
  std::vector<Neighbour> neighbours(int dim) {
    Binding from = bound(1 - dim), extent = e.sub(bound(3 - dim), from);
    if (!isHalfPixel)
      extent = e("Max", {extent, number(1)});
    const int64_t places = output[dim] * ratio;
    Binding steps = e.cast(
        e.reals({1, places}, [&](int64_t i) { return (static_cast<double>(i) + 0.5) / static_cast<double>(places); }),
        regions.type.getElementType());
    Binding at = e.add(from, e.mul(extent, steps)), highest = number(static_cast<double>(size[dim] - 1));
    Binding isFar = e("Or", {e("Less", {at, number(-1)}), e("Greater", {at, number(static_cast<double>(size[dim]))})});
    Binding inside = e("Min", {e("Max", {at, number(0)}), highest});
    Binding low = e("Floor", {inside}), part = e.sub(inside, low);
    auto counted = [&](const Binding &share) { return e.where(isFar, number(0), share); };
    return {{low, counted(e.sub(number(1), part))}, {e("Min", {e.add(low, number(1)), highest}), counted(part)}};
  }

  Expansion e;
  NodeImport &node;
  Binding regions;
  int64_t samples = 0, channels = 0, count = 0, ratio = 0, size[2], output[2];
  bool isHalfPixel = false;
};

LogicalResult importRoiAlign(NodeImport &node) {
  if (node.shapeOf(1)[1] != 4 || node.shapeOf(2)[0] != node.shapeOf(1)[0])
    return node.error() << "takes the regions " << node.input(1).type << " of the images " << node.input(2).type
                        << ", expected four bounds and one image for each region";
  return RegionSampling(node).sample();
}
} // namespace

void hyc::onnx::addSamplingOperators(OperatorTable &table) {
  table["GridSample"] = {importGridSample, {tensor("X").real().ranks(3), tensor("grid").real().ranks(3)}};
  table["RoiAlign"] = {
      importRoiAlign,
      {tensor("X").real().rank(4), tensor("rois").real().rank(2), tensor("batch_indices").integer().rank(1)}};
}
