// Convolutions and pooling. One whose windows do not overlap, as of a vision transformer's patches, is a product of
// patches and weights: nothing but a reshape tells it from a linear layer, so that it is split, differentiated and
// computed as one.
#include "Translator.h"

#include "llvm/ADT/STLExtras.h"

using namespace hyc::torchexport;

namespace {
/// A list of two numbers, of which one may stand for both.
std::vector<int64_t> pairOf(NodeTranslation &node, const char *name, int64_t otherwise) {
  std::vector<int64_t> values = node.has(name) ? node.integers(name) : std::vector<int64_t>{otherwise};
  return values.size() == 1 ? std::vector<int64_t>(2, values[0]) : values;
}

/// Whether windows tile the image: each element is in just one.
bool tilesImage(NodeTranslation &node) {
  std::vector<int64_t> window{node.sizeOf("weight", 2), node.sizeOf("weight", 3)};
  return window[0] > 0 && window[1] > 0 && pairOf(node, "stride", 1) == window &&
         pairOf(node, "padding", 0) == std::vector<int64_t>{0, 0} &&
         pairOf(node, "dilation", 1) == std::vector<int64_t>{1, 1} && node.integer("groups", 1) == 1 &&
         !node.boolean("transposed", false) && node.sizeOf("input", 2) % window[0] == 0 &&
         node.sizeOf("input", 3) % window[1] == 0;
}

/// (B, C, H, W) -> (B, O, H/h, W/w): patches (B, H/h, W/w, C, h, w) times weights (O, C, h, w), and the bias.
void patches(NodeTranslation &node) {
  int64_t channels = node.sizeOf("weight", 1), h = node.sizeOf("weight", 2), w = node.sizeOf("weight", 3);
  int64_t rows = node.sizeOf("input", 2) / h, columns = node.sizeOf("input", 3) / w, outputs = node.sizeOf("weight", 0);
  auto reshape = [&](const Name &value, const std::vector<int64_t> &shape) {
    return node.emit("Reshape", {value, node.constant(shape)}); // 0 keeps a size, as that of the batch
  };
  auto transpose = [&](const Name &value, std::vector<int64_t> order) {
    return node.emit("Transpose", {value}, {{}, {}, {{"perm", std::move(order)}}});
  };
  Name cut = reshape(node.tensor("input"), {0, channels, rows, h, columns, w});
  Name vectors = reshape(transpose(cut, {0, 2, 4, 1, 3, 5}), {0, rows * columns, channels * h * w});
  Name weights = transpose(reshape(node.tensor("weight"), {outputs, channels * h * w}), {1, 0});
  Name result = node.emit("MatMul", {vectors, weights});
  if (node.has("bias"))
    result = node.emit("Add", {result, node.tensor("bias")});
  node.finish(reshape(transpose(result, {0, 2, 1}), {0, outputs, rows, columns}));
}

/// A list with one number a dimension of the image, of which one may stand for all.
std::vector<int64_t> perDimension(NodeTranslation &node, const char *name, int64_t dims, int64_t otherwise) {
  std::vector<int64_t> values = node.has(name) ? node.integers(name) : std::vector<int64_t>();
  if (values.empty())
    values = {otherwise};
  return values.size() == 1 ? std::vector<int64_t>(dims, values[0]) : values;
}

/// ONNX has the padding before all dimensions, then that after.
std::vector<int64_t> onBothSides(std::vector<int64_t> padding) {
  padding.insert(padding.end(), padding.begin(), padding.end());
  return padding;
}

void windows(NodeTranslation &node) {
  int64_t dims = node.tensorRank("weight") - 2;
  if (!node.failed() && (dims < 1 || dims > 3))
    node.error() << "has the argument 'weight' of " << dims + 2 << " dimensions, expected 3 to 5";
  if (node.failed())
    return;
  bool turned = node.boolean("transposed", false);
  Attributes attributes{{{"group", node.integer("groups", 1)}},
                        {},
                        {{"strides", perDimension(node, "stride", dims, 1)},
                         {"pads", onBothSides(perDimension(node, "padding", dims, 0))},
                         {"dilations", perDimension(node, "dilation", dims, 1)}}};
  if (turned)
    attributes.lists.push_back({"output_padding", perDimension(node, "output_padding", dims, 0)});
  std::vector<Name> inputs{node.tensor("input"), node.tensor("weight")};
  if (node.has("bias"))
    inputs.push_back(node.tensor("bias"));
  node.finish(node.emit(turned ? "ConvTranspose" : "Conv", inputs, attributes));
}

void convolution(NodeTranslation &node) {
  if (node.tensorRank("weight") == 4 && tilesImage(node))
    patches(node);
  else if (!node.failed())
    windows(node);
}

/// Windows of `dims` dimensions, which are next to one another unless a stride is given.
Attributes poolingAttributes(NodeTranslation &node, int64_t dims) {
  std::vector<int64_t> kernel = perDimension(node, "kernel_size", dims, 1);
  std::vector<int64_t> stride =
      node.has("stride") && !node.integers("stride").empty() ? perDimension(node, "stride", dims, 1) : kernel;
  return {
      {{"ceil_mode", node.boolean("ceil_mode", false)}},
      {},
      {{"kernel_shape", kernel}, {"strides", stride}, {"pads", onBothSides(perDimension(node, "padding", dims, 0))}}};
}

template <int Dims> void maxPool(NodeTranslation &node) {
  Attributes attributes = poolingAttributes(node, Dims);
  attributes.lists.push_back({"dilations", perDimension(node, "dilation", Dims, 1)});
  node.finish(node.emit("MaxPool", {node.tensor("self")}, attributes));
}

template <int Dims> void averagePool(NodeTranslation &node) {
  if (node.has("divisor_override")) {
    node.error() << "divides its sums by another number than that of the elements, which hyc does not read";
    return;
  }
  Attributes attributes = poolingAttributes(node, Dims);
  attributes.integers.push_back({"count_include_pad", node.boolean("count_include_pad", true)});
  node.finish(node.emit("AveragePool", {node.tensor("self")}, attributes));
}

/// Windows of equal size, of which there are as many as the result has elements.
template <int Dims> void adaptiveAveragePool(NodeTranslation &node) {
  std::vector<int64_t> sizes = node.integers("output_size"), window;
  for (size_t dim = 0; dim < sizes.size() && !node.failed(); ++dim) {
    int64_t whole = node.sizeOf("self", node.tensorRank("self") - Dims + static_cast<int64_t>(dim));
    if (sizes[dim] < 1 || whole % sizes[dim] != 0) {
      node.error() << "averages " << whole << " elements to " << sizes[dim]
                   << " by windows of different sizes, which hyc does not read; expected a divisor";
      return;
    }
    window.push_back(whole / sizes[dim]);
  }
  node.finish(
      node.emit("AveragePool", {node.tensor("self")}, {{}, {}, {{"kernel_shape", window}, {"strides", window}}}));
}
} // namespace

void hyc::torchexport::addConvolution(TranslationTable &table) {
  table["aten.conv2d.default"] = convolution;
  table["aten.convolution.default"] = convolution;
  table["aten.conv1d.default"] = windows;
  table["aten.conv3d.default"] = windows;
  table["aten.max_pool1d.default"] = maxPool<1>;
  table["aten.max_pool2d.default"] = maxPool<2>;
  table["aten.max_pool2d_with_indices.default"] = maxPool<2>;
  table["aten.avg_pool1d.default"] = averagePool<1>;
  table["aten.avg_pool2d.default"] = averagePool<2>;
  table["aten.adaptive_avg_pool1d.default"] = adaptiveAveragePool<1>;
  table["aten.adaptive_avg_pool2d.default"] = adaptiveAveragePool<2>;
}
