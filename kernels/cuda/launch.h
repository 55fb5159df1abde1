// Launching a kernel: only by the runtime's function, never by <<<>>>, so that a host compiler can read every .cu file
// (test/emulation runs them so).
#ifndef HYC_KERNELS_CUDA_LAUNCH_H_
#define HYC_KERNELS_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/stream.h"

namespace hyc::kernels::cuda {

struct Grid {
  dim3 blocks, threads;
  size_t sharedBytes = 0;  // dynamic shared memory
};

// One thread an element, or several elements a thread where that would be more blocks than a GPU has room for: kernels
// walk on by gridDim.x * blockDim.x.
inline Grid gridOver(int64_t elements, int threads = 256, int64_t mostBlocks = 4096) {
  int64_t blocks = (elements + threads - 1) / threads;
  if (blocks > mostBlocks) blocks = mostBlocks;
  return {dim3(static_cast<unsigned>(blocks < 1 ? 1 : blocks)), dim3(static_cast<unsigned>(threads))};
}

// Arguments are converted to the kernel's parameters here, as in any other call.
template <typename... Parameters>
struct Kernel {
  void (*function)(Parameters...);

  void launch(Stream stream, const Grid &grid, Parameters... arguments) const {
    if (grid.blocks.x == 0 || grid.blocks.y == 0 || grid.blocks.z == 0) return;
    cudaLaunchConfig_t config{};
    config.gridDim = grid.blocks;
    config.blockDim = grid.threads;
    config.dynamicSmemBytes = grid.sharedBytes;
    config.stream = stream;
    // More than 48 KiB have to be asked for, once a kernel; asking again costs next to nothing.
    if (grid.sharedBytes > (48u << 10)) {
      cudaFuncSetAttribute(reinterpret_cast<const void *>(function), cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(grid.sharedBytes));
    }
    cudaLaunchKernelEx(&config, function, arguments...);
  }
};
template <typename... Parameters>
Kernel<Parameters...> kernel(void (*function)(Parameters...)) {
  return {function};
}

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_CUDA_LAUNCH_H_
