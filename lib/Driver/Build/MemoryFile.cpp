// An anonymous file, reached by this process's table of descriptors.
#include "Build/MemoryFile.h"

#include "hyc/Support/DriverError.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace hyc;

MemoryFile::MemoryFile(int descriptor)
    : descriptor(descriptor), path("/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(descriptor)) {}

MemoryFile::~MemoryFile() { ::close(descriptor); }

llvm::Expected<std::unique_ptr<MemoryFile>> MemoryFile::create() {
  const int descriptor = ::memfd_create("hyc-child", MFD_CLOEXEC);
  if (descriptor < 0)
    return makeError(ExitCode::Io, llvm::Twine("cannot keep what the host compiler says in memory: ") +
                                       std::strerror(errno) + " (memfd_create)");
  std::unique_ptr<MemoryFile> file(new MemoryFile(descriptor));
  if (::access(file->path.c_str(), W_OK) != 0)
    return makeError(ExitCode::Io,
                     "cannot open '" + file->path + "': " + std::strerror(errno) + "; is /proc mounted here?");
  return file;
}

std::string MemoryFile::read(size_t most) const {
  std::string text(most, '\0');
  size_t size = 0;
  while (size < most) {
    const ssize_t got = ::pread(descriptor, text.data() + size, most - size, static_cast<off_t>(size));
    if (got <= 0)
      break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}
