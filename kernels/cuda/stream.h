// The stream that a kernel for GPUs is put on: CUDA's cudaStream_t, by the name that needs none of CUDA's headers, so
// that generated programs are compiled by the host's compiler alone.
#ifndef HYC_KERNELS_CUDA_STREAM_H_
#define HYC_KERNELS_CUDA_STREAM_H_

struct CUstream_st;

namespace hyc::kernels::cuda {

// Every kernel takes its stream first and returns when it is enqueued. A launch that fails leaves its reason to
// cudaGetLastError, which the runtime asks for where it waits.
using Stream = CUstream_st *;

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_CUDA_STREAM_H_
