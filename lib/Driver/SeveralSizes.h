// SeveralSizes: one output folder with programs for several numbers of ranks (--ranks 8,6,4): a folder ranks-N for
// each, and a manifest that lists them (hycrt/sizes.h).
#ifndef HYC_LIB_DRIVER_SEVERALSIZES_H
#define HYC_LIB_DRIVER_SEVERALSIZES_H

#include "Folder/OutputFolder.h"
#include "hyc/Driver/Compile.h"

namespace hyc {

/// What the command reads, so that no output takes its place.
std::vector<InputPath> inputsOf(const CompileOptions &options);

/// Where programs go; --emit of a phase has no folder.
std::string shownFolder(const CompileOptions &options);

/// Joins flags, config and plan, and checks the result, of options for one size.
llvm::Error settleOptions(CompileOptions &options);

/// Compiles for each size of --ranks, all or nothing. A size that cannot keep the global batch is refused first.
CompileResult compileSizes(const CompileOptions &options, const Toolchain &toolchain, const CompileListener &listener);

} // namespace hyc

#endif // HYC_LIB_DRIVER_SEVERALSIZES_H
