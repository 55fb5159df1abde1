// Maxima over parts of an image, as many as the result has elements, and over windows at random places.
#include "Translator.h"

#include "llvm/ADT/ArrayRef.h"

using namespace hyc::torchexport;

namespace {
constexpr int64_t kMostListed = int64_t(1) << 20; // places that are listed

/// What there is to know of an image's dimensions: the last of the operand.
struct Image {
  std::vector<int64_t> sizes, parts;
  bool isAlone = false; ///< without a dimension of samples
};

/// The sizes of the operand's last dimensions and how many parts each gets; none, reported, where these are wrong.
Image imageOf(NodeTranslation &node, int64_t dims) {
  Image image;
  const int64_t rank = node.tensorRank("self");
  image.parts = node.integers("output_size");
  if (image.parts.size() == 1)
    image.parts.resize(dims, image.parts.front());
  if (!node.failed() && (static_cast<int64_t>(image.parts.size()) != dims || rank < dims + 1 || rank > dims + 2))
    node.error() << "takes " << image.parts.size() << " sizes for an image of a tensor of " << rank
                 << " dimensions, expected " << dims << " sizes, and channels before them";
  for (int64_t dim = 0; dim < dims && !node.failed(); ++dim) {
    image.sizes.push_back(node.sizeOf("self", rank - dims + dim));
    if (image.parts[dim] < 1 || image.sizes[dim] < 1 || image.parts[dim] > kMostListed ||
        image.sizes[dim] > kMostListed)
      node.error() << "takes " << image.parts[dim] << " parts of " << image.sizes[dim]
                   << " elements, expected at least 1 of each, and at most " << kMostListed;
  }
  image.isAlone = rank == dims + 1;
  return image;
}

bool dividesEvenly(const Image &image) {
  for (size_t dim = 0; dim < image.sizes.size(); ++dim)
    if (image.sizes[dim] % image.parts[dim] != 0)
      return false;
  return true;
}

/// The places of each part of a dimension, all parts of one width: the last of a shorter one is repeated.
std::vector<std::vector<int64_t>> placesOf(int64_t size, int64_t parts) {
  std::vector<std::vector<int64_t>> places(parts);
  size_t width = 0;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t begin = part * size / parts, end = ((part + 1) * size + parts - 1) / parts;
    for (int64_t at = begin; at < end; ++at)
      places[part].push_back(at);
    width = std::max(width, places[part].size());
  }
  for (std::vector<int64_t> &own : places)
    own.resize(width, own.back());
  return places;
}

/// For each part of an image the places of its window in the image's order, one part after another; all have as many.
/// None, reported, where they are too many.
std::vector<int64_t> windowsOf(NodeTranslation &node, const Image &image) {
  std::vector<std::vector<int64_t>> windows{{0}};
  for (size_t dim = 0; dim < image.sizes.size(); ++dim) {
    const std::vector<std::vector<int64_t>> places = placesOf(image.sizes[dim], image.parts[dim]);
    const size_t all = windows.size() * windows.front().size() * places.size() * places.front().size();
    if (all > static_cast<size_t>(kMostListed)) {
      node.error() << "takes parts of an image of different sizes with " << all << " places or more, expected at most "
                   << kMostListed;
      return {};
    }
    std::vector<std::vector<int64_t>> next;
    for (const std::vector<int64_t> &window : windows)
      for (const std::vector<int64_t> &part : places) {
        next.emplace_back();
        for (int64_t before : window)
          for (int64_t place : part)
            next.back().push_back(before * image.sizes[dim] + place);
      }
    windows = std::move(next);
  }
  std::vector<int64_t> flat;
  for (const std::vector<int64_t> &window : windows)
    flat.insert(flat.end(), window.begin(), window.end());
  return flat;
}

/// The greatest of each window of `picked`, (samples, channels, windows, places), where those stand in the image, by
/// `places` of a shape that fits, as results of the parts' shape.
void finishGreatest(NodeTranslation &node, const Name &picked, const Name &places, const Image &image) {
  Name first = node.emit("ArgMax", {picked}, {{{"axis", 3}, {"keepdims", 1}}});
  auto shaped = [&](const Name &value) {
    std::vector<int64_t> shape{0, 0};
    shape.insert(shape.end(), image.parts.begin(), image.parts.end());
    Name result = node.emit("Reshape", {value, node.constant(shape)});
    return image.isAlone ? node.emit("Squeeze", {result, node.constant({0})}) : result;
  };
  node.finish(shaped(node.emit("GatherElements", {picked, first}, {{{"axis", 3}}})));
  if (node.resultCount() < 2)
    return;
  Name everywhere = node.emit("Expand", {places, node.emit("Shape", {picked})});
  node.finish(shaped(node.emit("GatherElements", {everywhere, first}, {{{"axis", 3}}})), 1);
}

Name asSamples(NodeTranslation &node, const Image &image) {
  Name self = node.tensor("self");
  return image.isAlone ? node.emit("Unsqueeze", {self, node.constant({0})}) : self;
}

/// Windows of one size, next to one another.
void poolEvenly(NodeTranslation &node, const Image &image) {
  std::vector<int64_t> window;
  double all = 1;
  for (size_t dim = 0; dim < image.sizes.size(); ++dim) {
    window.push_back(image.sizes[dim] / image.parts[dim]);
    all *= static_cast<double>(image.sizes[dim]);
  }
  std::vector<Name> results =
      node.emitAll("MaxPool", {asSamples(node, image)}, {{}, {}, {{"kernel_shape", window}, {"strides", window}}}, 2);
  auto alone = [&](const Name &value) {
    return image.isAlone ? node.emit("Squeeze", {value, node.constant({0})}) : value;
  };
  node.finish(alone(results[0]));
  if (node.resultCount() > 1) // positions are counted over all samples and channels in ONNX
    node.finish(alone(node.emit("Mod", {results[1], node.constant(ScalarType::I64, all)})), 1);
}

template <int Dims> void adaptiveMaxPool(NodeTranslation &node) {
  const Image image = imageOf(node, Dims);
  if (node.failed())
    return;
  if (dividesEvenly(image))
    return poolEvenly(node, image);
  const std::vector<int64_t> windows = windowsOf(node, image);
  int64_t count = 1;
  for (int64_t parts : image.parts)
    count *= parts;
  if (node.failed())
    return;
  Name flat = node.emit("Reshape", {asSamples(node, image), node.constant({0, 0, -1})});
  Name places = node.emit("Reshape", {node.constant(windows), node.constant({count, -1})});
  finishGreatest(node, node.emit("Gather", {flat, places}, {{{"axis", 2}}}), places, image);
}

/// Where windows of one size begin: the last at the end, the others at whole parts of (place + sample) times the
/// distance that fits, less those of the sample alone. `samples` is (…, 1), the result (…, parts).
Name beginnings(NodeTranslation &node, const Name &samples, int64_t size, int64_t window, int64_t parts) {
  auto number = [&](double value) { return node.constant(ScalarType::F32, value); };
  Name last = node.cast(node.constant({size - window}), ScalarType::F32);
  if (parts == 1)
    return node.emit("Add", {node.emit("Mul", {samples, number(0)}), last});
  std::vector<int64_t> numbers;
  for (int64_t part = 0; part + 1 < parts; ++part)
    numbers.push_back(part);
  Name apart = number(static_cast<double>(size - window) / static_cast<double>(parts - 1));
  auto floored = [&](const Name &value) { return node.emit("Floor", {node.emit("Mul", {value, apart})}); };
  Name places = node.emit("Add", {samples, node.cast(node.constant(numbers), ScalarType::F32)});
  Name some = node.emit("Sub", {floored(places), floored(samples)});
  return node.emit("Concat", {some, node.emit("Add", {node.emit("Mul", {samples, number(0)}), last})},
                   {{{"axis", -1}}});
}

/// Of each channel's own windows, at places that numbers between 0 and 1 decide: of the width, then of the height.
void fractionalMaxPool(NodeTranslation &node) {
  Image image = imageOf(node, 2);
  std::vector<int64_t> window = node.integers("kernel_size");
  if (window.size() == 1)
    window.push_back(window.front());
  for (int dim = 0; dim < 2 && !node.failed(); ++dim)
    if (window.size() != 2 || window[dim] < 1 || image.parts[dim] + window[dim] - 1 > image.sizes[dim])
      node.error() << "takes " << image.parts[dim] << " windows of an image of " << image.sizes[dim]
                   << " elements, expected as many as fit with an element between them";
  if (node.failed())
    return;
  Name samples = node.operand("random_samples", ScalarType::F32), flat[2];
  for (int dim = 0; dim < 2; ++dim) { // (N, C, parts, window)
    const int64_t at = 1 - dim;
    Name own = node.emit("Slice", {samples, node.constant({at}), node.constant({at + 1}), node.constant({2})});
    Name first = node.cast(beginnings(node, own, image.sizes[dim], window[dim], image.parts[dim]), ScalarType::I64);
    std::vector<int64_t> inside;
    for (int64_t place = 0; place < window[dim]; ++place)
      inside.push_back(place);
    flat[dim] = node.emit("Add", {node.emit("Unsqueeze", {first, node.constant({3})}), node.constant(inside)});
  }
  Name rows = node.emit("Mul", {node.emit("Unsqueeze", {flat[0], node.constant({3, 5})}),
                                node.constant(ScalarType::I64, static_cast<double>(image.sizes[1]))});
  Name both = node.emit("Add", {rows, node.emit("Unsqueeze", {flat[1], node.constant({2, 4})})}); // N, C, H, W, h, w
  const int64_t places = window[0] * window[1];
  Name listed = node.emit("Reshape", {both, node.constant({0, 0, -1})});
  Name all = node.emit("Reshape", {asSamples(node, image), node.constant({0, 0, -1})});
  auto shaped = [&](const Name &value) {
    return node.emit("Reshape", {value, node.constant({0, 0, image.parts[0] * image.parts[1], places})});
  };
  finishGreatest(node, shaped(node.emit("GatherElements", {all, listed}, {{{"axis", 2}}})), shaped(listed), image);
}
} // namespace

void hyc::torchexport::addAdaptivePool(TranslationTable &table) {
  table["aten.adaptive_max_pool1d.default"] = adaptiveMaxPool<1>;
  table["aten.adaptive_max_pool2d.default"] = adaptiveMaxPool<2>;
  table["aten.adaptive_max_pool3d.default"] = adaptiveMaxPool<3>;
  table["aten.fractional_max_pool2d.default"] = fractionalMaxPool;
}
