// What a rank has beside its tensors: scratch memory of kernels, and fixed costs.
//
// Scratch memory is what library kernels and, on GPUs, generated reductions want beside their operands. It comes out of
// an arena, so that a step allocates nothing; how much is part of each kernel's description
// (kernels/<op>/description.h).
#ifndef HYC_ANALYSIS_WORKSPACES_H
#define HYC_ANALYSIS_WORKSPACES_H

#include "dialects/Rank/RankDialect.h"

namespace hyc {

/// A module's attribute that names the target of its programs, "cuda"; without it they are for CPUs.
inline constexpr llvm::StringLiteral kTargetAttribute = "rank.target";

/// Bytes that a call of a rank function wants where it runs on up to `threads` threads; 0 for most.
int64_t workspaceBytes(mlir::Operation *call, int64_t threads);

/// Of the gradient of a norm over `rows` rows of `cols`: bytes of the f32 sums over blocks of rows, of `vectors`
/// vectors of a row's length (2 of layer_norm, 1 of rms_norm).
int64_t rowSumsBytes(int64_t rows, int64_t cols, int64_t vectors, bool onGpu);

/// Of the gradient of a group norm of x: bytes of the f32 sums over channels.
int64_t groupNormWorkspaceBytes(llvm::ArrayRef<int64_t> shape, bool onGpu);

/// convolutionColumns of kernels/convolution/op.h; channels and outputs are those of one group.
struct ConvolutionShape {
  int64_t batch, groups, channels, outputs, kernels, places;
};
int64_t convolutionColumns(const ConvolutionShape &shape);

/// reducePartialCount of kernels/reduce/op.h: results of blocks that wait for their order.
int64_t cudaReductionPartials(bool isRows, int64_t outer, int64_t steps, int64_t inner);
/// Bytes that a rank.kernel wants on GPUs: the partial results of all its combinations, 0 where each result has one
/// block.
int64_t cudaKernelWorkspaceBytes(rank::KernelOp kernel);

/// What a rank of the CPU target has besides its arenas: code, libraries, heap, the tables of its channels, and of each
/// thread the part of its stack that is touched. Declared from measurements, which test/e2e/MemoryTest.cpp repeats; the
/// widest program that was measured is the one declared, 14.16 MiB on two threads, of which libcrypto, by which
/// ranks prove to each other that they are of one job, is up to 3.5. That was when programs linked oneDNN; the same
/// ones take 2 MiB less since, which is left until all of them are measured again.
int64_t fixedBytes(int64_t threads);

/// What a program takes to read the next micro-batch while one is computed: room for the inputs, and a thread.
int64_t readAheadBytes(rank::ProgramOp program);

} // namespace hyc

#endif // HYC_ANALYSIS_WORKSPACES_H
