// Programs for CPUs.
#include "KernelEmitter.h"
#include "KernelFunctions.h"
#include "ProgramTarget.h"

#include "llvm/ADT/ArrayRef.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::cpp;

namespace {

constexpr llvm::StringLiteral kKernelIncludes =
    R"(// Elementwise kernels and reductions, shared by all stages. Generated.
//
// A reduction does `element` for every index of its space and `finish` for every result; kernels/reduce/op.h tells in
// which order elements are combined.
#include "kernels.h"

#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/math/math.h"
#include "kernels/math/truncate.h"
#include "kernels/parallel/team.h"
#include "kernels/philox/op.h"
#include "kernels/reduce/loops.h"

namespace kernels {

namespace math = hyc::kernels::math;
using hyc::kernels::randomWord;
using hyc::kernels::Max, hyc::kernels::Min, hyc::kernels::Prod, hyc::kernels::Sum;
using hyc::kernels::reduceColumns, hyc::kernels::reduceRows;

namespace {

)";

class CpuTarget : public ProgramTarget {
public:
  StringRef kernelsFile() const override { return "kernels.cpp"; }
  StringRef kernelsHeader() const override { return "\nnamespace kernels {\n\n"; }
  std::string kernelsSource() const override { return kKernelIncludes.str() + kernelFunctions(); }
  std::string kernelSignature(rank::KernelOp kernel) const override { return cpp::kernelSignature(kernel); }
  LogicalResult emitKernel(rank::KernelOp kernel, raw_ostream &os) const override {
    return cpp::emitKernel(kernel, os);
  }

  FunctionEmitter::MakeCallPrinter *callPrinter() const override { return &makeCpuCallPrinter; }
  StringRef standardHeaders() const override { return "#include <algorithm>\n#include <cstring>\n#include <limits>\n"; }
  ArrayRef<StringLiteral> functionHeaders() const override {
    static constexpr StringLiteral kHeaders[] = {"addresses.h", "hycrt/collectives.h", "hycrt/offload.h", "kernels.h"};
    return kHeaders;
  }

  StringRef libraries() const override { return "hyc::hycrt hyc::kernels"; }
  std::string embeddedLibrary(const std::string &stage, const std::string &sources) const override {
    return "# For a program of one's own: " + stage + "Program(), which hycrt/run.h runs.\nadd_library(" + stage +
           "_embedded STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:kernels>" + sources + ")\ntarget_compile_definitions(" +
           stage + "_embedded PRIVATE HYC_EMBEDDED)\ntarget_link_libraries(" + stage +
           "_embedded PUBLIC hyc::hycrt hyc::kernels)\n";
  }
  std::string buildFile(const CppOptions &options) const override {
    std::string text;
    llvm::raw_string_ostream os(text);
    os << "# Builds the programs of " << cpp::oneLine(options.name)
       << " against the installed hyc package. Generated.\n"
       << "cmake_minimum_required(VERSION 3.25)\nproject(programs LANGUAGES CXX)\n\n"
       << "if(NOT CMAKE_BUILD_TYPE)\n  set(CMAKE_BUILD_TYPE Release)\nendif()\n"
       << "find_package(hyc REQUIRED)\n\n"
       << "set(CMAKE_CXX_STANDARD 20)\n"
       << "# Never contracted: the same values must come out whatever the compiler fuses.\n"
       << "add_compile_options(-O3 -mtune=generic -march=" << options.march
       << " -ffp-contract=off -fno-math-errno -fno-trapping-math)\n"
       << "set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/../bin)\n\n"
       << "add_library(kernels OBJECT kernels.cpp)\ntarget_link_libraries(kernels PUBLIC hyc::hycrt hyc::kernels)\n";
    return text;
  }
};

} // namespace

const ProgramTarget &cpp::cpuTarget() {
  static const CpuTarget target;
  return target;
}
