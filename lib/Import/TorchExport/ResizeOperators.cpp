// aten's upsampling of images. torch gives the result's sizes, or factors, which it then uses as they are.
#include "Translator.h"

using namespace hyc::torchexport;

namespace {
void resize(NodeTranslation &node, const char *mode, const char *coordinates, const char *nearest) {
  const char *image = node.has("input") ? "input" : "self";
  const int64_t rank = node.tensorRank(image);
  Name input = node.tensor(image), none;
  std::vector<Name> inputs{input, none};
  std::vector<double> factors = node.numbers("scale_factors");
  // The older spelling has a number for each dimension, beside the sizes.
  for (const char *each : {"scales_d", "scales_h", "scales_w", "scales"})
    if (node.has(each))
      factors.push_back(node.number(each));
  // Between aligned corners torch goes by the sizes, whatever the factors; ONNX by what the factors make of them.
  const std::vector<Size> &sizes = node.resultMeta().sizes;
  bool isKnown = static_cast<int64_t>(sizes.size()) == rank;
  for (int64_t dim = 2; isKnown && dim < rank; ++dim)
    isKnown = sizes[dim].value.has_value();
  if (isKnown && !factors.empty() && llvm::StringRef(coordinates) == "align_corners") {
    std::vector<int64_t> image;
    for (int64_t dim = 2; dim < rank; ++dim)
      image.push_back(*sizes[dim].value);
    Name kept = node.emit("Slice", {node.emit("Shape", {input}), node.constant({0}), node.constant({2})});
    inputs.push_back(none);
    inputs.push_back(node.emit("Concat", {kept, node.constant(image)}, {{{"axis", 0}}}));
  } else if (static_cast<int64_t>(factors.size()) == rank - 2) {
    factors.insert(factors.begin(), 2, 1);
    std::vector<Name> parts;
    for (double factor : factors)
      parts.push_back(node.emit("Reshape", {node.constant(ScalarType::F32, factor), node.constant({1})}));
    inputs.push_back(node.emit("Concat", parts, {{{"axis", 0}}}));
  } else {
    Name shape = node.emit("Shape", {input});
    Name kept = node.emit("Slice", {shape, node.constant({0}), node.constant({2})});
    inputs.push_back(none);
    inputs.push_back(node.emit("Concat", {kept, node.shape("output_size")}, {{{"axis", 0}}}));
  }
  node.finish(
      node.emit("Resize", inputs,
                {{},
                 {{"cubic_coeff_a", -0.75}},
                 {},
                 {{"mode", mode}, {"coordinate_transformation_mode", coordinates}, {"nearest_mode", nearest}}}));
}

constexpr char kLinear[] = "linear", kCubic[] = "cubic";
template <const char *Mode> void smooth(NodeTranslation &node) {
  resize(node, Mode, node.boolean("align_corners", false) ? "align_corners" : "half_pixel", "round_prefer_floor");
}

void nearest(NodeTranslation &node) { resize(node, "nearest", "asymmetric", "floor"); }
void nearestExact(NodeTranslation &node) { resize(node, "nearest", "half_pixel", "round_prefer_ceil"); }
} // namespace

void hyc::torchexport::addResize(TranslationTable &table) {
  for (const char *overload : {".vec", ".default"}) {
    for (const char *name : {"linear1d", "bilinear2d", "trilinear3d"})
      table[std::string("aten.upsample_") + name + overload] = smooth<kLinear>;
    table[std::string("aten.upsample_bicubic2d") + overload] = smooth<kCubic>;
    for (const char *dims : {"1d", "2d", "3d"}) {
      table[std::string("aten.upsample_nearest") + dims + overload] = nearest;
      table[std::string("aten._upsample_nearest_exact") + dims + overload] = nearestExact;
    }
  }
}
