// What differs between programs for CPUs and for GPUs: the files around the calls, and who prints those.
#ifndef HYC_LIB_TARGET_CPP_PROGRAMTARGET_H
#define HYC_LIB_TARGET_CPP_PROGRAMTARGET_H

#include "FunctionEmitter.h"
#include "hyc/Target/Cpp.h"

namespace hyc::cpp {

class ProgramTarget {
public:
  virtual ~ProgramTarget() = default;

  // Generated kernels.
  virtual llvm::StringRef kernelsFile() const = 0;
  /// Of kernels.h, from the last include that all targets have to the beginning of the namespace.
  virtual llvm::StringRef kernelsHeader() const = 0;
  /// All before the first kernel.
  virtual std::string kernelsSource() const = 0;
  virtual std::string kernelSignature(rank::KernelOp kernel) const = 0;
  virtual llvm::LogicalResult emitKernel(rank::KernelOp kernel, llvm::raw_ostream &os) const = 0;

  // Functions of a stage.
  virtual FunctionEmitter::MakeCallPrinter *callPrinter() const = 0;
  /// What every file of functions includes: of the standard library, as text, and else by name, in order.
  virtual llvm::StringRef standardHeaders() const = 0;
  virtual llvm::ArrayRef<llvm::StringLiteral> functionHeaders() const = 0;
  /// Behind the statement that puts the learning rate at `address`, "{kHost, 0}".
  virtual std::string afterLearningRate(llvm::StringRef address) const { return ""; }

  // The build file.
  /// All before the executables.
  virtual std::string buildFile(const CppOptions &options) const = 0;
  virtual llvm::StringRef libraries() const = 0;
  /// The library of a stage for a program of one's own, of the same sources.
  virtual std::string embeddedLibrary(const std::string &stage, const std::string &sources) const { return ""; }
};

const ProgramTarget &cpuTarget();
const ProgramTarget &cudaTarget();

} // namespace hyc::cpp

#endif // HYC_LIB_TARGET_CPP_PROGRAMTARGET_H
