// compile: what hyc-compile does, callable as a library.
#ifndef HYC_DRIVER_COMPILE_H
#define HYC_DRIVER_COMPILE_H

#include "hyc/Driver/CompileOptions.h"
#include "hyc/Driver/DriverError.h"
#include "hyc/Driver/Toolchain.h"

namespace hyc {

/// Imports the model, runs the phases and leaves what `options.emit` asks for. Diagnostics and progress go to standard
/// error; nothing partial stays behind on failure.
llvm::Error compile(const CompileOptions &options, const Toolchain &toolchain);

/// Prints what becomes of every key of a ds_config under these options, whose model is not read. Fails as compile
/// would.
llvm::Error explainConfig(CompileOptions options);

} // namespace hyc

#endif // HYC_DRIVER_COMPILE_H
