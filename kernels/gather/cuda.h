// Gather and scatter on GPUs: the contract of op.h, the bits included.
#ifndef HYC_KERNELS_GATHER_CUDA_H_
#define HYC_KERNELS_GATHER_CUDA_H_

#include "kernels/cuda/stream.h"
#include "kernels/gather/op.h"

namespace hyc::kernels::cuda {

void gather(Stream stream, const GatherDesc &desc, int64_t elementBytes, const void *data, const int64_t *indices,
            void *rows);

// T: float, double, int64_t or int32_t.
template <typename T>
void scatter(Stream stream, const GatherDesc &desc, ScatterKind kind, const int64_t *indices, const T *rows, T *data);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_GATHER_CUDA_H_
