// In which order the blocks of a launch have which rows.
#ifndef HYC_KERNELS_ATTENTION_CUDA_ORDER_H_
#define HYC_KERNELS_ATTENTION_CUDA_ORDER_H_

#include <cuda_runtime.h>

#include <cstdint>

namespace hyc::kernels::cuda::attention {

// The blocks of a launch, in one dimension, since the others end at 65,535: a tile of rows of one (sample, head) each.
// GPUs start blocks in the order of their numbers. Those of one tile number follow each other, so that long ones, which
// the caller gives the first numbers, do not begin last; but only as many heads take part at once as find room in L2
// with the rows that their blocks walk over.
struct BlockOrder {
  unsigned tiles, heads, headsAtOnce;  // heads: of all samples

  BlockOrder(int64_t rows, int64_t tileRows, int64_t allHeads, int64_t walkedBytesOfHead)
      : tiles(static_cast<unsigned>((rows + tileRows - 1) / tileRows)), heads(static_cast<unsigned>(allHeads)) {
    constexpr int64_t kBytesAtOnce = int64_t{16} << 20;  // less than half of an A100's
    const int64_t fit = kBytesAtOnce / (walkedBytesOfHead + 1) + 1;
    headsAtOnce = static_cast<unsigned>(fit < allHeads ? fit : allHeads);
  }
  unsigned blocks() const { return tiles * heads; }

  __host__ __device__ void placeOf(unsigned block, int &tile, int &head) const {
    const unsigned section = block / (tiles * headsAtOnce), inSection = block % (tiles * headsAtOnce);
    const unsigned firstHead = section * headsAtOnce;
    const unsigned sectionHeads = heads - firstHead < headsAtOnce ? heads - firstHead : headsAtOnce;
    tile = static_cast<int>(inSection / sectionHeads);
    head = static_cast<int>(firstHead + inSection % sectionHeads);
  }
};

}  // namespace hyc::kernels::cuda::attention

#endif  // HYC_KERNELS_ATTENTION_CUDA_ORDER_H_
