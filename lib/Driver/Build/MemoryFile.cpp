// An anonymous file, reached by this process's table of descriptors.
#include "Build/MemoryFile.h"

#include <sys/mman.h>
#include <unistd.h>

using namespace hyc;

MemoryFile::MemoryFile() : descriptor(::memfd_create("hyc-child", MFD_CLOEXEC)) {
  path = descriptor < 0 ? "/dev/null" : "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(descriptor);
}

MemoryFile::~MemoryFile() {
  if (descriptor >= 0)
    ::close(descriptor);
}

std::string MemoryFile::read(size_t most) const {
  std::string text(most, '\0');
  size_t size = 0;
  while (descriptor >= 0 && size < most) {
    const ssize_t got = ::pread(descriptor, text.data() + size, most - size, static_cast<off_t>(size));
    if (got <= 0)
      break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}
