// Where the runtime lies: installed, or in the tree that this was built in.
#include "hyc/Driver/Toolchain.h"
#include "hyc/Support/DriverError.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

using namespace llvm;
using namespace hyc;

// HYC_CONFIGURED_* come from CMake.

static std::string joined(StringRef folder, const Twine &a, const Twine &b = "") {
  SmallString<128> path(folder);
  sys::path::append(path, a, b);
  return std::string(path);
}

/// The compiler that hyc was built by, or else the first that this machine has.
static std::string findCompiler() {
  if (sys::fs::can_execute(HYC_CONFIGURED_CXX))
    return HYC_CONFIGURED_CXX;
  for (StringRef name : {"c++", "g++", "clang++"})
    if (ErrorOr<std::string> found = sys::findProgramByName(name))
      return *found;
  return HYC_CONFIGURED_CXX;
}

/// A library of others: as it was installed with hyc (cmake/HycPortable.cmake), under its name or as NAME.so.N, or else
/// where it was when hyc was built.
static std::string findLibrary(StringRef libraryDir, StringRef configured) {
  std::string bundled = joined(libraryDir, sys::path::filename(configured));
  if (sys::fs::exists(bundled))
    return bundled;
  std::error_code ignored;
  std::string versioned = bundled + ".";
  for (sys::fs::directory_iterator at(libraryDir, ignored), end; !ignored && at != end; at.increment(ignored))
    if (StringRef(at->path()).starts_with(versioned))
      return at->path();
  return configured.str();
}

Toolchain Toolchain::find(const std::string &executable) {
  Toolchain result;
  result.compiler = findCompiler();
  std::string prefix = sys::path::parent_path(sys::path::parent_path(executable)).str();
  std::string include = joined(prefix, "include");
  std::string libraryDir = joined(prefix, HYC_CONFIGURED_INSTALL_LIBDIR);
  if (sys::fs::exists(joined(include, "hycrt", "program.h"))) {
    result.includeDirs = {include};
    result.headerDirs = {joined(include, "hycrt"), joined(include, "kernels")};
    result.machines = joined(joined(prefix, HYC_CONFIGURED_INSTALL_DATADIR), "hyc", "machines");
  } else {
    std::string source = HYC_CONFIGURED_SOURCE_DIR;
    result.includeDirs = {joined(source, "runtime", "include"), source};
    result.headerDirs = {joined(source, "runtime", "include"), joined(source, "kernels")};
    result.machines = joined(source, "share", "machines");
    libraryDir = HYC_CONFIGURED_LIBRARY_DIR;
  }
  result.libraries = {joined(libraryDir, "libhycrt.a"), joined(libraryDir, "libhyc_kernels.a")};
  for (StringRef library : {HYC_CONFIGURED_SSL, HYC_CONFIGURED_CRYPTO, HYC_CONFIGURED_URING})
    if (!library.empty()) // the runtime was built without it
      result.libraries.push_back(findLibrary(libraryDir, library));
  result.sources = HYC_CONFIGURED_SOURCE_DIR;
  result.nvcc = HYC_CONFIGURED_NVCC;
  if (!result.nvcc.empty()) {
    result.cudaLibraries = {joined(libraryDir, "libhycrt_cuda.a"),
                            joined(libraryDir, "libhyc_kernels_cuda.a"),
                            joined(libraryDir, "libhycrt.a"),
                            HYC_CONFIGURED_CUBLASLT,
                            HYC_CONFIGURED_CUDART,
                            HYC_CONFIGURED_SSL,
                            HYC_CONFIGURED_CRYPTO};
    if (*HYC_CONFIGURED_NCCL)
      result.cudaLibraries.push_back(HYC_CONFIGURED_NCCL);
    if (*HYC_CONFIGURED_URING)
      result.cudaLibraries.push_back(HYC_CONFIGURED_URING);
    SmallVector<StringRef> names;
    StringRef(HYC_CONFIGURED_CUDA_ARCHITECTURES).split(names, ',');
    for (StringRef name : names) {
      int64_t number = 0;
      if (!name.consumeInteger(10, number))
        result.cudaArchitectures.push_back(number);
    }
  }
  result.linkFlags = {"-pthread", "-lrt", "-ldl"};
  // A sanitized runtime brings the sanitizer's calls into every program.
  if (HYC_CONFIGURED_SANITIZE)
    result.linkFlags.push_back("-fsanitize=address,undefined");
  return result;
}

Error Toolchain::checkCuda() const {
  if (nvcc.empty())
    return makeError(ExitCode::Unavailable, "--target is cuda, but this hyc was built where no CUDA toolkit was found; "
                                            "build it again where there is one, or stop at --emit=source");
  if (!sys::fs::can_execute(nvcc))
    return makeError(ExitCode::Unavailable,
                     "CUDA's compiler '" + nvcc + "' is not there; install it, or stop at --emit=source");
  for (int64_t wanted : architectures) {
    auto runs = [&](int64_t compiled) { return compiled / 10 == wanted / 10 && compiled <= wanted; };
    if (none_of(cudaArchitectures, runs))
      return makeError(ExitCode::Unavailable,
                       "--arch is sm_" + std::to_string(wanted) + ", but hyc's own kernels are compiled for " +
                           HYC_CONFIGURED_CUDA_ARCHITECTURES + "; build hyc with -DCMAKE_CUDA_ARCHITECTURES=" +
                           std::to_string(wanted) + "-real, or stop at --emit=source");
  }
  return Error::success();
}

Error Toolchain::check() const {
  if (!sys::fs::can_execute(compiler))
    return makeError(ExitCode::Unavailable, "no C++ compiler is there: neither '" + compiler +
                                                "' nor c++, g++ or clang++ in PATH; install one (g++ 12 "
                                                "or newer), or stop at --emit=source");
  if (isForGpu())
    if (Error error = checkCuda())
      return error;
  for (const std::string &file : programLibraries())
    if (!sys::fs::exists(file))
      return makeError(ExitCode::Unavailable,
                       "'" + file + "' is not there: hyc's runtime is not built or not installed");
  for (const std::string &folder : headerDirs)
    if (!sys::fs::is_directory(folder))
      return makeError(ExitCode::Unavailable,
                       "'" + folder + "' is not there: hyc's runtime is not built or not installed");
  return Error::success();
}
