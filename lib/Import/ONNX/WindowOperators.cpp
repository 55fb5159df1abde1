// Convolutions and pooling. Pooling by average is a convolution of each channel by itself.
#include "Expansion.h"
#include "dialects/Hyc/WindowShape.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CheckedArithmetic.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::ArrayRef;

namespace {
/// Of a dimension that windows slide over, so that no place in it leaves 64 bits.
constexpr int64_t kLargestExtent = int64_t(1) << 31;

/// Where a node's windows lie, from its attributes: one number a spatial dimension.
struct Windows {
  llvm::SmallVector<int64_t> size, strides, dilations, low, high, positions;
  llvm::SmallVector<int64_t> padded; // at the end, by what the node says: `high` without what windows reach beyond that
};

std::optional<llvm::SmallVector<int64_t>> getList(NodeImport &node, llvm::StringRef name, size_t count,
                                                  int64_t otherwise) {
  std::optional<llvm::SmallVector<int64_t>> list = node.getInts(name);
  if (node.failed())
    return std::nullopt;
  if (!list)
    return llvm::SmallVector<int64_t>(count, otherwise);
  bool good = list->size() == count && llvm::all_of(*list, [](int64_t value) { return value >= 0 && value < 1 << 30; });
  if (good)
    return list;
  node.error() << "has the attribute '" << name << "' " << describeList(*list) << ", expected " << count
               << " numbers, none negative and each below 2^30";
  return std::nullopt;
}

std::optional<Windows> getWindows(NodeImport &node, ArrayRef<int64_t> size) {
  Windows windows;
  size_t spatial = size.size();
  std::optional<llvm::SmallVector<int64_t>> kernel = node.getInts("kernel_shape");
  windows.size.assign(size.begin(), size.end());
  if (kernel && ArrayRef<int64_t>(*kernel) != size) {
    node.error() << "has the 'kernel_shape' " << describeList(*kernel) << ", expected " << describeList(size)
                 << " as its weights have it";
    return std::nullopt;
  }
  auto strides = getList(node, "strides", spatial, 1), dilations = getList(node, "dilations", spatial, 1);
  auto pads = strides && dilations ? getList(node, "pads", 2 * spatial, 0) : std::nullopt;
  if (!pads)
    return std::nullopt;
  windows.strides = *strides, windows.dilations = *dilations;
  windows.low.assign(pads->begin(), pads->begin() + spatial);
  windows.high.assign(pads->begin() + spatial, pads->end());
  for (size_t d = 0; d < spatial; ++d)
    if (windows.strides[d] < 1 || windows.dilations[d] < 1 || size[d] < 1 || size[d] >= 1 << 30) {
      node.error() << "has a window of " << size[d] << " elements, " << windows.dilations[d] << " apart, that moves by "
                   << windows.strides[d] << "; expected numbers of at least 1";
      return std::nullopt;
    }
  return windows;
}

bool checkPadding(NodeImport &node, llvm::StringRef automatic) {
  if (llvm::is_contained({"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"}, automatic))
    return true;
  node.error() << "has the 'auto_pad' '" << automatic << "', expected NOTSET, SAME_UPPER, SAME_LOWER or VALID";
  return false;
}

/// How many positions there are, after what `auto_pad` asks for. `ceil` counts windows that reach past the end, but
/// none that begins there.
bool settlePositions(NodeImport &node, Windows &w, ArrayRef<int64_t> input, bool ceil) {
  std::string automatic = node.getString("auto_pad", "NOTSET");
  if (!checkPadding(node, automatic))
    return false;
  for (size_t d = 0; d < input.size(); ++d) {
    if (input[d] > kLargestExtent) {
      node.error() << "slides over a dimension of size " << input[d] << ", expected at most " << kLargestExtent;
      return false;
    }
    int64_t extent = w.dilations[d] * (w.size[d] - 1) + 1;
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      int64_t wanted = llvm::divideCeil(input[d], w.strides[d]);
      int64_t pad = std::max<int64_t>((wanted - 1) * w.strides[d] + extent - input[d], 0);
      w.low[d] = automatic == "SAME_UPPER" ? pad / 2 : pad - pad / 2;
      w.high[d] = pad - w.low[d];
    }
    w.padded.push_back(w.high[d]);
    if (ceil) {
      int64_t room = input[d] + w.low[d] + w.high[d] - extent;
      if (int64_t rest = room > 0 ? room % w.strides[d] : 0)
        if ((room / w.strides[d] + 1) * w.strides[d] < input[d] + w.low[d])
          w.high[d] += w.strides[d] - rest;
    }
    std::optional<int64_t> positions =
        windowPositions(input[d], w.size[d], w.strides[d], w.dilations[d], w.low[d], w.high[d]);
    if (!positions) {
      node.error() << "has a window of " << w.size[d] << " elements, " << w.dilations[d] << " apart, over " << input[d]
                   << " elements padded by " << w.low[d] << " and " << w.high[d] << ": it does not fit once";
      return false;
    }
    w.positions.push_back(*positions);
  }
  return true;
}

llvm::SmallVector<int64_t> joined(std::initializer_list<int64_t> first, ArrayRef<int64_t> rest) {
  llvm::SmallVector<int64_t> shape(first);
  llvm::append_range(shape, rest);
  return shape;
}

template <typename OpTy>
Binding emitConvolution(Expansion &e, NodeImport &node, ArrayRef<int64_t> shape, Binding lhs, Binding rhs,
                        const Windows &w, int64_t groups) {
  return e.emit([&] {
    Importer &importer = node.importer();
    Builder &builder = importer.getBuilder();
    auto list = [&](ArrayRef<int64_t> values) { return builder.getDenseI64ArrayAttr(values); };
    auto type = RankedTensorType::get(shape, lhs.type.getElementType());
    return importer.emit<OpTy>(type, importer.materialise(lhs), importer.materialise(rhs), list(w.strides),
                               list(w.dilations), list(w.low), list(w.high), builder.getI64IntegerAttr(groups));
  });
}

/// Adds a vector over the channels.
Binding withBias(Expansion &e, const Binding &y, const Binding &bias) {
  if (!e.ok())
    return {};
  llvm::SmallVector<int64_t> shape(y.type.getRank(), 1);
  shape[1] = y.type.getDimSize(1);
  if (bias.type.getNumElements() != shape[1]) {
    e.fail("adds a bias of " + std::to_string(bias.type.getNumElements()) + " elements, expected one for each of the " +
           std::to_string(shape[1]) + " channels");
    return {};
  }
  return e.add(y, e.reshape(bias, shape));
}

bool checkSpatial(NodeImport &node, RankedTensorType x) {
  if (x.getRank() >= 3 && x.getRank() <= 5)
    return true;
  node.error() << "slides over " << x << ", expected samples, channels and 1 to 3 spatial dimensions";
  return false;
}

LogicalResult importConv(NodeImport &node) {
  RankedTensorType x = node.input(0).type, w = node.input(1).type;
  int64_t groups = node.getInt("group", 1);
  if (!checkSpatial(node, x) || w.getRank() != x.getRank() || w.getElementType() != x.getElementType() ||
      !isa<FloatType>(x.getElementType()) || groups < 1 || w.getDimSize(1) * groups != x.getDimSize(1) ||
      w.getDimSize(0) % groups != 0)
    return node.error()
           << "convolves " << x << " with " << w << " in " << groups
           << " groups, expected one floating-point type, as many dimensions, filters that the groups divide, "
              "and filters of the channels of one group";
  std::optional<Windows> windows = getWindows(node, w.getShape().drop_front(2));
  if (!windows || !settlePositions(node, *windows, x.getShape().drop_front(2), /*ceil=*/false))
    return failure();
  Expansion e(node);
  llvm::SmallVector<int64_t> shape = joined({x.getDimSize(0), w.getDimSize(0)}, windows->positions);
  if (!countElements(shape))
    return node.error() << "has a result of more elements than 63 bits can count";
  Binding y = emitConvolution<ConvolutionOp>(e, node, shape, node.input(0), node.input(1), *windows, groups);
  return e.finish(node.has(2) ? withBias(e, y, node.input(2)) : y);
}

/// Sizes of a transposed convolution's result: as `output_shape` says, else what the windows of all positions cover.
bool settleTransposed(NodeImport &node, Windows &w, ArrayRef<int64_t> positions, llvm::SmallVectorImpl<int64_t> &size) {
  size_t spatial = positions.size();
  std::string automatic = node.getString("auto_pad", "NOTSET");
  auto extra = getList(node, "output_padding", spatial, 0);
  std::optional<llvm::SmallVector<int64_t>> given = node.getInts("output_shape");
  if (!extra || (given && given->size() < spatial)) {
    if (extra)
      node.error() << "has an 'output_shape' of too few numbers";
    return false;
  }
  bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  for (size_t d = 0; d < spatial; ++d) {
    int64_t covered = (positions[d] - 1) * w.strides[d] + (*extra)[d] + (w.size[d] - 1) * w.dilations[d] + 1;
    if (given || same) {
      int64_t wanted = given ? (*given)[given->size() - spatial + d] : positions[d] * w.strides[d];
      int64_t pad = std::max<int64_t>(covered - wanted, 0);
      w.low[d] = automatic == "SAME_UPPER" ? pad / 2 : pad - pad / 2;
      w.high[d] = pad - w.low[d];
      // More than is covered: nothing reaches the end.
      (*extra)[d] += std::max<int64_t>(wanted - covered, 0);
      covered = std::max(covered, wanted);
    }
    size.push_back(covered - w.low[d] - w.high[d]);
    // The windows of the op end where the last one does; what lies beyond is padding that they do not reach.
    w.high[d] -= (*extra)[d];
    if (size.back() < 1) {
      node.error() << "pads away all of a result of " << covered << " elements along spatial dimension " << d;
      return false;
    }
  }
  return true;
}

LogicalResult importConvTranspose(NodeImport &node) {
  RankedTensorType y = node.input(0).type, w = node.input(1).type;
  int64_t groups = node.getInt("group", 1);
  if (!checkSpatial(node, y) || w.getRank() != y.getRank() || w.getElementType() != y.getElementType() ||
      !isa<FloatType>(y.getElementType()) || groups < 1 || w.getDimSize(0) != y.getDimSize(1) ||
      w.getDimSize(0) % groups != 0)
    return node.error()
           << "convolves " << y << " with " << w << " in " << groups
           << " groups, expected one floating-point type, as many dimensions, and as many filters as channels, "
              "which the groups divide";
  std::optional<Windows> windows = getWindows(node, w.getShape().drop_front(2));
  llvm::SmallVector<int64_t> size;
  if (!windows || !settleTransposed(node, *windows, y.getShape().drop_front(2), size))
    return failure();
  llvm::SmallVector<int64_t> shape = joined({y.getDimSize(0), w.getDimSize(1) * groups}, size);
  // Beyond what the windows reach the result is zero: made smaller, then filled up.
  llvm::SmallVector<int64_t> reached(shape), pads(2 * shape.size(), 0);
  for (size_t d = 0; d < size.size(); ++d)
    if (windows->high[d] < 0) {
      // One more window would have to fit for the sizes not to agree.
      int64_t missing = -windows->high[d] >= windows->strides[d] ? -windows->high[d] - windows->strides[d] + 1 : 0;
      reached[d + 2] -= missing;
      pads[shape.size() + d + 2] = missing;
      windows->high[d] = 0;
    }
  if (!countElements(shape))
    return node.error() << "has a result of more elements than 63 bits can count";
  Expansion e(node);
  Binding x = emitConvolution<ConvolutionTransposeOp>(e, node, reached, node.input(0), node.input(1), *windows, groups);
  if (reached != shape)
    x = e("Pad", {x, e.integers(pads)});
  return e.finish(node.has(2) ? withBias(e, x, node.input(2)) : x);
}

//===----------------------------------------------------------------------===//
// Pooling
//===----------------------------------------------------------------------===//

std::optional<Windows> getPoolWindows(NodeImport &node) {
  RankedTensorType x = node.input(0).type;
  std::optional<llvm::SmallVector<int64_t>> size = node.getInts("kernel_shape");
  if (!checkSpatial(node, x))
    return std::nullopt;
  if (!size || static_cast<int64_t>(size->size()) != x.getRank() - 2) {
    node.error() << "has no 'kernel_shape' of " << x.getRank() - 2 << " numbers";
    return std::nullopt;
  }
  std::optional<Windows> windows = getWindows(node, *size);
  bool ceil = node.getInt("ceil_mode", 0) != 0;
  if (!windows || !settlePositions(node, *windows, x.getShape().drop_front(2), ceil))
    return std::nullopt;
  return windows;
}

/// Places in the whole tensor, from those in each channel; `storage_order` 1 counts the last two dimensions as columns.
Binding wholePlaces(Expansion &e, NodeImport &node, const Binding &places, RankedTensorType x) {
  Binding result = places;
  int64_t plane = 1;
  for (int64_t size : x.getShape().drop_front(2))
    plane *= size;
  if (node.getInt("storage_order", 0) != 0) {
    int64_t rows = x.getRank() > 3 ? x.getDimSize(x.getRank() - 2) : 1, columns = x.getShape().back();
    Binding row = e("Mod", {e.div(result, e.integer(columns)), e.integer(rows)});
    Binding column = e("Mod", {result, e.integer(columns)});
    Binding rest = e.sub(result, e.add(e.mul(row, e.integer(columns)), column));
    result = e.add(rest, e.add(e.mul(column, e.integer(rows)), row));
  }
  llvm::SmallVector<int64_t> shape(x.getRank(), 1);
  shape[0] = x.getDimSize(0), shape[1] = x.getDimSize(1);
  Binding planes = e.reshape(e.iota(shape[0] * shape[1], 0, 1), shape);
  return e.add(result, e.mul(planes, e.integer(plane)));
}

LogicalResult importMaxPool(NodeImport &node) {
  std::optional<Windows> windows = getPoolWindows(node);
  if (!windows)
    return failure();
  Expansion e(node);
  Importer &importer = node.importer();
  Binding x = node.input(0);
  Type element = x.type.getElementType();
  Binding wide = isa<FloatType>(element) ? x : e.cast(x, importer.getBuilder().getF32Type());
  if (!e.ok())
    return failure();
  auto shape = joined({x.type.getDimSize(0), x.type.getDimSize(1)}, windows->positions);
  Builder &builder = importer.getBuilder();
  auto list = [&](ArrayRef<int64_t> values) { return builder.getDenseI64ArrayAttr(values); };
  auto y = RankedTensorType::get(shape, wide.type.getElementType());
  Value pooled = importer.emit<MaxPoolOp>(TypeRange{y, RankedTensorType::get(shape, builder.getI64Type())},
                                          importer.materialise(wide), list(windows->size), list(windows->strides),
                                          list(windows->dilations), list(windows->low), list(windows->high));
  std::vector<Binding> results{e.cast(importer.ofValue(pooled), element)};
  if (node.outputCount() > 1)
    results.push_back(wholePlaces(e, node, importer.ofValue(pooled.getDefiningOp()->getResult(1)), x.type));
  return e.finish(results);
}

/// Sums over windows: each channel convolved with ones.
Binding sumWindows(Expansion &e, NodeImport &node, const Binding &x, const Windows &windows) {
  if (!e.ok())
    return {};
  int64_t planes = x.type.getDimSize(1);
  Importer &importer = node.importer();
  auto ones = RankedTensorType::get(joined({planes, 1}, windows.size), x.type.getElementType());
  return emitConvolution<ConvolutionOp>(e, node, joined({x.type.getDimSize(0), planes}, windows.positions), x,
                                        importer.splatLike(ones, 1), windows, planes);
}

/// How many elements each window has that count: all that lie in the input, and with `withPadding` in its padding.
Binding countElementsOfWindows(Expansion &e, const Binding &x, const Windows &w, bool withPadding) {
  Binding count = e.number(x, 1);
  int64_t tensorRank = x.type.getRank(), spatial = tensorRank - 2;
  for (int64_t d = 0; d < spatial; ++d) {
    int64_t size = x.type.getDimSize(d + 2), first = withPadding ? -w.low[d] : 0;
    int64_t last = withPadding ? size + w.padded[d] : size;
    // The elements of a window lie a dilation apart; those before the first and from the last on do not count.
    auto countBefore = [&](int64_t begin, int64_t bound) {
      return std::clamp<int64_t>(llvm::divideCeil(std::max<int64_t>(bound - begin, 0), w.dilations[d]), 0, w.size[d]);
    };
    auto countAt = [&](int64_t p) {
      int64_t begin = p * w.strides[d] - w.low[d];
      return static_cast<double>(countBefore(begin, last) - countBefore(begin, first));
    };
    llvm::SmallVector<int64_t> shape(tensorRank, 1);
    int64_t positions = w.positions[d];
    // Where the first and the last window count all of their elements, so do the others.
    bool allCount = countAt(0) == countAt(positions - 1) && countAt(0) == static_cast<double>(w.size[d]);
    shape[d + 2] = allCount ? 1 : positions;
    count = e.mul(count, e.reals(shape, countAt, x.type.getElementType()));
  }
  return count;
}

LogicalResult importAveragePool(NodeImport &node) {
  std::optional<Windows> windows = getPoolWindows(node);
  if (!windows)
    return failure();
  Expansion e(node);
  Binding x = node.input(0);
  bool withPadding = node.getInt("count_include_pad", 0) != 0;
  return e.finish(e.div(sumWindows(e, node, x, *windows), countElementsOfWindows(e, x, *windows, withPadding)));
}

LogicalResult importLpPool(NodeImport &node) {
  std::optional<Windows> windows = getPoolWindows(node);
  if (!windows)
    return failure();
  Expansion e(node);
  Binding x = node.input(0);
  double p = static_cast<double>(node.getInt("p", 2));
  Binding powers = e("Pow", {e("Abs", {x}), e.number(x, p)});
  return e.finish(e("Pow", {sumWindows(e, node, powers, *windows), e.number(x, 1 / p)}));
}

LogicalResult importGlobalPool(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  llvm::SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(2, x.type.getRank()));
  return e.finish(e.reduce(node.opType() == "GlobalMaxPool" ? "ReduceMax" : "ReduceMean", x, axes, true));
}

/// Puts each element where a pooling found it.
LogicalResult importMaxUnpool(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  std::optional<llvm::SmallVector<int64_t>> kernel = node.getInts("kernel_shape"), shape;
  if (!checkSpatial(node, x.type) || node.failed())
    return failure();
  if (!kernel || static_cast<int64_t>(kernel->size()) != x.type.getRank() - 2)
    return node.error() << "has a 'kernel_shape' of " << (kernel ? kernel->size() : 0) << " numbers, expected one for "
                        << "each spatial dimension of " << x.type;
  if (node.shapeOf(1) != x.type.getShape())
    return node.error() << "has indices of type " << node.input(1).type << " for " << x.type << ", expected one each";
  std::optional<Windows> w = getWindows(node, *kernel);
  if (!w)
    return failure();
  llvm::SmallVector<int64_t> pooled(x.type.getShape().take_front(2));
  for (size_t d = 0; d < kernel->size(); ++d) {
    std::optional<int64_t> moved = llvm::checkedMul(x.type.getDimSize(d + 2) - 1, w->strides[d]);
    std::optional<int64_t> size =
        moved ? llvm::checkedAdd(*moved, (*kernel)[d] - w->low[d] - w->high[d]) : std::nullopt;
    if (!size || *size < 0)
      return node.error() << "has windows that do not fit " << x.type;
    pooled.push_back(*size);
  }
  shape = pooled;
  if (node.has(2) && !(shape = node.integers(2)))
    return failure();
  if (shape->size() != pooled.size() || !countElements(*shape) || !countElements(pooled))
    return node.error() << "has an output shape of " << shape->size() << " dimensions for " << x.type;
  // Places are those in a tensor of the size that the pooling had.
  int64_t count = *countElements(pooled);
  Binding places = e.reshape(node.input(1), {x.type.getNumElements()});
  Binding flat =
      e("ScatterElements", {e.broadcast(e.number(x, 0), {count}), places, e.reshape(x, {x.type.getNumElements()})});
  Binding result = e.reshape(flat, pooled);
  llvm::SmallVector<int64_t> pads(2 * pooled.size(), 0);
  for (size_t d = 0; d < pooled.size(); ++d)
    pads[pooled.size() + d] = (*shape)[d] - pooled[d];
  return e.finish(e("Pad", {result, e.integers(pads)}));
}
/// How windows lie in an image: how many along each dimension, and how many elements behind the last one.
struct Laid {
  llvm::SmallVector<int64_t> counts, behind;
};

std::optional<Laid> layWindows(ArrayRef<int64_t> image, ArrayRef<int64_t> block, ArrayRef<int64_t> strides,
                               ArrayRef<int64_t> dilations, ArrayRef<int64_t> pads) {
  Laid laid;
  for (size_t d = 0; d < block.size(); ++d) {
    if (block[d] < 1 || block[d] > kLargestExtent || image[d] < 1 || image[d] > kLargestExtent || strides[d] < 1)
      return std::nullopt;
    const int64_t left = image[d] + pads[d] + pads[d + block.size()] - dilations[d] * (block[d] - 1) - 1;
    if (left < 0)
      return std::nullopt;
    laid.counts.push_back(left / strides[d] + 1);
    laid.behind.push_back(left % strides[d]);
  }
  return laid;
}

/// Puts windows back where they lie in an image, overlaps added up: a transposed convolution of each channel by windows
/// that hold one 1.
LogicalResult importCol2Im(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0); // (samples, channels · window, windows)
  std::optional<llvm::SmallVector<int64_t>> image = node.integers(1), block = node.integers(2);
  if (!image || !block)
    return failure();
  const size_t dims = block->size();
  if (dims < 1 || dims > 3 || image->size() != dims)
    return node.error() << "has windows of " << dims << " dimensions in an image of " << image->size()
                        << ", expected 1 to 3, as many as the image's";
  auto strides = getList(node, "strides", dims, 1), dilations = getList(node, "dilations", dims, 1),
       pads = getList(node, "pads", 2 * dims, 0);
  if (!strides || !dilations || !pads)
    return failure();
  std::optional<Laid> laid = layWindows(*image, *block, *strides, *dilations, *pads);
  std::optional<int64_t> window = countElements(*block), count = laid ? countElements(laid->counts) : std::nullopt;
  const int64_t rows = x.type.getDimSize(1);
  if (!window || !count || rows % *window != 0 || *count != x.type.getDimSize(2))
    return node.error() << "puts back windows of " << describeList(*block) << " into an image of "
                        << describeList(*image) << ", which " << x.type << " does not hold one each of";
  llvm::SmallVector<int64_t> apart{x.type.getDimSize(0), rows}, ones{rows, 1};
  apart.append(laid->counts);
  ones.append(*block);
  Binding weight = e.reals(
      ones, [&](int64_t i) { return i / *window % *window == i % *window ? 1.0 : 0.0; }, x.type.getElementType());
  return e.finish(e("ConvTranspose", {e.reshape(x, apart), weight},
                    {{"group", rows / *window},
                     {"strides", *strides},
                     {"dilations", *dilations},
                     {"pads", *pads},
                     {"output_padding", laid->behind}}));
}
} // namespace

void hyc::onnx::addWindowOperators(OperatorTable &table) {
  table["Conv"] = {importConv,
                   {tensor("X").real().ranks(3, 5), tensor("W").real().ranks(3, 5), tensor("B").rank(1).optional()}};
  table["ConvTranspose"] = {
      importConvTranspose,
      {tensor("X").real().ranks(3, 5), tensor("W").real().ranks(3, 5), tensor("B").rank(1).optional()}};
  table["MaxPool"] = {importMaxPool, {tensor("X").ranks(3, 5)}};
  table["AveragePool"] = {importAveragePool, {tensor("X").real().ranks(3, 5)}};
  table["LpPool"] = {importLpPool, {tensor("X").real().ranks(3, 5)}};
  table["GlobalAveragePool"] = {importGlobalPool, {tensor("X").real().ranks(3)}};
  table["GlobalMaxPool"] = {importGlobalPool, {tensor("X").real().ranks(3)}};
  table["Col2Im"] = {importCol2Im, {tensor("input").real().rank(3), list("image_shape"), list("block_shape")}};
  table["MaxUnpool"] = {
      importMaxUnpool,
      {tensor("X").real().ranks(3, 5), tensor("I").integer().ranks(3, 5), list("output_shape").optional()}};
}
