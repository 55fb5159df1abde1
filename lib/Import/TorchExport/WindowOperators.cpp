// Windows taken out of tensors and put back, and images read at computed places.
#include "Translator.h"

#include <cmath>

using namespace hyc::torchexport;

namespace {
/// first + i · step + j · inner for i below `count`, j below `size`: (count, size).
Name windowIndices(NodeTranslation &node, int64_t count, int64_t size, int64_t step, int64_t inner) {
  auto numbers = [&](int64_t many, int64_t apart, std::vector<int64_t> shape) {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < many; ++i)
      values.push_back(i * apart);
    return node.emit("Reshape", {node.constant(values), node.constant(std::move(shape))});
  };
  return node.emit("Add", {numbers(count, step, {-1, 1}), numbers(size, inner, {1, -1})});
}

constexpr int64_t kMostWindows = int64_t(1) << 16; // of one dimension

/// How many windows there are; none, reported, where there is not one.
int64_t windowCount(NodeTranslation &node, int64_t whole, int64_t size, int64_t step) {
  if (node.failed())
    return 0;
  if (size < 1 || step < 1 || size > whole || whole > kMostWindows) {
    node.error() << "takes windows of " << size << " elements, " << step << " apart, from " << whole
                 << ", expected some, and at most " << kMostWindows << " elements";
    return 0;
  }
  return (whole - size) / step + 1;
}

/// Windows of one dimension, whose elements become a dimension at the end.
void unfold(NodeTranslation &node) {
  int64_t rank = node.tensorRank("self"), dim = node.dimension("dimension", rank), size = node.integer("size"),
          step = node.integer("step");
  if (rank == 0) {
    node.error() << "takes windows from a scalar, which hyc does not read";
    return;
  }
  int64_t count = windowCount(node, node.sizeOf("self", dim), size, step);
  if (count == 0)
    return;
  Name windows =
      node.emit("Gather", {node.tensor("self"), windowIndices(node, count, size, step, 1)}, {{{"axis", dim}}});
  std::vector<int64_t> order;
  for (int64_t each = 0; each <= rank; ++each)
    if (each != dim + 1)
      order.push_back(each);
  order.push_back(dim + 1);
  node.finish(node.emit("Transpose", {windows}, {{}, {}, {{"perm", order}}}));
}

/// The two dimensions' worth of a window's parameters, by torch's names.
struct Windows {
  std::vector<int64_t> size, spread, padding, step;
};

Windows windowsOf(NodeTranslation &node) {
  auto pair = [&](const char *name) {
    std::vector<int64_t> values = node.integers(name);
    if (values.size() == 1)
      values.push_back(values.front());
    values.resize(2, 1);
    return values;
  };
  return {pair("kernel_size"), pair("dilation"), pair("padding"), pair("stride")};
}

/// (N, C, H, W) as (N, C · window, windows).
void imageToColumns(NodeTranslation &node) {
  const bool isAlone = node.tensorRank("self") == 3;
  const int64_t rank = node.tensorRank("self");
  if (rank != 3 && rank != 4) {
    node.error() << "takes windows from a tensor of " << rank << " dimensions, expected 3 or 4";
    return;
  }
  Windows windows = windowsOf(node);
  int64_t channels = node.sizeOf("self", rank - 3), counts[2];
  for (int i = 0; i < 2; ++i)
    counts[i] = windowCount(node, node.sizeOf("self", rank - 2 + i) + 2 * windows.padding[i],
                            windows.spread[i] * (windows.size[i] - 1) + 1, windows.step[i]);
  if (node.failed())
    return;
  Name image = isAlone ? node.emit("Unsqueeze", {node.tensor("self"), node.constant({0})}) : node.tensor("self");
  if (windows.padding[0] != 0 || windows.padding[1] != 0)
    image = node.emit("Pad", {image, node.constant({0, 0, windows.padding[0], windows.padding[1], 0, 0,
                                                    windows.padding[0], windows.padding[1]})});
  for (int i = 0; i < 2; ++i) // (N, C, kh, oh, W), then (N, C, kh, oh, kw, ow)
    image = node.emit("Gather",
                      {image, windowIndices(node, windows.size[i], counts[i], windows.spread[i], windows.step[i])},
                      {{{"axis", 2 + 2 * i}}});
  Name ordered = node.emit("Transpose", {image}, {{}, {}, {{"perm", {0, 1, 2, 4, 3, 5}}}});
  Name columns = node.emit(
      "Reshape",
      {ordered, node.constant({isAlone ? 1 : 0, channels * windows.size[0] * windows.size[1], counts[0] * counts[1]})});
  node.finish(isAlone ? node.emit("Squeeze", {columns, node.constant({0})}) : columns);
}

/// The other way, overlaps added up: a transposed convolution of each channel by windows that hold one 1.
void columnsToImage(NodeTranslation &node) {
  const bool isAlone = node.tensorRank("self") == 2;
  Windows windows = windowsOf(node);
  std::vector<int64_t> whole = node.integers("output_size");
  int64_t window = windows.size[0] * windows.size[1], rows = node.sizeOf("self", isAlone ? 0 : 1), counts[2];
  if (node.failed() || whole.size() != 2 || window < 1 || rows % window != 0) {
    if (!node.failed())
      node.error() << "puts back " << rows << " rows of windows of " << window << " elements, expected a multiple";
    return;
  }
  std::vector<int64_t> missing;
  for (int i = 0; i < 2; ++i) {
    int64_t padded = whole[i] + 2 * windows.padding[i], size = windows.spread[i] * (windows.size[i] - 1) + 1;
    counts[i] = windowCount(node, padded, size, windows.step[i]);
    missing.push_back(padded - size - (counts[i] - 1) * windows.step[i]);
  }
  if (node.failed())
    return;
  ScalarType type = node.metaOf("self").type;
  Name self = isAlone ? node.emit("Unsqueeze", {node.tensor("self"), node.constant({0})}) : node.tensor("self");
  Name images = node.emit("Reshape", {self, node.constant({0, rows, counts[0], counts[1]})});
  Name eye = node.emit("EyeLike", {node.filled(type, node.constant({window, window}), 0)});
  Name one = node.emit("Reshape", {eye, node.constant({window, 1, windows.size[0], windows.size[1]})});
  Name weight = node.emit("Tile", {one, node.constant({rows / window, 1, 1, 1})});
  Name image = node.emit("ConvTranspose", {images, weight},
                         {{{"group", rows / window}},
                          {},
                          {{"strides", windows.step},
                           {"dilations", windows.spread},
                           {"pads", {windows.padding[0], windows.padding[1], windows.padding[0], windows.padding[1]}},
                           {"output_padding", missing}}});
  node.finish(isAlone ? node.emit("Squeeze", {image, node.constant({0})}) : image);
}

//===----------------------------------------------------------------------===//
// Images at computed places
//===----------------------------------------------------------------------===//

class GridSampling {
public:
  explicit GridSampling(NodeTranslation &node)
      : node(node), type(node.resultMeta().type), height(node.sizeOf("input", 2)), width(node.sizeOf("input", 3)),
        isBorder(node.integer("padding_mode", 0) == 1), isAligned(node.boolean("align_corners", false)) {
    image = node.emit("Reshape", {node.operand("input", type), node.constant({0, 0, height * width})});
  }

  Name nearest() { return at(node.emit("Round", {place(0, width)}), node.emit("Round", {place(1, height)})); }

  /// The four neighbours, each as far as it is near.
  Name bilinear() {
    Name x = place(0, width), y = place(1, height), result;
    Name left = node.emit("Floor", {x}), top = node.emit("Floor", {y});
    Name fromLeft = node.emit("Sub", {x, left}), fromTop = node.emit("Sub", {y, top});
    for (int side = 0; side < 2; ++side)
      for (int row = 0; row < 2; ++row) {
        auto share = [&](const Name &part, int far) { return far ? part : node.emit("Sub", {number(1), part}); };
        auto next = [&](const Name &value, int far) { return far ? node.emit("Add", {value, number(1)}) : value; };
        Name weight = node.emit("Mul", {share(fromLeft, side), share(fromTop, row)});
        Name part = node.emit(
            "Mul", {at(next(left, side), next(top, row)), node.emit("Unsqueeze", {weight, node.constant({1})})});
        result = result.empty() ? part : node.emit("Add", {result, part});
      }
    return result;
  }

private:
  Name number(double value) { return node.constant(type, value); }
  Name clamped(const Name &value, int64_t size) {
    return node.emit("Min", {node.emit("Max", {value, number(0)}), number(static_cast<double>(size - 1))});
  }

  /// From -1 … 1 to elements: (N, height, width) of the result.
  Name place(int64_t coordinate, int64_t size) {
    Name own = node.emit("Gather",
                         {node.operand("grid", type), node.constant(ScalarType::I64, static_cast<double>(coordinate))},
                         {{{"axis", 3}}});
    double extent = static_cast<double>(isAligned ? size - 1 : size) / 2;
    Name moved = node.emit("Mul", {node.emit("Add", {own, number(1)}), number(extent)});
    if (!isAligned)
      moved = node.emit("Sub", {moved, number(0.5)});
    return isBorder ? clamped(moved, size) : moved;
  }

  /// The elements at whole places, zeros outside: (N, C, height, width) of the result.
  Name at(const Name &x, const Name &y) {
    Name column = clamped(x, width), row = clamped(y, height);
    Name flat = node.emit("Add", {node.emit("Mul", {row, number(static_cast<double>(width))}), column});
    Name index = node.cast(node.emit("Reshape", {flat, node.constant({0, 1, -1})}), ScalarType::I64); // (N, 1, places)
    Name lead = node.emit("Slice", {node.emit("Shape", {image}), node.constant({0}), node.constant({2})});
    Name spread = node.emit("Expand", {index, node.emit("Concat", {lead, node.constant({1})}, {{{"axis", 0}}})});
    Name values = node.emit("GatherElements", {image, spread}, {{{"axis", 2}}}); // (N, C, places)
    Name inside = node.emit("And", {node.emit("Equal", {column, x}), node.emit("Equal", {row, y})});
    Name places = node.emit("Slice", {node.emit("Shape", {x}), node.constant({1}), node.constant({3})});
    Name shape = node.emit("Concat", {node.constant({0, 0}), places}, {{{"axis", 0}}});
    Name shaped = node.emit("Reshape", {values, shape});
    return node.emit("Where", {node.emit("Unsqueeze", {inside, node.constant({1})}), shaped, number(0)});
  }

  NodeTranslation &node;
  ScalarType type;
  int64_t height, width;
  bool isBorder, isAligned;
  Name image; ///< (N, C, height · width)
};

void sampleGrid(NodeTranslation &node) {
  int64_t mode = node.integer("interpolation_mode", 0), padding = node.integer("padding_mode", 0);
  if (node.tensorRank("input") != 4 || mode > 1 || padding > 1) {
    if (!node.failed())
      node.error() << "samples by another mode than bilinear or nearest of images with zeros or their border around "
                      "them, which hyc does not read";
    return;
  }
  GridSampling sampling(node);
  node.finish(mode == 0 ? sampling.bilinear() : sampling.nearest());
}
} // namespace

void hyc::torchexport::addWindow(TranslationTable &table) {
  table["aten.unfold.default"] = unfold;
  table["aten.im2col.default"] = imageToColumns;
  table["aten.col2im.default"] = columnsToImage;
  table["aten.grid_sampler.default"] = sampleGrid;
  table["aten.grid_sampler_2d.default"] = sampleGrid;
}
