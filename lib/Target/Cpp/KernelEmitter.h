// Prints rank.kernels as loops.
#ifndef HYC_LIB_TARGET_CPP_KERNELEMITTER_H
#define HYC_LIB_TARGET_CPP_KERNELEMITTER_H

#include "Names.h"

namespace hyc::cpp {

/// "void add_4096(const float* in0, const float* in1, float* out0)".
std::string kernelSignature(rank::KernelOp kernel);

/// The definition: a loop nest that vectorises, spread over threads when it is long. Each element is computed by
/// itself, so the bits depend on neither.
llvm::LogicalResult emitKernel(rank::KernelOp kernel, llvm::raw_ostream &os);

} // namespace hyc::cpp

#endif // HYC_LIB_TARGET_CPP_KERNELEMITTER_H
