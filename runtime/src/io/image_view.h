// ImageView: how images that lie in a file as bytes, [3, side, side], become what a model reads: a part of `size` by
// `size`, mirrored or not, as floats (value / 255 - mean) / std by channel.
//
// In training the part's place and whether it is mirrored are drawn by (seed, item): Philox under the item's key, word
// 0 the row, word 1 the column, word 2 mirrored if odd. In file order, in which held-out data is read, it is the
// middle, never mirrored. `hyc data` writes such files and says all this in their metadata: image (the tensor), size,
// mean, std, flip ("horizontal" or "none").
#ifndef HYCRT_SRC_IO_IMAGE_VIEW_H_
#define HYCRT_SRC_IO_IMAGE_VIEW_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "hycrt/safetensors.h"
#include "hycrt/status.h"

namespace hycrt {

class ImageView {
 public:
  static constexpr int64_t kChannels = 3;

  // Nothing where the metadata names no image; data errors where it contradicts itself or the tensors.
  static Result<std::optional<ImageView>> of(const std::string& path, const TensorDirectory& directory,
                                             const SafetensorsMetadata& metadata);

  const std::string& tensor() const { return tensor_; }
  int64_t size() const { return size_; }

  // `image` are the bytes of one, [3, side, side]; `to` has [3, size, size].
  void middle(const std::byte* image, float* to) const;
  void drawn(const std::byte* image, uint64_t seed, uint64_t item, float* to) const;

 private:
  ImageView() = default;
  void write(const std::byte* image, int64_t top, int64_t left, bool mirrored, float* to) const;

  std::string tensor_;
  int64_t side_ = 0, size_ = 0;
  bool flips_ = false;
  std::array<float, kChannels> scale_{}, shift_{};  // of a byte: byte · scale + shift
};

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_IMAGE_VIEW_H_
