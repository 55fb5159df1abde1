// compile: what hyc-compile does, callable as a library. It prints nothing, installs no signal handler and may be
// called as often as one likes, also after an error. A process that may be interrupted while it runs makes an
// Interruption (Interruption.h) first, so that nothing half written stays behind.
#ifndef HYC_DRIVER_COMPILE_H
#define HYC_DRIVER_COMPILE_H

#include "hyc/Analysis/MemoryAccount.h"
#include "hyc/Driver/CompileListener.h"
#include "hyc/Driver/Toolchain.h"
#include "hyc/Plan/CompileOptions.h"
#include "hyc/Support/DriverError.h"

#include <vector>

namespace hyc {

/// What a compilation gives. After an error it holds what was known until then.
struct CompileResult {
  ExitCode code = ExitCode::Ok;
  std::string error; ///< why it ended; empty where `diagnostics` say it, or it did not
  std::vector<CompileDiagnostic> diagnostics;

  Plan plan;           ///< every setting, with the rules that phase 3 realises
  JobAccount account;  ///< of memory and communication, from --plan-only on
  std::string folder;  ///< with what was asked for; empty: nothing was
  std::string text;    ///< of a phase that was asked for and goes to no file, or of an explanation
  std::string summary; ///< lines on ranks, samples, memory and time; empty: nothing was planned
  double seconds = 0;  ///< of a step, estimated; 0: nobody can tell
  uint64_t planHash = 0;
  std::vector<int64_t> batchShares; ///< of the layout that was found, where ranks are not equally fast; else empty

  explicit operator bool() const { return code == ExitCode::Ok; }
};

/// Imports the model, runs the phases and leaves what `options.emit` asks for; nothing partial stays behind on failure.
CompileResult compile(const CompileOptions &options, const Toolchain &toolchain, const CompileListener &listener = {});

/// What compile would plan, and nothing is written. Only of one size.
CompileResult planOnly(const CompileOptions &options, const Toolchain &toolchain, const CompileListener &listener = {});

/// Tells in `text` what becomes of every key of a ds_config under these options, whose model is not read. Fails as
/// compile would.
CompileResult explainConfig(CompileOptions options);

/// Tells in `text` what two plans, as plan.json or the folders that have them, decide differently and what each comes
/// to.
CompileResult comparePlans(const std::string &a, const std::string &b);

} // namespace hyc

#endif // HYC_DRIVER_COMPILE_H
