// Descriptors, and reads and writes that go on until all is there.
#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace hycrt {
namespace {

std::string folderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

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

Result<FileDescriptor> openForReading(const std::string& path) {
  // Non-blocking, so that a FIFO is refused and not waited for.
  FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.isOpen()) return errnoError("cannot open '" + path + "'", errno);
  struct stat info;
  if (fstat(file.get(), &info) != 0) return errnoError("cannot examine '" + path + "'", errno);
  if (!S_ISREG(info.st_mode)) return ioError("'" + path + "' is not a regular file");
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
    const ssize_t count = pread(file.get(), next + done, static_cast<size_t>(bytes - done), offset + done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errnoError("cannot read '" + path + "'", errno);
    if (count == 0) {
      return dataError("'" + path + "' ends at byte " + std::to_string(offset + done) + ", expected at least " +
                       std::to_string(offset + bytes));
    }
    done += count;
  }
  return {};
}

Status writeAt(const FileDescriptor& file, const std::string& path, const void* from, int64_t bytes, int64_t offset) {
  const char* next = static_cast<const char*>(from);
  for (int64_t done = 0; done < bytes;) {
    const ssize_t count = pwrite(file.get(), next + done, static_cast<size_t>(bytes - done), offset + done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errnoError("cannot write '" + path + "'", errno);
    done += count;
  }
  return {};
}

Result<std::string> readWholeFile(const std::string& path, int64_t maxBytes) {
  Result<FileDescriptor> file = openForReading(path);
  if (!file.ok()) return file.status();
  Result<int64_t> size = fileSize(*file, path);
  if (!size.ok()) return size.status();
  if (*size > maxBytes) {
    return dataError("'" + path + "' has " + std::to_string(*size) + " bytes, expected at most " +
                     std::to_string(maxBytes));
  }
  std::string text(static_cast<size_t>(*size), '\0');
  HYCRT_RETURN_IF_ERROR(readAt(*file, path, text.data(), *size, 0));
  return text;
}

Result<FileDescriptor> openFolderOf(const std::string& path) {
  FileDescriptor folder(open(folderOf(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.isOpen()) return errnoError("cannot open the folder '" + folderOf(path) + "'", errno);
  return folder;
}

Status syncFolderOf(const std::string& path) {
  Result<FileDescriptor> folder = openFolderOf(path);
  if (!folder.ok()) return folder.status();
  if (fsync(folder->get()) != 0) return errnoError("cannot sync the folder of '" + path + "'", errno);
  return {};
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

Status checkWritable(const std::string& path) {
  struct stat info;
  if (path.empty()) return ioError("an output file's name is empty");
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) return ioError("'" + path + "' is not a regular file");
  return checkFolderWritable(path);
}

}  // namespace hycrt
