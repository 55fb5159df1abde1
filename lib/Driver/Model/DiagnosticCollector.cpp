// Locations are shown as the model knows them: file:line:column for text, names for nodes of a graph.
#include "Model/DiagnosticCollector.h"

#include "hycrt/printable.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace hyc;

static std::string describe(Location location) {
  return llvm::TypeSwitch<LocationAttr, std::string>(location)
      .Case<FileLineColLoc>([](FileLineColLoc at) {
        std::string file = at.getFilename().str();
        if (at.getLine() == 0)
          return file;
        return file + ":" + std::to_string(at.getLine()) + ":" + std::to_string(at.getColumn());
      })
      .Case<NameLoc>([](NameLoc at) {
        std::string inner = describe(at.getChildLoc());
        return inner.empty() ? at.getName().str() : inner + ": " + at.getName().str();
      })
      .Case<FusedLoc>([](FusedLoc at) { return at.getLocations().empty() ? "" : describe(at.getLocations().front()); })
      .Case<CallSiteLoc>([](CallSiteLoc at) { return describe(at.getCallee()); })
      .Default([](LocationAttr) { return std::string(); });
}

DiagnosticCollector::DiagnosticCollector(MLIRContext &context, StringRef inputName, const CompileListener &listener)
    : context(context), inputName(inputName.str()), listener(listener) {
  handler = context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    collect(diagnostic);
    return success();
  });
}

DiagnosticCollector::~DiagnosticCollector() { context.getDiagEngine().eraseHandler(handler); }

static CompileDiagnostic::Severity severityOf(const Diagnostic &diagnostic) {
  switch (diagnostic.getSeverity()) {
  case DiagnosticSeverity::Error:
    return CompileDiagnostic::Error;
  case DiagnosticSeverity::Warning:
    return CompileDiagnostic::Warning;
  case DiagnosticSeverity::Note:
  case DiagnosticSeverity::Remark:
    return CompileDiagnostic::Note;
  }
  return CompileDiagnostic::Note;
}

void DiagnosticCollector::add(CompileDiagnostic told) {
  if (listener.diagnosed && !held)
    listener.diagnosed(told);
  collected.push_back(std::move(told));
}

void DiagnosticCollector::collect(Diagnostic &diagnostic) {
  std::string location = describe(diagnostic.getLocation());
  CompileDiagnostic told{severityOf(diagnostic), location.empty() ? inputName : location, diagnostic.str()};
  if (told.severity == CompileDiagnostic::Error) {
    usage |= !anyError && StringRef(told.message).starts_with("--");
    anyError = true;
  }
  // The model is imported once for each entry, and again where sizes are looked for.
  const bool isKnown =
      told.severity == CompileDiagnostic::Warning && llvm::any_of(collected, [&](const auto &before) {
        return before.severity == told.severity && before.location == told.location && before.message == told.message;
      });
  if (isKnown)
    return;
  add(std::move(told));
  for (Diagnostic &note : diagnostic.getNotes())
    collect(note);
}

/// A diagnostic is one line: what breaks it is from a name, which must not look like a diagnostic of its own.
static std::string onOneLine(StringRef text) {
  std::string line;
  for (char c : text.rtrim('\n'))
    line += c == '\n' ? std::string("\\x0a") : std::string(1, c);
  return line;
}

void DiagnosticCollector::release() {
  held = false;
  if (listener.diagnosed)
    llvm::for_each(collected, listener.diagnosed);
}

std::string CompileDiagnostic::str() const {
  constexpr const char *names[] = {"error", "warning", "note"};
  return hycrt::printable(onOneLine(location) + ": " + names[severity] + ": " + onOneLine(message));
}

llvm::Error DiagnosticCollector::failure(ExitCode otherwise) const {
  if (anyError)
    return makeError(usage ? ExitCode::Usage : otherwise, "");
  return makeError(ExitCode::Internal, "a step failed without saying why; this is a fault of hyc");
}
