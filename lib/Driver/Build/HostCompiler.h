// HostCompiler: turns generated C++ into executables with the host's compiler, without a shell, several files at a
// time. Of programs for GPUs the .cu files go to nvcc.
//
// What a program alone has is compiled together, up to some size: of a small one the headers take longer than its own
// text, and its files have the same ones. An object is looked up first by the hash of everything that it depends on:
// sources, the headers that they reach, flags, compiler and CPU.
// The cache lies in $HYC_CACHE_DIR, else $XDG_CACHE_HOME/hyc, else ~/.cache/hyc; without any of these there is none.
#ifndef HYC_LIB_DRIVER_BUILD_HOSTCOMPILER_H
#define HYC_LIB_DRIVER_BUILD_HOSTCOMPILER_H

#include "Build/ObjectCache.h"
#include "Build/ProcessGroup.h"
#include "Build/ReachedHeaders.h"
#include "hyc/Driver/CompileListener.h"
#include "hyc/Driver/Toolchain.h"
#include "llvm/ADT/StringRef.h"

namespace hyc {

/// One executable: its path, and the sources that it is made of, relative to the source folder.
struct ExecutableJob {
  std::string output;
  std::vector<std::string> sources; ///< what it alone has
  std::vector<std::string> common;  ///< what others may have, too
};

class HostCompiler {
public:
  HostCompiler(const Toolchain &toolchain, std::string sourceFolder, std::string objectFolder,
               const CompileListener &listener = {})
      : toolchain(toolchain), sourceFolder(std::move(sourceFolder)), objectFolder(std::move(objectFolder)),
        listener(listener) {}

  /// Compiles every source once and links every job. Sources of one job have names of their own for what they define.
  /// Tells the listener how far it is when it takes longer than a second.
  llvm::Error build(llvm::ArrayRef<ExecutableJob> jobs);

private:
  /// What becomes one object.
  using Unit = std::vector<std::string>;

  static std::vector<std::string> foldersOf(const Toolchain &toolchain, const std::string &sourceFolder);
  llvm::Expected<std::vector<Unit>> unitsOf(llvm::ArrayRef<ExecutableJob> jobs) const;
  std::vector<std::string> compileCommand(const Unit &unit, llvm::StringRef object) const;
  std::vector<std::string> nvccCommand(llvm::StringRef source, llvm::StringRef object) const;
  llvm::Error compileAll(llvm::ArrayRef<Unit> units);
  llvm::Error compile(const Unit &unit);
  llvm::Error link(const ExecutableJob &job, llvm::ArrayRef<Unit> units);
  llvm::Expected<std::string> read(llvm::StringRef source) const;
  std::string objectOf(const Unit &unit) const;

  const Toolchain &toolchain;
  std::string sourceFolder, objectFolder;
  CompileListener listener;
  ObjectCache cache = ObjectCache::ofUser();
  ReachedHeaders headers{foldersOf(toolchain, sourceFolder)};
  ProcessGroup group;
  std::string environmentHash; ///< of all that sources have in common
};

} // namespace hyc

#endif // HYC_LIB_DRIVER_BUILD_HOSTCOMPILER_H
