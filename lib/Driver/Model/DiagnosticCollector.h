// DiagnosticCollector: MLIR's diagnostics as values, and what kind of failure they tell of.
#ifndef HYC_LIB_DRIVER_MODEL_DIAGNOSTICCOLLECTOR_H
#define HYC_LIB_DRIVER_MODEL_DIAGNOSTICCOLLECTOR_H

#include "hyc/Driver/CompileListener.h"
#include "hyc/Support/DriverError.h"
#include "mlir/IR/Diagnostics.h"

#include <vector>

namespace hyc {

/// While alive, keeps what `context` reports, each diagnostic before its notes, and tells the listener.
class DiagnosticCollector {
public:
  DiagnosticCollector(mlir::MLIRContext &context, llvm::StringRef inputName, const CompileListener &listener);
  ~DiagnosticCollector();

  /// The error to end with after a failure that has been reported. A message that begins with the flag it refuses
  /// (`--logits names …`) is a wrong command line; every other is `otherwise`.
  llvm::Error failure(ExitCode otherwise) const;

  /// Of what is no op's.
  void add(CompileDiagnostic told);

  /// Tells the listener nothing until release(), which tells it all.
  void hold() { held = true; }
  void release();

  std::vector<CompileDiagnostic> take() { return std::move(collected); }

private:
  void collect(mlir::Diagnostic &diagnostic);

  mlir::MLIRContext &context;
  std::string inputName;
  const CompileListener &listener;
  mlir::DiagnosticEngine::HandlerID handler;
  std::vector<CompileDiagnostic> collected;
  bool held = false; ///< the listener has not heard of any yet
  bool anyError = false, usage = false;
};

} // namespace hyc

#endif // HYC_LIB_DRIVER_MODEL_DIAGNOSTICCOLLECTOR_H
