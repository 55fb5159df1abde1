// DiagnosticPrinter: MLIR's diagnostics as lines of text on standard error, and what kind of failure they tell of.
#ifndef HYC_LIB_DRIVER_DIAGNOSTICPRINTER_H
#define HYC_LIB_DRIVER_DIAGNOSTICPRINTER_H

#include "hyc/Driver/DriverError.h"
#include "mlir/IR/Diagnostics.h"

namespace hyc {

/// While alive, prints what `context` reports: `LOCATION: error: MESSAGE`, then its notes.
class DiagnosticPrinter {
public:
  DiagnosticPrinter(mlir::MLIRContext &context, llvm::StringRef inputName);
  ~DiagnosticPrinter();

  /// Counts from here on, but prints nothing: for plans that are only tried.
  void silence() { silent = true; }

  /// The error to end with after a failure that has been reported. A message that begins with the flag it refuses
  /// (`--logits names …`) is a wrong command line; every other is `otherwise`.
  llvm::Error failure(ExitCode otherwise) const;

private:
  void print(mlir::Diagnostic &diagnostic);

  mlir::MLIRContext &context;
  std::string inputName;
  mlir::DiagnosticEngine::HandlerID handler;
  bool anyError = false, usage = false, silent = false;
};

} // namespace hyc

#endif // HYC_LIB_DRIVER_DIAGNOSTICPRINTER_H
