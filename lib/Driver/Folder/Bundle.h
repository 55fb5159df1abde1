// A bundle: beside the generated sources of programs for GPUs all that they are built with, so that a machine with
// CMake and the CUDA toolkit alone can build, test and run them.
#ifndef HYC_LIB_DRIVER_FOLDER_BUNDLE_H
#define HYC_LIB_DRIVER_FOLDER_BUNDLE_H

#include "Folder/OutputFolder.h"
#include "hyc/Driver/Toolchain.h"

namespace hyc {

/// Whether hyc's own sources are there to be bundled; an installed hyc has none.
bool canBundle(const Toolchain &toolchain);

/// Adds hyc/ (runtime, kernels, hyc-run, the kernels' tests, third-party headers, GoogleTest's source) and build.sh.
llvm::Error writeBundle(OutputFolder &folder, const Toolchain &toolchain);

/// Copies a model's file into model/; gives its name relative to the folder.
llvm::Expected<std::string> bundleModelFile(OutputFolder &folder, const std::string &path);

} // namespace hyc

#endif // HYC_LIB_DRIVER_FOLDER_BUNDLE_H
