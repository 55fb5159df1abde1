// Opening a file beside a model one path component at a time, so that no link and no ".." is ever followed.
#include "ExternalData.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <sys/stat.h>
#include <unistd.h>

using namespace hyc::onnx;
using llvm::StringRef;

std::optional<uint64_t> hyc::onnx::parseByteCount(StringRef text) {
  uint64_t value;
  if (text.empty() || !llvm::all_of(text, llvm::isDigit) || text.getAsInteger(10, value) ||
      value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return std::nullopt;
  return value;
}

/// The components of a path that names something below a folder, or nothing if it could leave it.
static std::optional<llvm::SmallVector<StringRef>> splitInside(StringRef location, std::string &error) {
  llvm::SmallVector<StringRef> parts;
  if (location.empty() || location.starts_with("/")) {
    error = "expected a path relative to the model's folder";
    return std::nullopt;
  }
  location.split(parts, '/');
  for (StringRef part : parts)
    if (part.empty() || part == "." || part == "..") {
      error = "expected a path without empty, '.' or '..' components";
      return std::nullopt;
    }
  return parts;
}

std::optional<ExternalFile> hyc::onnx::openExternalFile(StringRef folder, StringRef location, std::string &error) {
  std::optional<llvm::SmallVector<StringRef>> parts = splitInside(location, error);
  if (!parts)
    return std::nullopt;
  int here = open(folder.str().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (size_t i = 0; here >= 0 && i < parts->size(); ++i) {
    bool last = i + 1 == parts->size();
    // A FIFO must not block, and a link must not lead elsewhere, at any level.
    int flags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (last ? 0 : O_DIRECTORY);
    int next = openat(here, (*parts)[i].str().c_str(), flags);
    int reason = errno;
    // A symbolic link where a folder is wanted is reported as "not a folder".
    struct stat status;
    bool link = next < 0 && fstatat(here, (*parts)[i].str().c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISLNK(status.st_mode);
    close(here);
    here = next;
    if (link) {
      error = "'" + (*parts)[i].str() + "' is a symbolic link; expected a plain file in the model's folder";
      return std::nullopt;
    }
    errno = reason;
  }
  if (here < 0) {
    if (errno == ENOENT)
      return ExternalFile{true, 0, -1};
    error = std::strerror(errno);
    return std::nullopt;
  }
  struct stat status;
  if (fstat(here, &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 1) {
    error = S_ISREG(status.st_mode) ? "the file has " + std::to_string(status.st_nlink) +
                                          " hard links; expected one, so that it cannot be a file from elsewhere"
                                    : "expected a plain file";
    close(here);
    return std::nullopt;
  }
  return ExternalFile{false, static_cast<uint64_t>(status.st_size), here};
}
