// Toolchain: the host compiler and the parts of hyc that generated programs are compiled against.
#ifndef HYC_DRIVER_TOOLCHAIN_H
#define HYC_DRIVER_TOOLCHAIN_H

#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace hyc {

struct Toolchain {
  std::string compiler;                  ///< absolute
  std::vector<std::string> includeDirs;  ///< of hycrt/… and kernels/…
  std::vector<std::string> headerDirs;   ///< what of includeDirs belongs to hyc
  std::vector<std::string> libraries;    ///< absolute, in link order
  int64_t optimization = 3;              ///< -O of generated files
  std::string march = "native";          ///< -march of generated files
  std::vector<std::string> instructions; ///< that those may take, as Linux names them
  std::vector<std::string> linkFlags;    ///< what the libraries need of the system

  std::string nvcc;                       ///< absolute; empty: this hyc is built without CUDA
  std::vector<std::string> cudaLibraries; ///< of programs for GPUs, in the place of `libraries`
  std::vector<int64_t> cudaArchitectures; ///< that hyc's own kernels are compiled for
  std::vector<int64_t> architectures;     ///< that programs are compiled for; none: they are for CPUs
  std::string machines;                   ///< the folder of hyc's machine files
  std::string sources;                    ///< where hyc's own runtime/ and kernels/ lie; may be absent

  /// Finds the runtime beside `executable`: in an installed tree ../include and ../lib, else where hyc was built.
  static Toolchain find(const std::string &executable);

  /// Whether everything is there; an "unavailable" error names what is not.
  llvm::Error check() const;
  bool isForGpu() const { return !architectures.empty(); }
  const std::vector<std::string> &programLibraries() const { return isForGpu() ? cudaLibraries : libraries; }

private:
  llvm::Error checkCuda() const;
};

} // namespace hyc

#endif // HYC_DRIVER_TOOLCHAIN_H
