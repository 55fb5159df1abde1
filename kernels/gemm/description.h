// What programs know of matrix products. They are an op of their own, rank.gemm, since passes look into them: so there
// is no row, but the headers and the scratch memory by the types of the operands.
#ifndef HYC_KERNELS_GEMM_DESCRIPTION_H_
#define HYC_KERNELS_GEMM_DESCRIPTION_H_

#include "kernels/description.h"
#include "kernels/gemm/cuda_fp8.h"
#include "kernels/gemm/fp8.h"
#include "kernels/gemm/op.h"
#include "kernels/gemm/workspace.h"

namespace hyc::kernels::described::gemm {

inline constexpr View<KernelDescription> kKernels;

// Of a product of A and B of one type, or of any two 8-bit ones.
constexpr const char *header(ElementType type, bool onGpu) {
  if (type == ElementType::kF8) return onGpu ? "kernels/gemm/cuda_fp8.h" : "kernels/gemm/fp8.h";
  return onGpu ? "kernels/gemm/cuda.h" : "kernels/gemm/op.h";
}

// Into C of the operands' type (of bf16, where they are of 8 bits), or of f32.
constexpr int64_t workspaceBytes(const GemmDesc &desc, ElementType type, bool intoF32, int64_t most) {
  const int threads = static_cast<int>(most);
  const auto narrow = [&](auto zero) {
    using T = decltype(zero);
    return static_cast<int64_t>(intoF32 ? gemmNarrowWorkspaceBytes<T, float>(desc, threads)
                                        : gemmNarrowWorkspaceBytes<T, T>(desc, threads));
  };
  switch (type) {
    case ElementType::kBf16:
      return narrow(Bf16());
    case ElementType::kF16:
      return narrow(F16());
    case ElementType::kF8:
      return Float8Workspace(desc, threads, intoF32).bytes();
    default:
      return static_cast<int64_t>(gemmWorkspaceBytes(desc, threads));
  }
}

constexpr int64_t cudaWorkspaceBytes(const GemmDesc &desc, ElementType type) {
  return type == ElementType::kF8 ? cuda::Float8Scratch(desc).bytes : cuda::kGemmWorkspaceBytes;
}

}  // namespace hyc::kernels::described::gemm

#endif  // HYC_KERNELS_GEMM_DESCRIPTION_H_
