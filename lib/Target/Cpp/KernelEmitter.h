// Prints rank.kernels as loops.
#ifndef HYC_LIB_TARGET_CPP_KERNELEMITTER_H
#define HYC_LIB_TARGET_CPP_KERNELEMITTER_H

#include "Names.h"

namespace hyc::cpp {

/// "void add_4096(const float* in0, const float* in1, float* out0)".
std::string kernelSignature(rank::KernelOp kernel);
/// For GPUs: the first parameter is the stream.
std::string cudaKernelSignature(rank::KernelOp kernel);

/// The definition: loops that vectorise, spread over threads when they are long. Each element is computed by itself,
/// and combined in the fixed order of kernels/reduce/op.h, so the bits depend on neither. What combines ends with a
/// parameter `WriteMode mode`, that of the combined results.
llvm::LogicalResult emitKernel(rank::KernelOp kernel, llvm::raw_ostream &os);

/// The same for GPUs: a __global__ function with the same body, and the host function that launches it. Where all
/// operands are walked in one run they move in packs of 16 bytes.
llvm::LogicalResult emitCudaKernel(rank::KernelOp kernel, llvm::raw_ostream &os);

} // namespace hyc::cpp

#endif // HYC_LIB_TARGET_CPP_KERNELEMITTER_H
