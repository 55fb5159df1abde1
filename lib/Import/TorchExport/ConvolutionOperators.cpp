// Convolutions. One whose windows do not overlap, as of a vision transformer's patches, is a product of patches and
// weights: nothing but a reshape tells it from a linear layer, so that it is split, differentiated and computed as one.
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
  return pairOf(node, "stride", 1) == window && pairOf(node, "padding", 0) == std::vector<int64_t>{0, 0} &&
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

void convolution(NodeTranslation &node) {
  if (node.tensorRank("weight") == 4 && tilesImage(node))
    patches(node);
  else if (!node.failed())
    node.error()
        << "has windows that overlap, are padded or leave elements out; hyc reads convolutions only of patches";
}
} // namespace

void hyc::torchexport::addConvolution(TranslationTable &table) {
  table["aten.conv2d.default"] = convolution;
  table["aten.convolution.default"] = convolution;
}
