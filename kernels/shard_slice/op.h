// One rank's shard, along the middle dimension, of a dense [outer, whole, inner] that it holds: [outer, part, inner],
// its row r being row start + r of the whole. The surprise: rows beyond the end are padding, and zero.
#ifndef HYC_KERNELS_SHARD_SLICE_OP_H_
#define HYC_KERNELS_SHARD_SLICE_OP_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace hyc::kernels {

struct ShardSliceDesc {
  int64_t outer = 1, whole = 0, part = 0, inner = 1;
  int64_t start = 0;
  int64_t elementBytes = 4;
};

inline void shardSlice(const ShardSliceDesc &desc, const void *src, void *dst) {
  const int64_t rowBytes = desc.inner * desc.elementBytes;
  const int64_t held = std::clamp<int64_t>(desc.whole - desc.start, 0, desc.part);
  for (int64_t o = 0; o < desc.outer; ++o) {
    const char *from = static_cast<const char *>(src) + (o * desc.whole + desc.start) * rowBytes;
    char *to = static_cast<char *>(dst) + o * desc.part * rowBytes;
    if (held > 0) std::memcpy(to, from, static_cast<size_t>(held * rowBytes));
    std::memset(to + held * rowBytes, 0, static_cast<size_t>((desc.part - held) * rowBytes));
  }
}

}  // namespace hyc::kernels

#endif  // HYC_KERNELS_SHARD_SLICE_OP_H_
