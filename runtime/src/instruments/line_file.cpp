// Writes that are taken back where they stop half way.
#include "instruments/line_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

namespace hycrt {
namespace {

constexpr mode_t kFileMode = 0644;
constexpr int64_t kReadBytes = 1 << 16;

}  // namespace

Result<LineFile> LineFile::open(const std::string& path, const std::string& kind) {
  struct stat info{};
  const bool exists = stat(path.c_str(), &info) == 0, isRegular = !exists || S_ISREG(info.st_mode);
  // A pipe that is opened to be read as well would never lose its reader.
  const int flags = isRegular ? O_RDWR | O_CREAT : O_WRONLY;
  FileDescriptor file(::open(path.c_str(), flags | O_APPEND | O_CLOEXEC, kFileMode));
  if (!file.isOpen()) return errnoError("cannot write the " + kind + " '" + path + "'", errno);
  // Each of two runs would empty it under the other, or write into its middle.
  if (isRegular && flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return unavailableError("another run is writing the " + kind + " '" + path +
                            "'; give this one another, or wait for its end");
  }
  LineFile made(path, kind, std::move(file));
  made.isRegular_ = isRegular;
  made.wasMade_ = !exists;
  return made;
}

Status LineFile::cannot(const char* what, int error) const {
  return errnoError(std::string("cannot ") + what + " the " + kind_ + " '" + path_ + "'", error);
}

Result<size_t> LineFile::read(char* to, size_t size, int64_t offset) const {
  const ssize_t count = pread(file_.get(), to, size, offset);
  return count < 0 ? Result<size_t>(cannot("read", errno)) : Result<size_t>(static_cast<size_t>(count));
}

// Backwards, since the last line is short.
Result<int64_t> LineFile::endOfLines() const {
  struct stat info{};
  if (fstat(file_.get(), &info) != 0) return cannot("read", errno);
  std::vector<char> bytes(static_cast<size_t>(kReadBytes));
  for (int64_t end = info.st_size; end > 0;) {
    const int64_t begin = std::max<int64_t>(0, end - kReadBytes);
    const Result<size_t> count = read(bytes.data(), static_cast<size_t>(end - begin), begin);
    if (!count.ok()) return count.status();
    for (int64_t i = static_cast<int64_t>(*count); i > 0; --i) {
      if (bytes[static_cast<size_t>(i - 1)] == '\n') return begin + i;
    }
    end = begin;
  }
  return int64_t{0};
}

Status LineFile::cut(int64_t offset) {
  const bool isCut = ftruncate(file_.get(), offset) == 0 && lseek(file_.get(), offset, SEEK_SET) == offset;
  return isCut ? Status() : cannot("write", errno);
}

Status LineFile::append(const char* lines, size_t size) {
  size_t done = 0;
  while (done < size) {
    const ssize_t count = ::write(file_.get(), lines + done, size - done);
    if (count >= 0) {
      done += static_cast<size_t>(count);
      continue;
    }
    if (errno == EINTR) continue;
    const int error = errno;
    // Where that fails, too, the run that goes on drops it.
    if (const off_t at = lseek(file_.get(), 0, SEEK_CUR); isRegular_ && done > 0 && at >= 0) {
      (void)cut(at - static_cast<off_t>(done));
    }
    return cannot("write", error);
  }
  return {};
}

}  // namespace hycrt
