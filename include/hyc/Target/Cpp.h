// Prints rank programs as C++: dull, and meant to be read.
//
//   src/kernels.h, kernels.cpp      elementwise kernels and reductions, shared by all stages
//   src/addresses.h                 typed addresses
//   src/stageS.h                    names of arenas and collectives
//   src/stageS.cpp                  the program's tables and main
//   src/stageS_forward.cpp …        one file a function of the schedule: forward, backward, reduce, apply
//   src/CMakeLists.txt              builds bin/stageS against the installed package
//
// For GPUs the same files call the kernels of kernels/<op>/cuda.h on the program's stream, with numbers that a step
// computes left in device memory; only kernels.cu, in the place of kernels.cpp, is for nvcc.
#ifndef HYC_TARGET_CPP_H
#define HYC_TARGET_CPP_H

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hyc {

struct CppOptions {
  std::string name = "model";         // of the job: programs are called NAME.stageS
  uint64_t planHash = 0;              // equal in all programs of a job and in its manifest
  std::vector<int64_t> architectures; // of GPUs, as in 90; none: programs for CPUs
  std::string march = "native";       // of the CPU, as compilers name it
};

/// Adds the files, by name relative to src/. The module has passed hyc-verify-rank. What a target has no kernel for is
/// an error at the op.
llvm::LogicalResult emitPrograms(mlir::ModuleOp module, const CppOptions &options,
                                 std::map<std::string, std::string> &files);

/// The files that parameters are read from; emitted programs refer to them by position, and the manifest lists them.
std::vector<std::string> collectModelFiles(mlir::ModuleOp module);

/// Tokens of one sample of programs of phase 5; 0 where no input is a sequence of tokens.
int64_t tokensOfSample(mlir::ModuleOp module);

/// Makes hyc-emit-cpp known to hyc-opt.
void registerEmitCppPass();

} // namespace hyc

#endif // HYC_TARGET_CPP_H
