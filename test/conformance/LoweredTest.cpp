// From a folder of the test data to C++: import, phases 1, 4 and 5, emission.
#include "LoweredTest.h"

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Import/ONNX/Import.h"
#include "hyc/Pipelines/Pipelines.h"
#include "hyc/Target/Cpp.h"
#include "lib/Import/ONNX/onnx_subset.pb.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/ADT/StringSet.h"

#include <filesystem>
#include <fstream>
#include <sstream>

using namespace mlir;
using namespace hyc::conformance;
namespace rank = hyc::rank;

namespace {
/// A model's inputs and outputs, in order.
struct Port {
  std::string name;
  FileKind kind;
  std::vector<std::string> symbols; ///< of its dimensions; empty where one has a size
};
struct Ports {
  std::vector<Port> inputs, outputs;
};

Port portOf(const hyc::onnxfile::Value &value) {
  const auto &type = value.type();
  Port port{value.name(),
            type.has_maybe()      ? FileKind::Optional
            : type.has_sequence() ? FileKind::List
                                  : FileKind::Tensor,
            {}};
  for (const auto &dim : type.tensor().shape().dim())
    port.symbols.push_back(dim.symbol());
  return port;
}

std::optional<Ports> readPorts(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  hyc::onnxfile::Model model;
  if (!file || !model.ParseFromString(text.str()))
    return std::nullopt;
  Ports ports;
  for (const auto &input : model.graph().input())
    ports.inputs.push_back(portOf(input));
  for (const auto &output : model.graph().output())
    ports.outputs.push_back(portOf(output));
  return ports;
}

std::string dataFile(const std::string &folder, const std::string &kind, size_t index) {
  return folder + "/test_data_set_0/" + kind + "_" + std::to_string(index) + ".pb";
}

/// Which inputs are given when compiling: none, then those that look like shapes and axes, then all single numbers; all
/// where results have as many elements as values ask for.
constexpr int kAllKnown = 3;
bool isKnown(int attempt, const FileTensor &tensor) {
  if (attempt == kAllKnown)
    return true;
  bool isInteger = tensor.type == kI64 || tensor.type == kI32;
  if (attempt == 0)
    return false;
  if (tensor.shape.empty() || (tensor.shape.size() == 1 && isInteger))
    return attempt == 2 || isInteger;
  // A list of real numbers that no shape depends on stays an argument; scales and regions are such lists.
  return attempt == 2 && tensor.shape.size() == 1 && tensor.count() <= 8;
}

/// What runs from phase 1 to phase 5, each phase with its check.
bool lower(ModuleOp module) {
  PassManager passes(module.getContext());
  hyc::Plan options;
  hyc::buildPhase(hyc::Phase::Model, passes, options);
  hyc::buildVerification(hyc::Phase::Model, passes);
  hyc::buildForwardProgram(passes);
  hyc::buildVerification(hyc::Phase::Local, passes);
  hyc::buildPhase(hyc::Phase::Rank, passes, options);
  hyc::buildVerification(hyc::Phase::Rank, passes);
  return succeeded(passes.run(module));
}

/// Drops what only one file at the top may have.
std::string withoutIncludes(const std::string &text) {
  std::stringstream lines(text), kept;
  for (std::string line; std::getline(lines, line);)
    if (line.rfind("#include", 0) != 0 && line.rfind("#pragma once", 0) != 0)
      kept << line << "\n";
  return kept.str();
}

class Lowering {
public:
  Lowering(const std::string &folder, LoweredTest &test) : folder(folder), test(test) {}

  /// Whether to try again with more inputs known.
  bool attempt(int number);

private:
  bool readFiles();
  void findUnread(ModuleOp module);
  bool emit(ModuleOp module);
  bool findPlaces(rank::ProgramOp program);
  void fail(const std::string &reason) { test.reason = reason; }

  const std::string &folder;
  LoweredTest &test;
  Ports ports;
  std::vector<std::optional<FileTensor>> inputs; // nothing for lists and optional values, which are always given
  std::vector<FileTensor> outputs;
  llvm::StringSet<> unread;
  hyc::ImportOptions options;
};

bool Lowering::readFiles() {
  std::optional<Ports> found = readPorts(folder + "/model.onnx");
  if (!found)
    return fail("the model cannot be read"), false;
  ports = *found;
  for (bool areInputs : {true, false}) {
    const std::vector<Port> &list = areInputs ? ports.inputs : ports.outputs;
    for (size_t i = 0; i < list.size(); ++i) {
      const char *what = areInputs ? "input" : "output";
      std::optional<std::vector<FileTensor>> tensors = readTensors(dataFile(folder, what, i), list[i].kind);
      if (!tensors)
        return fail(std::string(what) + " " + std::to_string(i) + " is no tensor of numbers"), false;
      if (areInputs)
        inputs.push_back(list[i].kind == FileKind::Tensor ? std::optional(tensors->front()) : std::nullopt);
      else
        outputs.insert(outputs.end(), tensors->begin(), tensors->end());
    }
  }
  return true;
}

bool Lowering::attempt(int number) {
  std::string name = test.name;
  test = {};
  test.name = name;
  inputs.clear(), outputs.clear(), options.inputValues.clear(), options.dims.clear(), unread.clear();
  if (!readFiles())
    return false;
  bool anyKnown = false;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i] || isKnown(number, *inputs[i])) {
      options.inputValues[ports.inputs[i].name] = dataFile(folder, "input", i);
      anyKnown |= inputs[i].has_value();
    } else {
      for (size_t dim = 0; dim < ports.inputs[i].symbols.size() && dim < inputs[i]->shape.size(); ++dim)
        if (!ports.inputs[i].symbols[dim].empty())
          options.dims[ports.inputs[i].symbols[dim]] = inputs[i]->shape[dim];
    }
  if (number > 0 && !anyKnown)
    return true;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  std::string messages;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (messages.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
      messages = diagnostic.str();
    return success();
  });
  context.loadDialect<hyc::HycDialect, hyc::dist::DistDialect, rank::RankDialect>();
  FailureOr<OwningOpRef<ModuleOp>> module = hyc::importOnnx(context, folder + "/model.onnx", options);
  bool imported = succeeded(module);
  if (imported)
    findUnread(**module);
  if (imported && lower(**module) && emit(**module))
    return false;
  if (test.reason.empty())
    fail(messages.empty() ? "fails without a message" : messages);
  return !imported;
}

/// Inputs that nothing reads the values of.
void Lowering::findUnread(ModuleOp module) {
  for (auto function : module.getOps<hyc::FuncOp>())
    for (BlockArgument argument : function.getArguments())
      if (auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "hyc.input");
          name && argument.use_empty())
        unread.insert(name.getValue());
}

bool Lowering::emit(ModuleOp module) {
  std::map<std::string, std::string> files;
  hyc::CppOptions cpp;
  cpp.name = "model"; // of all, so that equal programs are one text
  if (failed(hyc::emitPrograms(module, cpp, files)))
    return false;
  for (const char *file : {"kernels.h", "kernels.cpp", "stage0.h", "stage0_prepare.cpp", "stage0_forward.cpp"})
    test.source += withoutIncludes(files[file]);
  test.addresses = files["addresses.h"];
  return findPlaces(*module.getOps<rank::ProgramOp>().begin());
}

bool Lowering::findPlaces(rank::ProgramOp program) {
  std::map<std::string, int> arenas;
  for (auto arena : program.getOps<rank::ArenaOp>()) {
    arenas[arena.getSymName().str()] = static_cast<int>(arenas.size());
    test.arenaBytes.push_back(static_cast<int64_t>(arena.getBytes()));
  }
  auto place = [&](auto symbol) {
    return Place{arenas[symbol.getArena().str()], static_cast<int64_t>(*symbol.getOffset())};
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    if (auto input = program.lookupSymbol<rank::InputOp>(ports.inputs[i].name)) {
      const bool fits = input.getBufferType().getBytes() == static_cast<int64_t>(inputs[i]->bytes.size());
      if (!fits && unread.contains(ports.inputs[i].name))
        continue; // its type alone counts
      if (!fits)
        return fail("input " + std::to_string(i) + " has another size than its data"), false;
      test.inputs.push_back({*inputs[i], place(input)});
    }
  std::vector<rank::StateOp> states;
  for (auto state : program.getOps<rank::StateOp>())
    if (state.getRole() == "output")
      states.push_back(state);
  if (states.size() != outputs.size())
    return fail("has " + std::to_string(states.size()) + " outputs, expected " + std::to_string(outputs.size())), false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto shape = states[i].getBufferType().getShape();
    if (std::vector<int64_t>(shape.begin(), shape.end()) != outputs[i].shape ||
        states[i].getBufferType().getBytes() != static_cast<int64_t>(outputs[i].bytes.size()))
      return fail("output " + std::to_string(i) + " has another shape or type than expected"), false;
    test.outputs.push_back({outputs[i], place(states[i])});
  }
  return true;
}
} // namespace

LoweredTest hyc::conformance::lowerTest(const std::string &folder, const std::string &name) {
  LoweredTest test;
  test.name = name;
  Lowering lowering(folder, test);
  std::string first;
  for (int number = 0; number <= kAllKnown; ++number) {
    // What is computed when running is tested when running; only sizes that values decide need them before.
    if (number == kAllKnown && first.find("which are known only when it runs") == std::string::npos &&
        first.find("has size 0") == std::string::npos)
      break;
    if (!lowering.attempt(number))
      return test;
    first = test.reason.empty() ? first : test.reason;
  }
  if (test.reason.empty())
    test.reason = first;
  return test;
}
