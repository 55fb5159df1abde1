// Moving, adding, rounding and filling on GPUs: what copy/op.h, permute/op.h and shard_slice/op.h say, and what
// generated programs for CPUs write as a statement.
#ifndef HYC_KERNELS_COPY_CUDA_H_
#define HYC_KERNELS_COPY_CUDA_H_

#include <cstdint>

#include "kernels/cuda/stream.h"
#include "kernels/narrow_float.h"
#include "kernels/permute/op.h"
#include "kernels/shard_slice/op.h"
#include "kernels/write_mode.h"

namespace hyc::kernels::cuda {

// Elements of 1, 2, 4 or 8 bytes.
void stridedCopy(Stream stream, const StridedCopyDesc &desc, const void *src, void *dst);

void shardSlice(Stream stream, const ShardSliceDesc &desc, const void *src, void *dst);

// dst = or += src. T: float, double, Bf16, F16, int32_t, int64_t or uint8_t.
template <typename T>
void accumulate(Stream stream, T *dst, const T *src, int64_t n, WriteMode mode);

// dst = src, each rounded to T: float, Bf16 or F16.
template <typename T>
void roundElements(Stream stream, T *dst, const float *src, int64_t n);

// T: as of accumulate.
template <typename T>
void fill(Stream stream, T *dst, int64_t n, T value);

// `bytes` from the host, whose memory stays as it is for the whole run: constants of a program.
void upload(Stream stream, void *dst, const void *constant, int64_t bytes);

// Bytes of ones: where a buffer's planned life ends.
void poison(Stream stream, void *dst, int64_t bytes);

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_COPY_CUDA_H_
