// Locks of whole files by flock, which the kernel drops with the last descriptor.
#include "base/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace hycrt {
namespace {

constexpr mode_t kLockMode = 0600;
constexpr int kAttempts = 100;  // of a file that its last holder removes meanwhile

std::string hostName() {
  char name[256] = "";
  return gethostname(name, sizeof name - 1) == 0 ? name : "?";
}

std::string textOf(const FileDescriptor& file) {
  char text[512];
  const ssize_t count = pread(file.get(), text, sizeof text, 0);
  std::string holder(text, count > 0 ? static_cast<size_t>(count) : 0);
  for (char& c : holder) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  }
  return holder.empty() ? "another process" : holder;
}

// Whether what is open is what has the name now.
bool isStillNamed(const FileDescriptor& file, const FileDescriptor& folder, const std::string& name) {
  struct stat opened, named;
  return fstat(file.get(), &opened) == 0 && fstatat(folder.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  release();
  folder_ = std::move(other.folder_);
  file_ = std::move(other.file_);
  name_ = std::move(other.name_);
  isExclusive_ = other.isExclusive_;
  return *this;
}

// The name goes first: whoever opens the file afterwards makes another, and whoever has it open finds it without a
// name.
void FileLock::release() {
  if (!isHeld()) return;
  if (isStillNamed(file_, folder_, name_)) unlinkat(folder_.get(), name_.c_str(), 0);
  file_.reset(-1);
  folder_.reset(-1);
}

Result<FileLock> FileLock::take(const std::string& path, const std::string& purpose) {
  FileLock lock;
  Result<FileDescriptor> folder = openFolderOf(path);
  if (!folder.ok()) return folder.status();
  lock.name_ = path.substr(path.rfind('/') + 1);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    FileDescriptor file(
        openat(folder->get(), lock.name_.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, kLockMode));
    if (!file.isOpen()) return errnoError("cannot make the lock '" + path + "'", errno);
    struct stat info;
    if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return ioError("'" + path + "' is not a regular file");
    lock.isExclusive_ = flock(file.get(), LOCK_EX | LOCK_NB) == 0;
    if (!lock.isExclusive_ && errno != ENOLCK && errno != EOPNOTSUPP) {
      if (errno != EWOULDBLOCK) return errnoError("cannot lock '" + path + "'", errno);
      return unavailableError("'" + path + "' is held by " + textOf(file));
    }
    if (!isStillNamed(file, *folder, lock.name_)) continue;
    const std::string text = "process " + std::to_string(getpid()) + " on " + hostName() + ", " + purpose;
    if (ftruncate(file.get(), 0) != 0) return errnoError("cannot write '" + path + "'", errno);
    HYCRT_RETURN_IF_ERROR(writeAt(file, path, text.data(), static_cast<int64_t>(text.size()), 0));
    lock.file_ = std::move(file);
    lock.folder_ = std::move(*folder);
    return lock;
  }
  return unavailableError("'" + path + "' changes hands all the time; try again");
}

}  // namespace hycrt
