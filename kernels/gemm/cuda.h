// Matrix products on GPUs by cuBLASLt: the desc of op.h, row-major, bias included; products of 16-bit types are summed
// in f32, those of f32 without TF32 unless allowTf32 says so.
//
// The surprise: bits are the library's and depend on the shape, unlike the CPU's. The algorithm of a shape is asked for
// at its first call and kept for the rest of the process, so that every step has the same bits. One thread calls.
#ifndef HYC_KERNELS_GEMM_CUDA_H_
#define HYC_KERNELS_GEMM_CUDA_H_

#include "kernels/cuda/stream.h"
#include "kernels/gemm/op.h"

namespace hyc::kernels::cuda {

// What NVIDIA recommends for Hopper; every product may use all of it.
constexpr int64_t kGemmWorkspaceBytes = int64_t{32} << 20;

// workspace: kGemmWorkspaceBytes of device memory. `bias` is read only if desc.hasBias.
void gemm(Stream stream, const GemmDesc &desc, const float *a, const float *b, const float *bias, float *c,
          void *workspace);
void gemm(Stream stream, const GemmDesc &desc, const Bf16 *a, const Bf16 *b, const Bf16 *bias, Bf16 *c,
          void *workspace);
void gemm(Stream stream, const GemmDesc &desc, const Bf16 *a, const Bf16 *b, const Bf16 *bias, float *c,
          void *workspace);
void gemm(Stream stream, const GemmDesc &desc, const F16 *a, const F16 *b, const F16 *bias, F16 *c, void *workspace);
void gemm(Stream stream, const GemmDesc &desc, const F16 *a, const F16 *b, const F16 *bias, float *c, void *workspace);

// Whether products of f32 may round their factors to TF32, ten bits of fraction, in exchange for speed; at first they
// may not. Of calls from then on.
void allowTf32(bool isAllowed);

// What went wrong first, with the shape; null: nothing so far.
const char *gemmFailure();
// Of products that were only to be recorded, and were not.
void forgetGemmFailure();

}  // namespace hyc::kernels::cuda

#endif  // HYC_KERNELS_GEMM_CUDA_H_
