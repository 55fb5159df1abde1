// Whether indices that a model computes lie within their bound, found on GPUs without the host: what is wrong goes to
// memory of the host that is pinned, where the host looks when the step is over.
#ifndef HYC_KERNELS_INDEX_CHECK_CUDA_H_
#define HYC_KERNELS_INDEX_CHECK_CUDA_H_

#include <cstdint>

#include "kernels/cuda/stream.h"

namespace hyc::kernels::cuda {

// `indices` are on the device. Good ones are in [0, bound), or `uncounted`, which may be one of them; none is of 0.
struct IndexCheck {
  unsigned number = 0;  // from 1 on; no other check that may find something has it
  const int64_t *indices = nullptr;
  int64_t count = 0, bound = 0, uncounted = 0;
};

// What the first check found that found anything: the lowest place, whatever order threads come in. Its memory is
// pinned, zero at first, and the host's while no check is under way; checks that share it are on one stream.
struct BadIndex {
  unsigned lock = 0;   // the device's own
  unsigned check = 0;  // its number; 0: all indices are good
  int64_t place = 0, index = 0;
};

// Good indices cost one pass over them, and nothing is written.
void checkIndices(Stream stream, const IndexCheck &check, BadIndex *found);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_INDEX_CHECK_CUDA_H_
