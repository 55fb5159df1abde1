// What a rank has beside its tensors: scratch memory of kernels, and fixed costs.
//
// Scratch memory is what library kernels and, on GPUs, generated reductions want beside their operands. It comes out of an arena, so that a step allocates
// nothing; how much is part of each kernel's contract (kernels/*/op.h, kernels/gemm/workspace.h), which a test holds
// these figures to.
#ifndef HYC_ANALYSIS_WORKSPACES_H
#define HYC_ANALYSIS_WORKSPACES_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/StringRef.h"

namespace hyc {

/// A module's attribute that names the target of its programs, "cuda"; without it they are for CPUs.
inline constexpr llvm::StringLiteral kTargetAttribute = "rank.target";

/// Bytes that a call of a rank function wants where it runs on up to `threads` threads; 0 for most.
int64_t workspaceBytes(mlir::Operation *call, int64_t threads);

enum class KernelType { F32, BF16, F16, F8 };

/// A product of A and B of one type into C of the same type, or of f32.
struct GemmShape {
  int64_t m, n, k, batch;
  KernelType type;
  bool intoF32, hasBias;
};
/// gemmWorkspaceBytes and gemmNarrowWorkspaceBytes of kernels/gemm.
int64_t gemmWorkspaceBytes(const GemmShape &shape, int64_t threads);

/// attentionBackwardWorkspaceBytes of kernels/attention/op.h.
struct AttentionShape {
  int64_t batch, keyLength, kvHeads, headDim;
  KernelType type;
};
int64_t attentionGradientWorkspaceBytes(const AttentionShape &shape, int64_t threads);

/// convolutionColumns of kernels/convolution/op.h; channels and outputs are those of one group.
struct ConvolutionShape {
  int64_t groups, channels, outputs, kernels, places;
};
int64_t convolutionColumns(const ConvolutionShape &shape);

/// On GPUs: kGemmWorkspaceBytes of kernels/gemm/cuda.h for any product, attentionBackwardWorkspaceBytes of
/// kernels/attention/cuda.h.
inline constexpr int64_t kCudaGemmWorkspaceBytes = int64_t(32) << 20;
/// Float8Scratch of kernels/gemm/cuda_fp8.h, whatever the pair of 8-bit types.
int64_t cudaFloat8WorkspaceBytes(const GemmShape &shape);
int64_t cudaAttentionGradientWorkspaceBytes(int64_t batch, int64_t heads, int64_t queryLength);

/// embeddingGradWorkspaceBytes of kernels/embedding/cuda.h.
int64_t cudaEmbeddingGradientWorkspaceBytes(int64_t tokens);

/// reducePartialCount of kernels/reduce/op.h: results of blocks that wait for their order.
int64_t cudaReductionPartials(bool isRows, int64_t outer, int64_t steps, int64_t inner);
/// Bytes that a rank.kernel wants on GPUs: the partial results of all its combinations, 0 where each result has one
/// block.
int64_t cudaKernelWorkspaceBytes(mlir::Operation *kernel);

/// What a rank of the CPU target has besides its arenas: code, libraries, heap, the tables of its channels, and of each
/// thread the part of its stack that is touched. Declared from measurements, which test/e2e/MemoryTest.cpp repeats; the
/// widest program that was measured is the one declared.
int64_t fixedBytes(int64_t threads);

} // namespace hyc

#endif // HYC_ANALYSIS_WORKSPACES_H
