// Staging, what may be replaced, and the renames at the end.
#include "Folder/OutputFolder.h"

#include "Folder/UniqueName.h"

#include "hyc/Driver/Interruption.h"
#include "hyc/Support/DriverError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <unistd.h>

using namespace llvm;
using namespace hyc;
namespace fs = std::filesystem;

static constexpr const char *kManifest = "manifest.json", *kPlan = "plan.json", *kBackup = "plan.json.bak";
/// What every compilation into a folder writes, or leaves no valid folder without: looked at before anything is
/// computed.
static constexpr const char *kAlwaysThere[] = {kManifest, "report.txt", "memory.json", "plan.html", kPlan, kLedgerName};

static constexpr StringLiteral kStagingPrefix = ".hyc-compile-";
static constexpr const char *kLock = "lock";
/// What shows that a staging folder is one.
static constexpr StringLiteral kLockText = "staging folder of a compilation; locked while it is in use\n";

/// Whether a command that is given `input` reads `file`: it is that file, or lies in that folder (and not deeper, since
/// an output may well be made in a model's folder).
static bool isReadAs(const fs::path &input, const fs::path &file) {
  std::error_code ignored;
  return fs::equivalent(input, file, ignored) ||
         (fs::is_directory(input, ignored) && fs::equivalent(input, file.parent_path(), ignored));
}

static std::string describe(const InputPath &input) {
  return (input.flag.empty() ? "the input " : input.flag + " ") + input.path;
}

//===----------------------------------------------------------------------===//
// Opening
//===----------------------------------------------------------------------===//

/// Removes staging folders whose compilation is gone: their locks can be had.
static void removeAbandonedStaging(const std::string &folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (!StringRef(entry->path().filename().string()).starts_with(kStagingPrefix) ||
        !fs::is_directory(entry->symlink_status(error)))
      continue;
    int lock = ::open((entry->path() / kLock).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (lock < 0)
      continue;
    char text[kLockText.size() + 1];
    const bool isStaging = ::read(lock, text, sizeof text) == static_cast<ssize_t>(kLockText.size()) &&
                           StringRef(text, kLockText.size()) == kLockText;
    if (isStaging && ::flock(lock, LOCK_EX | LOCK_NB) == 0) {
      std::error_code ignored;
      fs::remove_all(entry->path(), ignored);
    }
    ::close(lock);
  }
}

Expected<OutputFolder> OutputFolder::open(StringRef path, ArrayRef<InputPath> inputs) {
  std::error_code error;
  fs::path target = fs::absolute(path.str(), error).lexically_normal();
  if (target.filename().empty())
    target = target.parent_path();
  for (const InputPath &input : inputs)
    if (fs::equivalent(target, input.path, error))
      return usageError("-o " + path + " is " + describe(input) + "; name a folder for the output");
  fs::file_status status = fs::status(target, error);
  if (fs::exists(status) && !fs::is_directory(status))
    return usageError("-o " + path + " is a file; expected a folder, which is created where it does not exist");

  OutputFolder result;
  result.folder = target.string();
  result.inputs.assign(inputs.begin(), inputs.end());
  if (Error error = result.createFolders())
    return error;
  // Before anything in it is looked at, which another compilation may be about to replace.
  if (Error error = result.lockFolder())
    return error;
  Expected<FileLedger> ledger = FileLedger::read(result.folder);
  if (!ledger)
    return ledger.takeError();
  result.earlier = std::move(*ledger);
  for (const std::string &relative : result.earlier.paths())
    if (Error error = result.checkInputs(relative))
      return error;
  for (const char *relative : kAlwaysThere)
    if (Error error = result.checkPlace(relative))
      return error;
  removeAbandonedStaging(result.folder);
  if (Error error = result.createStaging())
    return error;
  return result;
}

Error OutputFolder::createFolders() {
  std::error_code error;
  for (fs::path part = folder; !part.empty() && !fs::exists(part, error); part = part.parent_path())
    created.insert(created.begin(), part.string());
  for (const std::string &part : created)
    if (Interruption::addFolder(part); !fs::create_directory(part, error) && error)
      return ioError("cannot create folder '" + part + "'", error);
  return Error::success();
}

/// Until this compilation ends. Where the file system locks no folders, nobody is refused.
Error OutputFolder::lockFolder() {
  folderLock = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folderLock >= 0 && ::flock(folderLock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return makeError(ExitCode::Unavailable, "another hyc-compile is writing in '" + folder +
                                                "'; try again when it has ended, or name another folder with -o");
  return Error::success();
}

Error OutputFolder::createStaging() {
  const std::string path = folder + "/" + uniqueName(kStagingPrefix.str());
  Interruption::addPath(path);
  std::error_code error;
  if (!fs::create_directory(path, error))
    return ioError("cannot write in folder '" + folder + "'", error);
  staging = path;
  caretaker = std::make_unique<Caretaker>(staging, created);
  // Locked before it says what it is: nobody takes it for abandoned in between.
  lock = ::open((staging + "/" + kLock).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (lock < 0 || ::flock(lock, LOCK_EX | LOCK_NB) != 0 ||
      ::write(lock, kLockText.data(), kLockText.size()) != static_cast<ssize_t>(kLockText.size()))
    return ioError("cannot write in folder '" + folder + "'", std::error_code(errno, std::generic_category()));
  return Error::success();
}

OutputFolder::OutputFolder(OutputFolder &&other)
    : folder(std::move(other.folder)), staging(std::exchange(other.staging, "")), inputs(std::move(other.inputs)),
      earlier(std::move(other.earlier)), caretaker(std::move(other.caretaker)), lock(std::exchange(other.lock, -1)),
      folderLock(std::exchange(other.folderLock, -1)), created(std::exchange(other.created, {})) {}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  caretaker.reset();
  if (!staging.empty()) {
    fs::remove_all(staging, ignored);
    Interruption::forgetPath(staging);
  }
  for (int held : {lock, folderLock})
    if (held >= 0)
      ::close(held);
  // Only what is still empty goes.
  for (auto part = created.rbegin(); part != created.rend(); ++part) {
    fs::remove(*part, ignored);
    Interruption::forgetFolder(*part);
  }
}

//===----------------------------------------------------------------------===//
// What may be replaced
//===----------------------------------------------------------------------===//

bool OutputFolder::isBackedUp(const std::string &relative) const {
  std::error_code ignored;
  return relative == kPlan && any_of(inputs, [&](const InputPath &input) {
           return input.flag == "--plan" && fs::equivalent(input.path, folder + "/" + relative, ignored);
         });
}

Error OutputFolder::checkInputs(const std::string &relative) const {
  if (isBackedUp(relative))
    return Error::success();
  for (const InputPath &input : inputs)
    if (isReadAs(input.path, fs::path(folder) / relative))
      return usageError("-o " + folder + " would replace " + describe(input) + " ('" + relative +
                        "' in it is an output of an earlier compilation); name another folder");
  return Error::success();
}

Error OutputFolder::checkPlace(const std::string &relative) const {
  std::error_code error;
  // A folder on the way may be no link: what lies behind it is somebody else's.
  fs::path place = folder;
  for (const fs::path &part : fs::path(relative).parent_path()) {
    place /= part;
    fs::file_status status = fs::symlink_status(place, error);
    if (fs::exists(status) && !fs::is_directory(status))
      return usageError("'" + place.string() +
                        "' is in the way of a folder; move it away, or name another folder with -o");
  }
  place = fs::path(folder) / relative;
  if (!fs::exists(fs::symlink_status(place, error)))
    return Error::success();
  if (Error error = checkInputs(relative))
    return error;
  if (relative == kLedgerName || earlier.isUnchanged(folder, relative))
    return Error::success();
  if (isBackedUp(relative))
    return checkPlace(kBackup);
  if (!earlier.lists(relative))
    return usageError("'" + place.string() + "' is in the way and was not made by hyc-compile; move it away, or name " +
                      "another folder with -o");
  return usageError("'" + place.string() + "' was changed since hyc-compile made it; move it away, " +
                    (relative == kPlan ? "pass it with --plan, " : "") + "or name another folder with -o");
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

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

/// The plain files below `top`, relative to it.
static Expected<std::set<std::string>> filesBelow(const fs::path &top) {
  std::set<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(top, error), end; !error && entry != end; entry.increment(error))
    if (!entry->is_directory(error))
      files.insert(entry->path().lexically_relative(top).string());
  if (error)
    return ioError("cannot read folder '" + top.string() + "'", error);
  files.erase(kLock);
  return files;
}

Error OutputFolder::commit() {
  Expected<std::set<std::string>> made = filesBelow(staging);
  if (!made)
    return made.takeError();
  FileLedger ledger;
  for (const std::string &relative : *made) {
    if (Error error = checkPlace(relative))
      return error;
    if (Error error = ledger.add(staging, relative))
      return error;
  }
  // A manifest that somebody changed would stay without the programs that it is about.
  if (Error error = checkPlace(kManifest))
    return error;
  const bool backsUp = made->count(kPlan) && isBackedUp(kPlan);
  if (backsUp) {
    std::error_code error;
    fs::copy_file(fs::path(folder) / kPlan, fs::path(staging) / kBackup, error);
    if (error)
      return ioError("cannot keep '" + std::string(kPlan) + "' as '" + kBackup + "'", error);
    if (Error error = ledger.add(staging, kBackup))
      return error;
    made->insert(kBackup);
  }
  // Until all is in its place, the ledger knows both what was there and what comes.
  FileLedger both = earlier;
  both.addAll(ledger);
  if (Error error = writeFileWhole(folder + "/" + kLedgerName, both.toJson()))
    return error;
  if (Error error = replace(*made))
    return error;
  if (Error error = writeFileWhole(folder + "/" + kLedgerName, ledger.toJson()))
    return error;
  for (const std::string &part : std::exchange(created, {}))
    Interruption::forgetFolder(part);
  return Error::success();
}

Error OutputFolder::replace(const std::set<std::string> &made) {
  std::error_code error;
  auto move = [&](const fs::path &from, const fs::path &to, const Twine &what) -> Error {
    fs::create_directories(to.parent_path(), error);
    if (!error)
      fs::rename(from, to, error);
    return error ? ioError("cannot " + what, error) : Error::success();
  };
  caretaker.reset(); // from here on the staging folder holds what was there before, too
  // A folder without a manifest is not runnable, so that the old one goes first and the new one comes last.
  std::vector<std::string> old{kManifest};
  for (const std::string &relative : earlier.paths())
    if (relative != kManifest)
      old.push_back(relative);
  const fs::path top(folder), replaced = fs::path(staging) / "replaced";
  for (const std::string &relative : old) {
    const bool isReplaced = made.count(relative) && fs::exists(fs::symlink_status(top / relative, error));
    if (!isReplaced && !earlier.isUnchanged(folder, relative))
      continue; // gone, or somebody's by now
    if (Error failed = move(top / relative, replaced / relative, "replace '" + folder + "/" + relative + "'"))
      return failed;
  }
  for (const std::string &relative : made)
    if (relative != kManifest)
      if (Error failed =
              move(fs::path(staging) / relative, top / relative, "move '" + relative + "' to '" + folder + "'"))
        return failed;
  if (made.count(kManifest))
    if (Error failed = move(fs::path(staging) / kManifest, top / kManifest, "move the manifest to '" + folder + "'"))
      return failed;
  removeEmptyFolders();
  return Error::success();
}

void OutputFolder::removeEmptyFolders() const {
  std::error_code ignored;
  for (const std::string &relative : earlier.paths())
    for (fs::path parent = fs::path(relative).parent_path(); !parent.empty(); parent = parent.parent_path())
      fs::remove(fs::path(folder) / parent, ignored); // removes no folder that holds anything
}

Error hyc::writeFileWhole(StringRef path, StringRef contents, ArrayRef<InputPath> inputs) {
  std::error_code error;
  for (const InputPath &input : inputs)
    if (fs::equivalent(path.str(), input.path, error))
      return usageError("-o " + path + " is " + describe(input) + "; name another file for the output");
  fs::file_status status = fs::status(path.str(), error);
  if (fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status))
    return writeFile(path.str(), contents); // a device or a pipe
  // Through a link, as compilers do.
  const fs::path target = fs::exists(status) ? fs::canonical(path.str(), error) : fs::path(path.str());
  // Of its own name, which a target of the longest that there may be leaves no room to lengthen.
  const std::string aside = (target.parent_path() / uniqueName(".hyc-")).string();
  Interruption::addPath(aside);
  Error failure = writeFile(aside, contents);
  if (!failure)
    if ((error = sys::fs::rename(aside, target.string())))
      failure = ioError("cannot write '" + path + "'", error);
  if (failure)
    sys::fs::remove(aside);
  Interruption::forgetPath(aside);
  return failure;
}
