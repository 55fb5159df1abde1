// Exchanges between GPUs by NCCL: a communicator for each group of ranks, made once.
#ifndef HYCRT_SRC_CUDA_NCCL_H_
#define HYCRT_SRC_CUDA_NCCL_H_

#include <memory>

#include "comm/device_collectives.h"

namespace hycrt {

// Null where the runtime is built without NCCL.
std::unique_ptr<DeviceCollectives> makeNcclCollectives();

}  // namespace hycrt

#endif  // HYCRT_SRC_CUDA_NCCL_H_
