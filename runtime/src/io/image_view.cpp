// Reading the metadata, and one loop over the part.
#include "io/image_view.h"

#include <cmath>
#include <cstdlib>

#include "hycrt/philox.h"

namespace hycrt {
namespace {

constexpr uint64_t kImageKey = stableKey("image");

// Three numbers, separated by blanks.
bool readChannels(const std::string& text, std::array<double, ImageView::kChannels>* values) {
  const char* at = text.c_str();
  for (double& value : *values) {
    char* end = nullptr;
    value = std::strtod(at, &end);
    if (end == at || !std::isfinite(value)) return false;
    at = end;
  }
  return *at == 0;
}

}  // namespace

Result<std::optional<ImageView>> ImageView::of(const std::string& path, const TensorDirectory& directory,
                                               const SafetensorsMetadata& metadata) {
  const auto text = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  ImageView view;
  view.tensor_ = text("image");
  if (view.tensor_.empty()) return std::optional<ImageView>();
  const auto wrong = [&](const std::string& what) {
    return dataError("'" + path + "' says that its tensor '" + view.tensor_ + "' holds images, but " + what);
  };
  const auto entry = directory.find(view.tensor_);
  if (entry == directory.end()) return wrong("has none of that name");
  const std::vector<int64_t>& shape = entry->second.shape;
  const bool isSquare = shape.size() == 4 && shape[1] == kChannels && shape[2] == shape[3];
  if (entry->second.dtype != DType::kU8 || !isSquare) return wrong("it is not bytes of shape [images, 3, side, side]");
  view.side_ = shape[2];
  char* end = nullptr;
  const std::string size = text("size"), flip = text("flip");
  view.size_ = std::strtoll(size.c_str(), &end, 10);
  if (size.empty() || *end != 0 || view.size_ < 1 || view.size_ > view.side_) {
    return wrong("size is '" + size + "', expected 1 to " + std::to_string(view.side_));
  }
  if (flip != "horizontal" && flip != "none") return wrong("flip is '" + flip + "', expected horizontal or none");
  view.flips_ = flip == "horizontal";
  std::array<double, kChannels> mean{}, deviation{};
  if (!readChannels(text("mean"), &mean) || !readChannels(text("std"), &deviation)) {
    return wrong("mean is '" + text("mean") + "' and std '" + text("std") + "', expected three numbers each");
  }
  for (size_t c = 0; c < kChannels; ++c) {
    if (!(deviation[c] > 0)) return wrong("std is '" + text("std") + "', expected numbers above 0");
    view.scale_[c] = static_cast<float>(1 / (255 * deviation[c]));
    view.shift_[c] = static_cast<float>(-mean[c] / deviation[c]);
  }
  return std::optional<ImageView>(std::move(view));
}

void ImageView::middle(const std::byte* image, float* to) const {
  const int64_t margin = (side_ - size_) / 2;
  write(image, margin, margin, false, to);
}

void ImageView::drawn(const std::byte* image, uint64_t seed, uint64_t item, float* to) const {
  const PhiloxCounter words = PhiloxStream(mix64(seed, item), kImageKey).block(0);
  const uint64_t places = static_cast<uint64_t>(side_ - size_ + 1);
  const auto place = [&](uint32_t word) { return static_cast<int64_t>(word * places >> 32); };
  write(image, place(words[0]), place(words[1]), flips_ && (words[2] & 1) != 0, to);
}

void ImageView::write(const std::byte* image, int64_t top, int64_t left, bool mirrored, float* to) const {
  for (int64_t c = 0; c < kChannels; ++c) {
    const float scale = scale_[static_cast<size_t>(c)], shift = shift_[static_cast<size_t>(c)];
    for (int64_t y = 0; y < size_; ++y) {
      const std::byte* from = image + (c * side_ + top + y) * side_ + left;
      float* row = to + (c * size_ + y) * size_;
      for (int64_t x = 0; x < size_; ++x) {
        row[x] = static_cast<float>(std::to_integer<int>(from[mirrored ? size_ - 1 - x : x])) * scale + shift;
      }
    }
  }
}

}  // namespace hycrt
