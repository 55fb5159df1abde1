// Which file holds what.
#include "FunctionEmitter.h"
#include "ProgramTarget.h"
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

// GCC 12 gets copies of values that it sees wrong where vectors have 512 bits: of 1, 1, 1, 1, 0, 0, 0, 0 it makes ones.
inline const void* hidden(const void* values) {
  asm("" : "+r"(values));
  return values;
}
)";

class ProgramPrinter {
public:
  ProgramPrinter(ModuleOp module, const CppOptions &options, std::map<std::string, std::string> &files)
      : module(module), options(options), target(options.architectures.empty() ? cpuTarget() : cudaTarget()),
        files(files) {}

  LogicalResult emit();

private:
  LogicalResult emitKernels();
  LogicalResult emitStage(rank::ProgramOp program);
  LogicalResult emitFunctionFile(rank::ProgramOp program, rank::FuncOp func);
  /// The programs of build files: "add_executable(stage0 …)".
  std::string executables();

  ModuleOp module;
  const CppOptions &options;
  const ProgramTarget &target;
  std::map<std::string, std::string> &files;
};

LogicalResult ProgramPrinter::emitKernels() {
  std::string header = "// Elementwise kernels and reductions: one loop nest each. Generated.\n#pragma once\n\n"
                       "#include <cstdint>\n\n#include \"kernels/narrow_float.h\"\n#include "
                       "\"kernels/write_mode.h\"\n" +
                       target.kernelsHeader().str() + "using hyc::kernels::WriteMode;\n\n";
  std::string source = target.kernelsSource();
  llvm::raw_string_ostream headerStream(header), sourceStream(source);
  for (auto kernel : module.getOps<rank::KernelOp>()) {
    headerStream << target.kernelSignature(kernel) << ";\n";
    if (failed(target.emitKernel(kernel, sourceStream)))
      return failure();
  }
  files["kernels.h"] = header + "\n}  // namespace kernels\n";
  files[target.kernelsFile().str()] = source + "}  // namespace kernels\n";
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

/// The functions that the runtime calls.
static SmallVector<rank::FuncOp> calledFunctions(rank::ProgramOp program) {
  SmallVector<rank::FuncOp> functions;
  for (const std::string &name : program.getFunctionNames())
    functions.push_back(program.lookupSymbol<rank::FuncOp>(name));
  if (rank::FuncOp prepare = program.getPrepare())
    functions.push_back(prepare);
  return functions;
}

/// Whether the runtime calls it with a micro-batch.
static bool isOfChunk(rank::FuncOp func) {
  std::optional<dist::InstructionKind> kind = func.getKind();
  return kind == dist::InstructionKind::forward || kind == dist::InstructionKind::backward;
}

/// "runForward1(hycrt::Context& ctx, const hycrt::Call& call)"
static std::string runnerSignature(rank::FuncOp func) {
  std::string arguments = isOfChunk(func) ? ", const hycrt::Call& call" : "";
  if (func.getKind() == dist::InstructionKind::apply)
    arguments = ", float learningRate";
  return runnerName(func.getSymName()) + "(hycrt::Context& ctx" + arguments + ")";
}

LogicalResult ProgramPrinter::emitFunctionFile(rank::ProgramOp program, rank::FuncOp func) {
  StringRef name = func.getSymName();
  std::string stage = "stage" + std::to_string(program.getStage()), body, text;
  SmallVector<rank::FuncOp> functions;
  collectCallees(program, func, functions);
  functions.push_back(func);
  dist::MeshOp mesh = dist::MeshOp::find(module);
  std::set<std::string> headers;
  for (StringRef header : target.functionHeaders())
    headers.insert(header.str());
  llvm::raw_string_ostream calls(body), os(text);
  for (rank::FuncOp each : functions)
    if (failed(FunctionEmitter(each, mesh, target.callPrinter(), headers).emit(calls, true)))
      return failure();
  os << "// " << cpp::oneLine(options.name) << ", stage " << program.getStage() << ": " << name << ". Generated.\n";
  os << "#include \"" << stage << ".h\"\n\n" << target.standardHeaders() << "\n";
  for (const std::string &header : headers)
    os << "#include \"" << header << "\"\n";
  os << "\nusing namespace hyc::kernels;\n\n" << body;
  os << "void " << runnerSignature(func) << " {";
  if (isOfChunk(func)) {
    os << " " << camelCase(name) << "(ctx, call); }\n";
  } else {
    // None of these has a micro-batch.
    os << "\n";
    if (auto lr = program.lookupSymbol<rank::ScalarOp>("lr"); lr && func.getKind() == dist::InstructionKind::apply) {
      std::string arena = constantName(lr.getArena()), offset = std::to_string(*lr.getOffset());
      os << "  *ctx.ptr<float>(" << arena << ", " << offset << ") = learningRate;\n"
         << target.afterLearningRate("{" + arena + ", " + offset + "}");
    }
    os << "  " << camelCase(name) << "(ctx, hycrt::Call{});\n}\n";
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
  SmallVector<rank::FuncOp> functions = calledFunctions(program);
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

std::string ProgramPrinter::executables() {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (auto program : module.getOps<rank::ProgramOp>()) {
    std::string stage = "stage" + std::to_string(program.getStage());
    std::string sources = "\n  " + stage + ".cpp";
    for (rank::FuncOp func : calledFunctions(program))
      sources += " " + fileOf(program, func.getSymName());
    os << "\nadd_executable(" << stage << sources << ")\ntarget_link_libraries(" << stage << " PRIVATE kernels "
       << target.libraries() << ")\n"
       << target.embeddedLibrary(stage, sources);
  }
  return text;
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
  files["CMakeLists.txt"] = target.buildFile(options) + executables();
  return success();
}

} // namespace

int64_t hyc::tokensOfSample(ModuleOp module) {
  for (auto program : module.getOps<rank::ProgramOp>())
    for (auto input : program.getOps<rank::InputOp>()) {
      ArrayRef<int64_t> shape = input.getBufferType().getShape();
      if (!shape.empty() && input.getSourceFacts().isToken)
        return input.getBufferType().getNumElements() / std::max<int64_t>(1, shape[0]);
    }
  return 0;
}

std::vector<std::string> hyc::collectModelFiles(ModuleOp module) {
  std::vector<std::string> files;
  for (auto program : module.getOps<rank::ProgramOp>())
    for (auto state : program.getOps<rank::StateOp>())
      for (FileAttr file : filesOf(valuesOf(state.getInit())))
        if (!llvm::is_contained(files, file.getPath()))
          files.push_back(file.getPath().str());
  return files;
}

LogicalResult hyc::emitPrograms(ModuleOp module, const CppOptions &options, std::map<std::string, std::string> &files) {
  return ProgramPrinter(module, options, files).emit();
}
