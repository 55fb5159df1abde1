// Descriptors, and reads and writes that go on until all is there.
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/progress.h"

namespace hycrt {
namespace {

constexpr mode_t kFileMode = 0644, kFolderMode = 0755;

std::string folderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// So that a long file shows progress.
size_t atMost(int64_t bytes) { return static_cast<size_t>(std::min(bytes, int64_t{64} << 20)); }

std::string nameIn(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

int FileDescriptor::release() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

void FileDescriptor::reset(int fd) {
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
}

namespace {

const char* kindOf(mode_t mode) {
  return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a FIFO" : S_ISSOCK(mode) ? "a socket" : "a device";
}

}  // namespace

Result<FileDescriptor> openForReading(const std::string& path) {
  // Non-blocking, so that a FIFO is refused and not waited for.
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.isOpen()) return errnoError("cannot open '" + path + "'", errno);
  struct stat info;
  if (fstat(file.get(), &info) != 0) return errnoError("cannot examine '" + path + "'", errno);
  if (!S_ISREG(info.st_mode)) {
    return dataError("'" + path + "' is " + kindOf(info.st_mode) + ", expected a regular file");
  }
  return file;
}

Result<int64_t> fileSize(const FileDescriptor& file, const std::string& path) {
  struct stat info;
  if (fstat(file.get(), &info) != 0) return errnoError("cannot examine '" + path + "'", errno);
  return static_cast<int64_t>(info.st_size);
}

Status readAt(const FileDescriptor& file, const std::string& path, void* to, int64_t bytes, int64_t offset) {
  char* next = static_cast<char*>(to);
  for (int64_t done = 0; done < bytes;) {
    const ssize_t count = pread(file.get(), next + done, atMost(bytes - done), offset + done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errnoError("cannot read '" + path + "'", errno);
    if (count == 0) {
      return dataError("'" + path + "' ends at byte " + std::to_string(offset + done) + ", expected at least " +
                       std::to_string(offset + bytes));
    }
    done += count;
    noteProgress();
  }
  return {};
}

Status writeAt(const FileDescriptor& file, const std::string& path, const void* from, int64_t bytes, int64_t offset) {
  const char* next = static_cast<const char*>(from);
  for (int64_t done = 0; done < bytes;) {
    const ssize_t count = pwrite(file.get(), next + done, atMost(bytes - done), offset + done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errnoError("cannot write '" + path + "'", errno);
    done += count;
    noteProgress();
  }
  return {};
}

Result<std::string> readWholeFile(const std::string& path, int64_t maxBytes) {
  Result<FileDescriptor> file = openForReading(path);
  if (!file.ok()) return file.status();
  return readWholeFile(*file, path, maxBytes);
}

Result<std::string> readWholeFile(const FileDescriptor& file, const std::string& path, int64_t maxBytes) {
  Result<int64_t> size = fileSize(file, path);
  if (!size.ok()) return size.status();
  if (*size > maxBytes) {
    return dataError("'" + path + "' has " + std::to_string(*size) + " bytes, expected at most " +
                     std::to_string(maxBytes));
  }
  std::string text(static_cast<size_t>(*size), '\0');
  HYCRT_RETURN_IF_ERROR(readAt(file, path, text.data(), *size, 0));
  return text;
}

Result<FileDescriptor> openFolderOf(const std::string& path, FolderLink link) {
  const int nofollow = link == FolderLink::kRefuse ? O_NOFOLLOW : 0;
  FileDescriptor folder(open(folderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | nofollow));
  if (!folder.isOpen()) return errnoError("cannot open the folder '" + folderOf(path) + "'", errno);
  return folder;
}

Result<FileDescriptor> createNew(const std::string& path, FolderLink link) {
  Result<FileDescriptor> folder = openFolderOf(path, link);
  if (!folder.ok()) return folder.status();
  FileDescriptor file(
      openat(folder->get(), nameIn(path).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode));
  if (!file.isOpen()) return errnoError("cannot create '" + path + "'", errno);
  return file;
}

Result<FileDescriptor> openMade(const std::string& path, FolderLink link) {
  Result<FileDescriptor> folder = openFolderOf(path, link);
  if (!folder.ok()) return folder.status();
  FileDescriptor file(openat(folder->get(), nameIn(path).c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.isOpen()) return errnoError("cannot open '" + path + "'", errno);
  struct stat info;
  if (fstat(file.get(), &info) != 0) return errnoError("cannot examine '" + path + "'", errno);
  if (S_ISREG(info.st_mode) && info.st_uid == geteuid() && info.st_nlink == 1) return file;
  return ioError("'" + path + "' is not the file that rank 0 has made");
}

std::string partialName(const std::string& path, const std::string& run) { return path + "." + run + ".partial"; }

Status publishFile(const std::string& partial, const std::string& path) {
  HYCRT_RETURN_IF_ERROR(checkNoLink(path));
  if (rename(partial.c_str(), path.c_str()) != 0) return errnoError("cannot rename to '" + path + "'", errno);
  return syncFolderOf(path);
}

Status publishText(const std::string& partial, const std::string& path, const std::string& text) {
  Result<FileDescriptor> file = createNew(partial);
  if (!file.ok()) return file.status();
  Status status = writeAt(*file, partial, text.data(), static_cast<int64_t>(text.size()), 0);
  if (status.ok() && fsync(file->get()) != 0) status = errnoError("cannot sync '" + partial + "'", errno);
  if (status.ok()) status = publishFile(partial, path);
  if (!status.ok()) unlink(partial.c_str());
  return status;
}

Status syncFolderOf(const std::string& path) {
  Result<FileDescriptor> folder = openFolderOf(path);
  if (!folder.ok()) return folder.status();
  if (fsync(folder->get()) != 0) return errnoError("cannot sync the folder of '" + path + "'", errno);
  return {};
}

Status createFolder(const std::string& path) {
  if (mkdir(path.c_str(), kFolderMode) == 0) return {};
  return errnoError("cannot create the folder '" + path + "'", errno);
}

Status makeFolders(const std::string& path) {
  const std::string whole = path.substr(0, std::max(path.find_last_not_of('/') + 1, size_t{1}));
  for (size_t slash = whole.find('/', 1);; slash = whole.find('/', slash + 1)) {
    const std::string part = whole.substr(0, slash);
    if (mkdir(part.c_str(), kFolderMode) != 0 && errno != EEXIST) {
      // One that is there may be refused for another reason, as on a disk that is only read.
      const int error = errno;
      struct stat info;
      if (stat(part.c_str(), &info) != 0) return errnoError("cannot create the folder '" + part + "'", error);
    }
    if (slash == std::string::npos) return {};
  }
}

bool isSameFile(const std::string& a, const std::string& b) {
  struct stat first, second;
  if (stat(a.c_str(), &first) != 0 || stat(b.c_str(), &second) != 0) return a == b;
  return S_ISREG(first.st_mode) && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

Status checkFolderWritable(const std::string& path) {
  if (access(folderOf(path).c_str(), W_OK | X_OK) == 0) return {};
  return errnoError("cannot write into '" + folderOf(path) + "'", errno);
}

Status checkNoLink(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0 || !S_ISLNK(info.st_mode)) return {};
  return ioError("'" + path +
                 "' is a link, which is neither followed nor replaced; name what it leads to, or remove it");
}

Status checkWritable(const std::string& path) {
  struct stat info;
  if (path.empty()) return ioError("an output file's name is empty");
  HYCRT_RETURN_IF_ERROR(checkNoLink(path));
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) return ioError("'" + path + "' is not a regular file");
  return checkFolderWritable(path);
}

}  // namespace hycrt
