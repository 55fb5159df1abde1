// Programs for GPUs.
#include "KernelEmitter.h"
#include "KernelFunctions.h"
#include "ProgramTarget.h"

#include "llvm/ADT/ArrayRef.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::cpp;

namespace {

constexpr llvm::StringLiteral kKernelIncludes =
    R"(// Elementwise kernels and reductions for GPUs, shared by all stages. Generated.
//
// A reduction does `load`, `element` and `store` for every index of its space and `finish` for every result
// (kernels/reduce/cuda.h); kernels/reduce/op.h tells in which order elements are combined.
#include "kernels.h"

#include <cmath>
#include <limits>

#include "kernels/cuda/device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/launch.h"
#include "kernels/math/math.h"
#include "kernels/math/narrow.h"
#include "kernels/math/truncate.h"
#include "kernels/philox/op.h"
#include "kernels/reduce/cuda.h"

namespace kernels {

namespace math = hyc::kernels::math;
using hyc::kernels::randomWord;
using hyc::kernels::Max, hyc::kernels::Min, hyc::kernels::Prod, hyc::kernels::Sum;

namespace {

)";

class CudaTarget : public ProgramTarget {
public:
  StringRef kernelsFile() const override { return "kernels.cu"; }
  StringRef kernelsHeader() const override {
    return "\n#include \"kernels/cuda/stream.h\"\n\nnamespace kernels {\n\nnamespace cuda = hyc::kernels::cuda;\n";
  }
  /// The compiler of GPUs' programs wants to be told which functions are for them.
  std::string kernelsSource() const override {
    std::string text = kernelFunctions();
    for (size_t at = text.find("\ninline "); at != std::string::npos; at = text.find("\ninline ", at + 1))
      text.insert(at + 1, "__device__ ");
    return kKernelIncludes.str() + text;
  }
  std::string kernelSignature(rank::KernelOp kernel) const override { return cudaKernelSignature(kernel); }
  LogicalResult emitKernel(rank::KernelOp kernel, raw_ostream &os) const override { return emitCudaKernel(kernel, os); }

  FunctionEmitter::MakeCallPrinter *callPrinter() const override { return &makeCudaCallPrinter; }
  StringRef standardHeaders() const override { return "#include <limits>\n"; }
  ArrayRef<StringLiteral> functionHeaders() const override {
    static constexpr StringLiteral kHeaders[] = {"addresses.h", "hycrt/accelerator.h", "hycrt/collectives.h",
                                                 "hycrt/offload.h", "kernels.h"};
    return kHeaders;
  }
  std::string afterLearningRate(StringRef address) const override {
    return ("  if (hycrt::Status status = ctx.accelerator()->upload(" + address +
            ", sizeof(float)); !status.ok())\n    ctx.fail(std::move(status));\n")
        .str();
  }

  StringRef libraries() const override { return "hyc::hycrt_cuda"; }
  /// Against the installed package, or against the sources beside it in hyc/ (hyc-compile --emit=source).
  std::string buildFile(const CppOptions &options) const override {
    std::string text, list;
    for (int64_t architecture : options.architectures)
      list += (list.empty() ? "" : ";") + std::to_string(architecture) + "-real";
    llvm::raw_string_ostream os(text);
    os << "# Builds the programs of " << cpp::oneLine(options.name)
       << " for GPUs: of hyc's sources in ../hyc where they are there, else of the installed hyc package. Generated.\n"
       << "cmake_minimum_required(VERSION 3.25)\nproject(programs LANGUAGES CXX)\n\n"
       << "if(NOT CMAKE_BUILD_TYPE)\n  set(CMAKE_BUILD_TYPE Release)\nendif()\n"
       << "if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)\n  set(CMAKE_CUDA_ARCHITECTURES \"" << list << "\")\nendif()\n"
       << "if(NOT CMAKE_CUDA_COMPILER AND EXISTS /usr/local/cuda/bin/nvcc)\n"
       << "  set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)\nendif()\nenable_language(CUDA)\n"
       << "set(CMAKE_CXX_STANDARD 20)\nset(CMAKE_CUDA_STANDARD 20)\n"
       << "if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/../hyc)\n"
       << "  add_subdirectory(${CMAKE_CURRENT_SOURCE_DIR}/../hyc ${CMAKE_CURRENT_BINARY_DIR}/hyc)\nelse()\n"
       << "  find_package(hyc REQUIRED)\nendif()\n"
       << "# Never contracted: the same values must come out whatever the compiler fuses.\n"
       << "add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)\n"
       << "set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/../bin)\n\n"
       << "add_library(kernels OBJECT kernels.cu)\n"
       << "target_compile_options(kernels PRIVATE --expt-relaxed-constexpr -fmad=false -diag-suppress=177)\n"
       << "target_link_libraries(kernels PUBLIC hyc::hycrt_cuda)\n";
    return text;
  }
};

} // namespace

const ProgramTarget &cpp::cudaTarget() {
  static const CudaTarget target;
  return target;
}
