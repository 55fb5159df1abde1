// Locations are shown as the model knows them: file:line:column for text, names for nodes of a graph.
#include "DiagnosticPrinter.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/raw_ostream.h"

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

DiagnosticPrinter::DiagnosticPrinter(MLIRContext &context, StringRef inputName)
    : context(context), inputName(inputName.str()) {
  handler = context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
    print(diagnostic);
    return success();
  });
}

DiagnosticPrinter::~DiagnosticPrinter() { context.getDiagEngine().eraseHandler(handler); }

void DiagnosticPrinter::print(Diagnostic &diagnostic) {
  std::string message = diagnostic.str(), location = describe(diagnostic.getLocation());
  const char *severity = "note";
  if (diagnostic.getSeverity() == DiagnosticSeverity::Error) {
    severity = "error";
    usage |= !anyError && StringRef(message).starts_with("--");
    anyError = true;
  } else if (diagnostic.getSeverity() == DiagnosticSeverity::Warning) {
    severity = "warning";
  }
  if (silent)
    return;
  llvm::errs() << (location.empty() ? inputName : location) << ": " << severity << ": " << message << "\n";
  for (Diagnostic &note : diagnostic.getNotes())
    print(note);
}

llvm::Error DiagnosticPrinter::failure(ExitCode otherwise) const {
  if (anyError)
    return makeError(usage ? ExitCode::Usage : otherwise, "");
  return makeError(ExitCode::Internal, "a step failed without saying why; this is a fault of hyc");
}
