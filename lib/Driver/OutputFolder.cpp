// Staging, and the renames at the end.
#include "OutputFolder.h"

#include "hyc/Driver/Interruption.h"
#include "hyc/Support/DriverError.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <filesystem>

using namespace llvm;
using namespace hyc;
namespace fs = std::filesystem;

/// What a compilation owns in its folder. A folder without a manifest is not runnable, so that one goes first and comes
/// last.
static constexpr const char *kEntries[] = {"manifest.json", "bin",       "src",   "report.txt", "memory.json",
                                           "memory.html",   "plan.json", "model", "hyc",        "build.sh"};

/// Whether `path` is `ancestor` or lies below it, both resolved as far as they exist.
static bool isInside(const fs::path &path, const fs::path &ancestor) {
  std::error_code ignored;
  fs::path whole = fs::weakly_canonical(path, ignored), top = fs::weakly_canonical(ancestor, ignored);
  return std::mismatch(top.begin(), top.end(), whole.begin(), whole.end()).first == top.end();
}

Expected<OutputFolder> OutputFolder::open(StringRef path, StringRef input) {
  std::error_code error;
  fs::path target = fs::absolute(path.str(), error).lexically_normal();
  if (target.filename().empty())
    target = target.parent_path();
  if (fs::equivalent(target, input.str(), error))
    return usageError("-o " + path + " is the input; name a folder for the output");
  fs::file_status status = fs::status(target, error);
  if (fs::exists(status) && !fs::is_directory(status))
    return usageError("-o " + path + " is a file; expected a folder, which is created where it does not exist");
  for (const char *entry : kEntries)
    if (isInside(input.str(), target / entry))
      return usageError("-o " + path + " would replace the input " + input + "; name another folder");

  OutputFolder result;
  result.folder = target.string();
  for (fs::path part = target; !part.empty() && !fs::exists(part, error); part = part.parent_path())
    result.created.insert(result.created.begin(), part.string());
  for (const std::string &part : result.created)
    if (Interruption::addFolder(part); !fs::create_directory(part, error) && error)
      return ioError("cannot create folder '" + part + "'", error);
  SmallString<128> staging;
  sys::fs::createUniquePath(result.folder + "/.hyc-compile-%%%%%%%%", staging, /*MakeAbsolute=*/false);
  Interruption::addPath(std::string(staging));
  if (!fs::create_directory(std::string(staging), error))
    return ioError("cannot write in folder '" + result.folder + "'", error);
  result.staging = std::string(staging);
  return result;
}

OutputFolder::OutputFolder(OutputFolder &&other)
    : folder(std::move(other.folder)), staging(std::exchange(other.staging, "")),
      created(std::exchange(other.created, {})) {}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  if (!staging.empty()) {
    fs::remove_all(staging, ignored);
    Interruption::forgetPath(staging);
  }
  // Only what is still empty goes.
  for (auto part = created.rbegin(); part != created.rend(); ++part) {
    fs::remove(*part, ignored);
    Interruption::forgetFolder(*part);
  }
}

std::string OutputFolder::staged(const Twine &relative) const { return (staging + "/" + relative).str(); }

/// Writes through a stream whose errors (disk full) are seen at the end.
static Error writeFile(const std::string &path, StringRef contents) {
  std::error_code error;
  raw_fd_ostream stream(path, error);
  if (error)
    return ioError("cannot create '" + path + "'", error);
  stream << contents;
  stream.close();
  error = stream.error();
  stream.clear_error();
  return error ? ioError("cannot write '" + path + "'", error) : Error::success();
}

Error OutputFolder::write(StringRef relative, StringRef contents) {
  std::string path = staged(relative);
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error)
    return ioError("cannot create the folder of '" + path + "'", error);
  return writeFile(path, contents);
}

Error OutputFolder::commit() {
  std::error_code error;
  fs::path replaced = fs::path(staging) / "replaced";
  fs::create_directory(replaced, error);
  for (const char *entry : kEntries) {
    fs::path old = fs::path(folder) / entry;
    if (fs::exists(fs::symlink_status(old, error)) && (fs::rename(old, replaced / entry, error), error))
      return ioError("cannot replace '" + old.string() + "'", error);
  }
  for (auto entry = std::rbegin(kEntries); entry != std::rend(kEntries); ++entry) {
    fs::path made = fs::path(staging) / *entry;
    if (fs::exists(made, error) && (fs::rename(made, fs::path(folder) / *entry, error), error))
      return ioError("cannot move '" + std::string(*entry) + "' to '" + folder + "'", error);
  }
  for (const std::string &part : std::exchange(created, {}))
    Interruption::forgetFolder(part);
  return Error::success();
}

Error hyc::writeFileWhole(StringRef path, StringRef contents) {
  SmallString<128> aside;
  sys::fs::createUniquePath(path + ".%%%%%%%%", aside, /*MakeAbsolute=*/false);
  Interruption::addPath(std::string(aside));
  Error failure = writeFile(std::string(aside), contents);
  std::error_code error;
  if (!failure)
    if ((error = sys::fs::rename(aside, path)))
      failure = ioError("cannot write '" + path + "'", error);
  if (failure)
    sys::fs::remove(aside);
  Interruption::forgetPath(std::string(aside));
  return failure;
}
