// Which file holds what.
#include "FunctionEmitter.h"
#include "KernelEmitter.h"
#include "TableEmitter.h"

#include "dialects/Hyc/HycDialect.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::cpp;

namespace {

constexpr llvm::StringLiteral kAddresses = R"(// Typed addresses. Generated; the same for every model.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/narrow_float.h"

inline hyc::kernels::Bf16* bf16(std::byte* address) { return reinterpret_cast<hyc::kernels::Bf16*>(address); }
inline hyc::kernels::F16* f16(std::byte* address) { return reinterpret_cast<hyc::kernels::F16*>(address); }
inline hyc::kernels::E4m3* e4m3(std::byte* address) { return reinterpret_cast<hyc::kernels::E4m3*>(address); }
inline hyc::kernels::E5m2* e5m2(std::byte* address) { return reinterpret_cast<hyc::kernels::E5m2*>(address); }
inline float* f32(std::byte* address) { return reinterpret_cast<float*>(address); }
inline double* f64(std::byte* address) { return reinterpret_cast<double*>(address); }
inline int32_t* i32(std::byte* address) { return reinterpret_cast<int32_t*>(address); }
inline int64_t* i64(std::byte* address) { return reinterpret_cast<int64_t*>(address); }
inline int8_t* i8(std::byte* address) { return reinterpret_cast<int8_t*>(address); }
inline int16_t* i16(std::byte* address) { return reinterpret_cast<int16_t*>(address); }
inline uint64_t* u64(std::byte* address) { return reinterpret_cast<uint64_t*>(address); }
inline uint32_t* u32(std::byte* address) { return reinterpret_cast<uint32_t*>(address); }
inline uint16_t* u16(std::byte* address) { return reinterpret_cast<uint16_t*>(address); }
inline uint8_t* u8(std::byte* address) { return reinterpret_cast<uint8_t*>(address); }
)";

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

/// The same for CPUs and for GPUs, whose compiler wants to be told.
constexpr llvm::StringLiteral kKernelFunctions = R"(// x · Φ(x), and its derivative.
inline float gelu(float x) { return 0.5f * x * (1.0f + math::erf(x * 0.707106781f)); }
inline float geluGrad(float dy, float x) {
  const float cumulative = 0.5f * (1.0f + math::erf(x * 0.707106781f));
  const float density = 0.398942280f * math::exp(-0.5f * x * x);
  return dy * (cumulative + x * density);
}
// 0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))), and its derivative.
inline float geluTanh(float x) {
  return 0.5f * x * (1.0f + math::tanh(0.797884561f * (x + 0.044715f * x * x * x)));
}
inline float geluTanhGrad(float dy, float x) {
  const float t = math::tanh(0.797884561f * (x + 0.044715f * x * x * x));
  const float slope = 0.797884561f * (1.0f + 0.134145f * x * x);
  return dy * (0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * slope);
}
template <typename T>
inline T relu(T x) {
  return x < 0 ? T(0) : x;
}
// NaN if either is.
template <typename T>
inline T maximum(T x, T y) {
  return x > y || x != x ? x : y;
}
template <typename T>
inline T minimum(T x, T y) {
  return x < y || x != x ? x : y;
}
template <typename T>
inline T absolute(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::fabs(x);
  else return x < 0 ? T(-x) : x;
}
// Of integers: y is not negative; what does not fit wraps around.
template <typename T>
inline T power(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) return std::pow(x, y);
  uint64_t result = 1, base = static_cast<uint64_t>(x);
  for (uint64_t left = static_cast<uint64_t>(y); left > 0; left >>= 1, base *= base) result *= (left & 1) ? base : 1;
  return static_cast<T>(result);
}
// With the sign of x; of integers y is neither 0 nor, where x is the lowest, -1.
template <typename T>
inline T remainder(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) return std::fmod(x, y);
  else return static_cast<T>(x % y);
}
// NaN stays NaN.
template <typename T>
inline T sign(T x) {
  return x > 0 ? T(1) : x < 0 ? T(-1) : x;
}
// log(1 + e^x)
template <typename T>
inline T softplus(T x) {
  return (x > 0 ? x : T(0)) + std::log1p(std::exp(-std::fabs(x)));
}
template <typename T>
inline void write(T& out, T value, WriteMode mode) {
  out = mode == WriteMode::kAccumulate ? T(out + value) : value;  // of 16 bits: added in f32, rounded once
}

}  // namespace

)";

constexpr llvm::StringLiteral kCudaKernelIncludes =
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
#include "kernels/philox/op.h"
#include "kernels/reduce/cuda.h"

namespace kernels {

namespace math = hyc::kernels::math;
using hyc::kernels::randomWord;
using hyc::kernels::Max, hyc::kernels::Min, hyc::kernels::Prod, hyc::kernels::Sum;

namespace {

)";

constexpr llvm::StringLiteral kCudaStageIncludes = R"(
#include "addresses.h"
#include "hycrt/accelerator.h"
#include "hycrt/collectives.h"
#include "hycrt/offload.h"
#include "kernels.h"
#include "kernels/adamw/cuda.h"
#include "kernels/argsort/cuda.h"
#include "kernels/attention/cuda.h"
#include "kernels/convolution/cuda.h"
#include "kernels/copy/cuda.h"
#include "kernels/cross_entropy/cuda.h"
#include "kernels/cumsum/cuda.h"
#include "kernels/embedding/cuda.h"
#include "kernels/fp8_scale/cuda.h"
#include "kernels/gather/cuda.h"
#include "kernels/gemm/cuda.h"
#include "kernels/gemm/cuda_fp8.h"
#include "kernels/gradient_scale/cuda.h"
#include "kernels/lamb/cuda.h"
#include "kernels/layer_norm/cuda.h"
#include "kernels/lion/cuda.h"
#include "kernels/pooling/cuda.h"
#include "kernels/rms_norm/cuda.h"
#include "kernels/rope/cuda.h"
#include "kernels/sgd/cuda.h"
#include "kernels/sum_of_squares/cuda.h"
)";

constexpr llvm::StringLiteral kStageIncludes = R"(
#include <algorithm>
#include <cstring>
#include <limits>

#include "addresses.h"
#include "hycrt/collectives.h"
#include "hycrt/offload.h"
#include "kernels.h"
#include "kernels/adamw/op.h"
#include "kernels/argsort/op.h"
#include "kernels/attention/op.h"
#include "kernels/convolution/op.h"
#include "kernels/copy/op.h"
#include "kernels/cross_entropy/op.h"
#include "kernels/cumsum/op.h"
#include "kernels/embedding/op.h"
#include "kernels/exact_sum/op.h"
#include "kernels/fp8_scale/op.h"
#include "kernels/gather/op.h"
#include "kernels/gemm/fp8.h"
#include "kernels/gemm/op.h"
#include "kernels/gradient_scale/op.h"
#include "kernels/lamb/op.h"
#include "kernels/layer_norm/op.h"
#include "kernels/lion/op.h"
#include "kernels/loss_scale/op.h"
#include "kernels/permute/op.h"
#include "kernels/pooling/op.h"
#include "kernels/reduce/op.h"
#include "kernels/rms_norm/op.h"
#include "kernels/rope/op.h"
#include "kernels/sgd/op.h"
#include "kernels/shard_slice/op.h"
#include "kernels/sum_of_squares/op.h"
)";

class ProgramPrinter {
public:
  ProgramPrinter(ModuleOp module, const CppOptions &options, std::map<std::string, std::string> &files)
      : module(module), options(options), files(files) {}

  LogicalResult emit();

private:
  LogicalResult emitKernels();
  LogicalResult emitStage(rank::ProgramOp program);
  LogicalResult emitFunctionFile(rank::ProgramOp program, rank::FuncOp func);
  void emitBuild();
  void emitCudaBuild();
  bool onGpu() const { return !options.architectures.empty(); }

  ModuleOp module;
  const CppOptions &options;
  std::map<std::string, std::string> &files;
};

/// The functions that bodies call.
static std::string functionsOfKernels(bool onGpu) {
  std::string text = kKernelFunctions.str();
  if (!onGpu)
    return text;
  for (size_t at = text.find("\ninline "); at != std::string::npos; at = text.find("\ninline ", at + 1))
    text.insert(at + 1, "__device__ ");
  return text;
}

LogicalResult ProgramPrinter::emitKernels() {
  std::string header = "// Elementwise kernels and reductions: one loop nest each. Generated.\n#pragma once\n\n"
                       "#include <cstdint>\n\n#include \"kernels/narrow_float.h\"\n#include "
                       "\"kernels/write_mode.h\"\n\nnamespace kernels {\n\n"
                       "using hyc::kernels::WriteMode;\n\n";
  if (onGpu())
    header = StringRef(header)
                 .drop_back(StringRef("namespace kernels {\n\nusing hyc::kernels::WriteMode;\n\n").size())
                 .str() +
             "#include \"kernels/cuda/stream.h\"\n\nnamespace kernels {\n\nnamespace cuda = hyc::kernels::cuda;\n"
             "using hyc::kernels::WriteMode;\n\n";
  std::string source = (onGpu() ? kCudaKernelIncludes : kKernelIncludes).str() + functionsOfKernels(onGpu());
  llvm::raw_string_ostream headerStream(header), sourceStream(source);
  for (auto kernel : module.getOps<rank::KernelOp>()) {
    headerStream << kernelSignature(kernel, onGpu()) << ";\n";
    if (failed(onGpu() ? emitCudaKernel(kernel, sourceStream) : emitKernel(kernel, sourceStream)))
      return failure();
  }
  files["kernels.h"] = header + "\n}  // namespace kernels\n";
  files[onGpu() ? "kernels.cu" : "kernels.cpp"] = source + "}  // namespace kernels\n";
  return success();
}

/// The shared functions that `func` calls, each before whoever calls it.
static void collectCallees(rank::ProgramOp program, rank::FuncOp func, SmallVectorImpl<rank::FuncOp> &callees) {
  for (auto invoke : func.getBlock().getOps<rank::InvokeOp>()) {
    auto callee = program.lookupSymbol<rank::FuncOp>(invoke.getCallee());
    if (!callee || llvm::is_contained(callees, callee))
      continue;
    collectCallees(program, callee, callees);
    callees.push_back(callee);
  }
}

/// "stage0_forward.cpp", "stage0_forward1.cpp" of the next virtual stage.
static std::string fileOf(rank::ProgramOp program, StringRef function) {
  return "stage" + std::to_string(program.getStage()) + "_" + camelCase(function) + ".cpp";
}

/// Whether the runtime calls it with a micro-batch.
static bool isOfChunk(rank::FuncOp func) { return func.getSymName() != "reduce" && func.getSymName() != "apply"; }

/// "runForward1(hycrt::Context& ctx, const hycrt::Call& call)"
static std::string runnerSignature(rank::FuncOp func) {
  std::string arguments = isOfChunk(func) ? ", const hycrt::Call& call" : "";
  if (func.getSymName() == "apply")
    arguments = ", float learningRate";
  return runnerName(func.getSymName()) + "(hycrt::Context& ctx" + arguments + ")";
}

LogicalResult ProgramPrinter::emitFunctionFile(rank::ProgramOp program, rank::FuncOp func) {
  StringRef name = func.getSymName();
  std::string stage = "stage" + std::to_string(program.getStage()), text;
  llvm::raw_string_ostream os(text);
  os << "// " << cpp::oneLine(options.name) << ", stage " << program.getStage() << ": " << name << ". Generated.\n";
  os << "#include \"" << stage << ".h\"\n"
     << (onGpu() ? kCudaStageIncludes : kStageIncludes) << "\nusing namespace hyc::kernels;\n\n";
  SmallVector<rank::FuncOp> functions;
  collectCallees(program, func, functions);
  functions.push_back(func);
  dist::MeshOp mesh = dist::MeshOp::find(module);
  for (rank::FuncOp each : functions)
    if (failed(FunctionEmitter(each, mesh, onGpu()).emit(os, true)))
      return failure();
  os << "void " << runnerSignature(func) << " {";
  if (isOfChunk(func)) {
    os << " " << camelCase(name) << "(ctx, call); }\n";
  } else {
    // Neither has a micro-batch.
    os << "\n";
    if (auto lr = program.lookupSymbol<rank::ScalarOp>("lr"); lr && name == "apply")
      os << "  *ctx.ptr<float>(" << constantName(lr.getArena()) << ", " << *lr.getOffset() << ") = learningRate;\n"
         << (onGpu() ? "  if (hycrt::Status status = ctx.accelerator()->upload({" + constantName(lr.getArena()) + ", " +
                           std::to_string(*lr.getOffset()) +
                           "}, sizeof(float)); !status.ok())\n    ctx.fail(std::move(status));\n"
                     : std::string());
    os << "  " << name << "(ctx, hycrt::Call{});\n}\n";
  }
  files[fileOf(program, name)] = text;
  return success();
}

LogicalResult ProgramPrinter::emitStage(rank::ProgramOp program) {
  std::string stage = "stage" + std::to_string(program.getStage()), header, tables;
  llvm::raw_string_ostream headerStream(header), tableStream(tables);
  headerStream << "// Stage " << program.getStage() << " of " << cpp::oneLine(options.name)
               << ": what its files share. Read stage" << program.getStage()
               << "_forward.cpp first. Generated.\n#pragma once\n\n"
               << "#include \"hycrt/context.h\"\n"
               << (program.getOps<rank::SiteOp>().empty() ? "" : "#include \"hycrt/finite.h\"\n")
               << "#include \"hycrt/program.h\"\n\n";
  emitNames(program, headerStream);
  SmallVector<rank::FuncOp> functions;
  for (const std::string &name : program.getFunctionNames())
    functions.push_back(program.lookupSymbol<rank::FuncOp>(name));
  for (rank::FuncOp func : functions)
    headerStream << "void " << runnerSignature(func) << ";\n";
  files[stage + ".h"] = header;

  tableStream << "// Stage " << program.getStage() << " of " << cpp::oneLine(options.name)
              << ": its tables, and main. Generated.\n"
              << "#include \"" << stage << ".h\"\n\n#include \"hycrt/philox.h\"\n#include \"hycrt/run.h\"\n\n";
  if (failed(emitTables(program, options, collectModelFiles(module), tableStream)))
    return failure();
  files[stage + ".cpp"] = tables;
  for (rank::FuncOp func : functions)
    if (failed(emitFunctionFile(program, func)))
      return failure();
  return success();
}

void ProgramPrinter::emitBuild() {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "# Builds the programs of " << cpp::oneLine(options.name) << " against the installed hyc package. Generated.\n"
     << "cmake_minimum_required(VERSION 3.25)\nproject(programs LANGUAGES CXX)\n\n"
     << "if(NOT CMAKE_BUILD_TYPE)\n  set(CMAKE_BUILD_TYPE Release)\nendif()\n"
     << "find_package(hyc REQUIRED)\n\n"
     << "set(CMAKE_CXX_STANDARD 20)\n"
     << "# Never contracted: the same values must come out whatever the compiler fuses.\n"
     << "add_compile_options(-O3 -march=native -ffp-contract=off -fno-math-errno -fno-trapping-math)\n"
     << "set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/../bin)\n\n"
     << "add_library(kernels OBJECT kernels.cpp)\ntarget_link_libraries(kernels PUBLIC hyc::hycrt hyc::kernels)\n";
  for (auto program : module.getOps<rank::ProgramOp>()) {
    std::string stage = "stage" + std::to_string(program.getStage());
    std::string sources = "\n  " + stage + ".cpp";
    for (const std::string &name : program.getFunctionNames())
      sources += " " + fileOf(program, name);
    os << "\nadd_executable(" << stage << sources << ")\ntarget_link_libraries(" << stage
       << " PRIVATE kernels hyc::hycrt hyc::kernels)\n"
       << "# For a program of one's own: " << stage << "Program(), which hycrt/run.h runs.\n"
       << "add_library(" << stage << "_embedded STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:kernels>" << sources << ")\n"
       << "target_compile_definitions(" << stage << "_embedded PRIVATE HYC_EMBEDDED)\n"
       << "target_link_libraries(" << stage << "_embedded PUBLIC hyc::hycrt hyc::kernels)\n";
  }
  files["CMakeLists.txt"] = text;
}

/// Against the installed package, or against the sources beside it in hyc/ (hyc-compile --emit=source).
void ProgramPrinter::emitCudaBuild() {
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
  for (auto program : module.getOps<rank::ProgramOp>()) {
    std::string stage = "stage" + std::to_string(program.getStage());
    os << "\nadd_executable(" << stage << "\n  " << stage << ".cpp";
    for (const std::string &name : program.getFunctionNames())
      os << " " << fileOf(program, name);
    os << ")\ntarget_link_libraries(" << stage << " PRIVATE kernels hyc::hycrt_cuda)\n";
  }
  files["CMakeLists.txt"] = text;
}

LogicalResult ProgramPrinter::emit() {
  if (!dist::MeshOp::find(module))
    return module.emitError("has no dist.mesh; expected a module of phase 5");
  files["addresses.h"] = kAddresses.str();
  if (failed(emitKernels()))
    return failure();
  for (auto program : module.getOps<rank::ProgramOp>())
    if (failed(emitStage(program)))
      return failure();
  onGpu() ? emitCudaBuild() : emitBuild();
  return success();
}

} // namespace

int64_t hyc::tokensOfSample(ModuleOp module) {
  for (auto program : module.getOps<rank::ProgramOp>())
    for (auto input : program.getOps<rank::InputOp>()) {
      ArrayRef<int64_t> shape = input.getBufferType().getShape();
      if (!shape.empty() && llvm::is_contained({"token", "next_token"}, input.getSource()))
        return input.getBufferType().getNumElements() / std::max<int64_t>(1, shape[0]);
    }
  return 0;
}

std::vector<std::string> hyc::collectModelFiles(ModuleOp module) {
  std::vector<std::string> files;
  for (auto program : module.getOps<rank::ProgramOp>())
    for (auto state : program.getOps<rank::StateOp>())
      if (auto file = dyn_cast<FileAttr>(state.getInit()); file && !llvm::is_contained(files, file.getPath()))
        files.push_back(file.getPath().str());
  return files;
}

LogicalResult hyc::emitPrograms(ModuleOp module, const CppOptions &options, std::map<std::string, std::string> &files) {
  return ProgramPrinter(module, options, files).emit();
}
