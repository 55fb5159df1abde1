// One open, one fstat of what it gave, then a mapping of as many bytes as that said.
#include "hyc/Support/InputFile.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace llvm;
using namespace hyc;

static StringRef describeKind(mode_t mode) {
  if (S_ISDIR(mode))
    return "a folder";
  if (S_ISFIFO(mode))
    return "a FIFO";
  if (S_ISSOCK(mode))
    return "a socket";
  return "a device";
}

Expected<std::unique_ptr<MemoryBuffer>> hyc::openInputFile(StringRef path, uint64_t most, bool endsWithNul) {
  // Not to wait for a FIFO's other end, nor to take a terminal.
  int descriptor = open(path.str().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0)
    return makeError(ExitCode::Io, std::error_code(errno, std::generic_category()).message());
  llvm::scope_exit closeFile([&] { close(descriptor); });
  struct stat status;
  if (fstat(descriptor, &status) != 0)
    return makeError(ExitCode::Io, std::error_code(errno, std::generic_category()).message());
  if (!S_ISREG(status.st_mode))
    return makeError(ExitCode::Data, "is " + describeKind(status.st_mode) +
                                         ", expected a regular file; write its contents to one first");
  uint64_t bytes = static_cast<uint64_t>(status.st_size);
  if (bytes > most)
    return makeError(ExitCode::Data, "has " + Twine(bytes) + " bytes, expected at most " + Twine(most));
  auto buffer =
      MemoryBuffer::getOpenFile(sys::fs::convertFDToNativeFile(descriptor), path, bytes, /*RequiresNullTerminator=*/
                                endsWithNul);
  if (!buffer)
    return makeError(ExitCode::Io, buffer.getError().message());
  // A file of /proc has no size until it is read.
  if ((*buffer)->getBufferSize() != bytes)
    return makeError(ExitCode::Data, "has another size than it says, expected a regular file");
  return std::move(*buffer);
}
