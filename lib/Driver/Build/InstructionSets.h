// Which instructions programs take, so that a run can tell a host that has not all of them before anything starts.
#ifndef HYC_LIB_DRIVER_BUILD_INSTRUCTIONSETS_H
#define HYC_LIB_DRIVER_BUILD_INSTRUCTIONSETS_H

#include "hyc/Driver/Toolchain.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace hyc {

/// What the compiler may use with -march=`toolchain.march`, by the names that Linux has in /proc/cpuinfo ("avx2",
/// "asimd").
/// Asks the compiler; a usage error where it knows no such CPU.
llvm::Expected<std::vector<std::string>> instructionsOf(const Toolchain &toolchain);

} // namespace hyc

#endif // HYC_LIB_DRIVER_BUILD_INSTRUCTIONSETS_H
