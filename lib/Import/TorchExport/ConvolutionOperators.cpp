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
  bool isPadded = node.isText("padding") ? node.text("padding", "") != "valid"
                                         : pairOf(node, "padding", 0) != std::vector<int64_t>{0, 0};
  return window[0] > 0 && window[1] > 0 && pairOf(node, "stride", 1) == window && !isPadded &&
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

/// A convolution's padding: numbers, or "valid", or "same", which keeps sizes and has the odd one at the end.
std::vector<int64_t> paddingOf(NodeTranslation &node, int64_t dims) {
  if (!node.isText("padding"))
    return onBothSides(perDimension(node, "padding", dims, 0));
  std::vector<int64_t> padding(2 * dims, 0), dilation = perDimension(node, "dilation", dims, 1);
  for (int64_t dim = 0; dim < static_cast<int64_t>(dilation.size()) && dim < dims && node.text("padding", "") == "same";
       ++dim) {
    int64_t all = dilation[dim] * (node.sizeOf("weight", dim + 2) - 1);
    padding[dim] = all / 2;
    padding[dims + dim] = all - all / 2;
  }
  return padding;
}

/// An image without a sample's dimension gets one of size 1.
Name asSamples(NodeTranslation &node, const char *image, bool hasNone) {
  Name value = node.tensor(image);
  return hasNone ? node.emit("Unsqueeze", {value, node.constant({0})}) : value;
}

void finishSamples(NodeTranslation &node, const Name &value, bool hadNone, size_t index = 0) {
  node.finish(hadNone ? node.emit("Squeeze", {value, node.constant({0})}) : value, index);
}

void windowsOf(NodeTranslation &node, bool turned) {
  int64_t dims = node.tensorRank("weight") - 2;
  if (!node.failed() && (dims < 1 || dims > 3))
    node.error() << "has the argument 'weight' of " << dims + 2 << " dimensions, expected 3 to 5";
  if (node.failed())
    return;
  const bool isAlone = node.tensorRank("input") == dims + 1;
  Attributes attributes{{{"group", node.integer("groups", 1)}},
                        {},
                        {{"strides", perDimension(node, "stride", dims, 1)},
                         {"pads", paddingOf(node, dims)},
                         {"dilations", perDimension(node, "dilation", dims, 1)}}};
  if (turned)
    attributes.lists.push_back({"output_padding", perDimension(node, "output_padding", dims, 0)});
  std::vector<Name> inputs{asSamples(node, "input", isAlone), node.tensor("weight")};
  if (node.has("bias"))
    inputs.push_back(node.tensor("bias"));
  finishSamples(node, node.emit(turned ? "ConvTranspose" : "Conv", inputs, attributes), isAlone);
}

void windows(NodeTranslation &node) { windowsOf(node, node.boolean("transposed", false)); }
void transposedWindows(NodeTranslation &node) { windowsOf(node, true); }

void convolution(NodeTranslation &node) {
  if (node.tensorRank("weight") == 4 && node.tensorRank("input") == 4 && tilesImage(node))
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
  const bool isAlone = node.tensorRank("self") == Dims + 1;
  Name self = asSamples(node, "self", isAlone);
  if (node.resultCount() == 1) {
    finishSamples(node, node.emit("MaxPool", {self}, attributes), isAlone);
    return;
  }
  // Positions are counted over all samples and channels in ONNX, over one image in torch.
  std::vector<Name> results = node.emitAll("MaxPool", {self}, attributes, 2);
  double image = 1;
  for (int64_t dim = node.tensorRank("self") - Dims; dim < node.tensorRank("self"); ++dim)
    image *= static_cast<double>(node.sizeOf("self", dim));
  finishSamples(node, results[0], isAlone);
  finishSamples(node, node.emit("Mod", {results[1], node.constant(ScalarType::I64, image)}), isAlone, 1);
}

/// Zeros on all sides of what windows of `attributes` are taken from, as far as they reach where they may reach beyond
/// it. No padding and no reach is left to the attributes then.
Name padAsFar(NodeTranslation &node, const Name &value, Attributes &attributes, int64_t dims) {
  std::vector<int64_t> &kernel = attributes.lists[0].second, &stride = attributes.lists[1].second,
                       &padding = attributes.lists[2].second, before{0, 0}, behind{0, 0};
  for (int64_t dim = 0; dim < dims; ++dim) {
    const int64_t size = node.sizeOf("self", node.tensorRank("self") - dims + dim), pad = padding[dim];
    if (node.failed() || stride[dim] < 1 || kernel[dim] < 1)
      return value;
    // The last window begins within the tensor or the padding before it.
    int64_t last = (std::max<int64_t>(size + 2 * pad - kernel[dim], 0) + stride[dim] - 1) / stride[dim];
    if (last * stride[dim] >= size + pad)
      --last;
    before.push_back(pad);
    behind.push_back(std::max<int64_t>(last * stride[dim] + kernel[dim] - size - pad, 0));
  }
  attributes.integers = {{"ceil_mode", 0}};
  padding.assign(2 * dims, 0);
  before.insert(before.end(), behind.begin(), behind.end());
  return node.emit("Pad", {value, node.constant(before)});
}

template <int Dims> void averagePool(NodeTranslation &node) {
  Attributes attributes = poolingAttributes(node, Dims);
  const bool isAlone = node.tensorRank("self") == Dims + 1, isDivided = node.has("divisor_override");
  Name value = asSamples(node, "self", isAlone);
  const bool reachesBeyond = node.boolean("ceil_mode", false);
  if (isDivided && reachesBeyond)
    value = padAsFar(node, value, attributes, Dims);
  attributes.integers.push_back({"count_include_pad", isDivided || node.boolean("count_include_pad", true)});
  // A window that is larger than what is there is as large as that, where it may reach beyond (ceil_mode).
  for (int64_t dim = 0; dim < Dims && reachesBeyond && !isDivided; ++dim) {
    const Size &size = node.metaOf("self").sizes[node.tensorRank("self") - Dims + dim];
    int64_t &kernel = attributes.lists[0].second[dim];
    if (size.value && attributes.lists[2].second[dim] == 0)
      kernel = std::min(kernel, std::max<int64_t>(*size.value, 1));
  }
  Name result = node.emit("AveragePool", {value}, attributes);
  if (isDivided) {
    double elements = 1;
    for (int64_t size : perDimension(node, "kernel_size", Dims, 1))
      elements *= static_cast<double>(size);
    result =
        node.emit("Mul", {result, node.constant(node.resultMeta().type, elements / node.number("divisor_override"))});
  }
  finishSamples(node, result, isAlone);
}

/// The mean over parts of one dimension, which overlap by less than an element where their number is no divisor: a
/// product with a matrix of shares.
Name partMeans(NodeTranslation &node, const Name &value, int64_t rank, int64_t dim, int64_t whole, int64_t parts) {
  std::vector<int64_t> belongs(whole * parts, 0), counts;
  for (int64_t part = 0; part < parts; ++part) {
    int64_t begin = part * whole / parts, end = ((part + 1) * whole + parts - 1) / parts;
    counts.push_back(end - begin);
    for (int64_t at = begin; at < end; ++at)
      belongs[at * parts + part] = 1;
  }
  ScalarType type = node.resultMeta().type;
  Name matrix = node.cast(node.emit("Reshape", {node.constant(belongs), node.constant({whole, parts})}), type);
  Name shares = node.emit("Div", {matrix, node.cast(node.constant(counts), type)});
  std::vector<int64_t> order;
  for (int64_t each = 0; each < rank; ++each)
    order.push_back(each == dim ? rank - 1 : each == rank - 1 ? dim : each);
  auto turned = [&](const Name &own) { return node.emit("Transpose", {own}, {{}, {}, {{"perm", order}}}); };
  return turned(node.emit("MatMul", {turned(value), shares}));
}

constexpr int64_t kMostShares = int64_t(1) << 16; // numbers of such a matrix

void averageParts(NodeTranslation &node, const std::vector<int64_t> &sizes) {
  int64_t rank = node.tensorRank("self");
  Name value = node.tensor("self");
  for (size_t i = 0; i < sizes.size() && !node.failed(); ++i) {
    int64_t dim = rank - static_cast<int64_t>(sizes.size()) + static_cast<int64_t>(i), whole = node.sizeOf("self", dim);
    if (sizes[i] < 1 || whole < 1 || sizes[i] > kMostShares || whole > kMostShares / sizes[i]) {
      node.error() << "averages " << whole << " elements to " << sizes[i]
                   << ", expected at least 1 and a product of at most " << kMostShares;
      return;
    }
    value = partMeans(node, value, rank, dim, whole, sizes[i]);
  }
  node.finish(value);
}

/// Windows of equal size, of which there are as many as the result has elements; else parts.
template <int Dims> void adaptiveAveragePool(NodeTranslation &node) {
  std::vector<int64_t> sizes = perDimension(node, "output_size", Dims, 1), window;
  for (size_t dim = 0; dim < sizes.size() && !node.failed(); ++dim) {
    int64_t whole = node.sizeOf("self", node.tensorRank("self") - Dims + static_cast<int64_t>(dim));
    if (sizes[dim] < 1 || whole % sizes[dim] != 0)
      return averageParts(node, sizes);
    window.push_back(whole / sizes[dim]);
  }
  if (node.failed())
    return;
  const bool isAlone = node.tensorRank("self") == Dims + 1;
  Attributes attributes{{}, {}, {{"kernel_shape", window}, {"strides", window}}};
  finishSamples(node, node.emit("AveragePool", {asSamples(node, "self", isAlone)}, attributes), isAlone);
}
} // namespace

void hyc::torchexport::addConvolution(TranslationTable &table) {
  table["aten.conv2d.default"] = convolution;
  table["aten.convolution.default"] = convolution;
  table["aten.conv2d.padding"] = convolution;
  for (const char *overload : {"default", "padding"}) {
    table[std::string("aten.conv1d.") + overload] = windows;
    table[std::string("aten.conv3d.") + overload] = windows;
  }
  for (const char *name : {"conv_transpose1d.default", "conv_transpose2d.input", "conv_transpose3d.input"})
    table[std::string("aten.") + name] = transposedWindows;
  table["aten.max_pool3d.default"] = maxPool<3>;
  table["aten.avg_pool3d.default"] = averagePool<3>;
  table["aten.adaptive_avg_pool3d.default"] = adaptiveAveragePool<3>;
  table["aten._adaptive_avg_pool3d.default"] = adaptiveAveragePool<3>;
  table["aten.max_pool1d.default"] = maxPool<1>;
  table["aten.max_pool2d.default"] = maxPool<2>;
  table["aten.max_pool1d_with_indices.default"] = maxPool<1>;
  table["aten.max_pool2d_with_indices.default"] = maxPool<2>;
  table["aten.max_pool3d_with_indices.default"] = maxPool<3>;
  table["aten.avg_pool1d.default"] = averagePool<1>;
  table["aten.avg_pool2d.default"] = averagePool<2>;
  table["aten.adaptive_avg_pool1d.default"] = adaptiveAveragePool<1>;
  table["aten.adaptive_avg_pool2d.default"] = adaptiveAveragePool<2>;
  table["aten._adaptive_avg_pool2d.default"] = adaptiveAveragePool<2>;
}
