// What goes into a bundle.
#include "Folder/Bundle.h"
#include "hyc/Support/DriverError.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <filesystem>

using namespace llvm;
using namespace hyc;
namespace fs = std::filesystem;

// HYC_CONFIGURED_* come from CMake; empty where a part was not found.

static Error copyFile(OutputFolder &folder, const fs::path &from, const std::string &to) {
  auto text = MemoryBuffer::getFile(from.string(), /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!text)
    return ioError("cannot read '" + from.string() + "'", text.getError());
  return folder.write(to, (*text)->getBuffer());
}

/// Files below `from` whose endings are wanted, to the same places below `to`.
static Error copyTree(OutputFolder &folder, const fs::path &from, const std::string &to, ArrayRef<StringRef> endings) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(from, error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->is_regular_file() || !is_contained(endings, StringRef(entry->path().extension().string())))
      continue;
    if (Error failed = copyFile(folder, entry->path(), to + "/" + fs::relative(entry->path(), from).string()))
      return failed;
  }
  return error ? ioError("cannot read folder '" + from.string() + "'", error) : Error::success();
}

bool hyc::canBundle(const Toolchain &toolchain) {
  return sys::fs::exists(toolchain.sources + "/cmake/bundle/CMakeLists.txt") && *HYC_CONFIGURED_JSON_INCLUDE &&
         *HYC_CONFIGURED_CLI_INCLUDE;
}

Error hyc::writeBundle(OutputFolder &folder, const Toolchain &toolchain) {
  fs::path sources = toolchain.sources;
  struct Part {
    fs::path from;
    std::string to;
    std::vector<StringRef> endings;
  };
  std::vector<Part> parts = {
      {sources / "runtime", "hyc/runtime", {".h", ".cpp"}},
      {sources / "kernels", "hyc/kernels", {".h", ".cpp", ".cu"}},
      {sources / "tools/hyc-run", "hyc/tools/hyc-run", {".h", ".cpp"}},
      {sources / "test/unit/cuda", "hyc/test/unit/cuda", {".h", ".cpp"}},
      {sources / "test/bench/gpu", "hyc/test/bench/gpu", {".cpp", ".py", ".sh"}},
      {fs::path(HYC_CONFIGURED_JSON_INCLUDE) / "nlohmann", "hyc/third_party/nlohmann", {".hpp"}},
      {fs::path(HYC_CONFIGURED_CLI_INCLUDE) / "CLI", "hyc/third_party/CLI", {".hpp"}},
  };
  if (*HYC_CONFIGURED_GTEST_SOURCE)
    parts.push_back(
        {HYC_CONFIGURED_GTEST_SOURCE, "hyc/third_party/googletest", {".h", ".cc", ".txt", ".cmake", ".in", ".pump"}});
  for (const Part &part : parts)
    if (Error error = copyTree(folder, part.from, part.to, part.endings))
      return error;
  if (Error error = copyFile(folder, sources / "cmake/bundle/CMakeLists.txt", "hyc/CMakeLists.txt"))
    return error;
  if (Error error = copyFile(folder, sources / "cmake/bundle/build.sh", "build.sh"))
    return error;
  for (StringRef script : {"build.sh", "hyc/test/bench/gpu/gpu_bench.sh"}) {
    std::error_code error;
    fs::permissions(folder.staged(script), fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec,
                    fs::perm_options::add, error);
    if (error)
      return ioError("cannot make " + script.str() + " executable", error);
  }
  return Error::success();
}

Expected<std::string> hyc::bundleModelFile(OutputFolder &folder, const std::string &path) {
  std::string name = "model/" + sys::path::filename(path).str();
  if (sys::fs::exists(folder.staged(name)))
    return makeError(ExitCode::Data, "two of the model's files are called '" + sys::path::filename(path) +
                                         "', so they cannot lie in one bundle; rename one of them");
  if (Error error = copyFile(folder, path, name))
    return error;
  return name;
}
