// Exchanges between GPUs by NCCL: one of its communicators for each group of ranks, made once.
#ifndef HYCRT_SRC_CUDA_NCCL_H_
#define HYCRT_SRC_CUDA_NCCL_H_

#include <memory>

#include "comm/device_exchanger.h"

namespace hycrt {

// Null where the runtime is built without NCCL.
std::unique_ptr<DeviceExchanger> makeNcclExchanger();

}  // namespace hycrt

#endif  // HYCRT_SRC_CUDA_NCCL_H_
