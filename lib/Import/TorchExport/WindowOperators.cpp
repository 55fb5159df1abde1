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

/// torch numbers what ONNX calls by name.
void sampleGrid(NodeTranslation &node) {
  static constexpr const char *modes[] = {"linear", "nearest", "cubic"},
                              *paddings[] = {"zeros", "border", "reflection"};
  const int64_t mode = node.integer("interpolation_mode", 0), padding = node.integer("padding_mode", 0);
  if (mode < 0 || mode > 2 || padding < 0 || padding > 2) {
    if (!node.failed())
      node.error() << "samples by mode " << mode << " with padding " << padding << ", expected 0 to 2";
    return;
  }
  ScalarType type = node.resultMeta().type;
  node.finish(node.emit("GridSample", {node.operand("input", type), node.operand("grid", type)},
                        {{{"align_corners", node.boolean("align_corners", false)}},
                         {},
                         {},
                         {{"mode", modes[mode]}, {"padding_mode", paddings[padding]}}}));
}
} // namespace

void hyc::torchexport::addWindow(TranslationTable &table) {
  table["aten.unfold.default"] = unfold;
  table["aten.im2col.default"] = imageToColumns;
  table["aten.col2im.default"] = columnsToImage;
  table["aten.grid_sampler.default"] = sampleGrid;
  table["aten.grid_sampler_2d.default"] = sampleGrid;
  table["aten.grid_sampler_3d.default"] = sampleGrid;
}
