// /proc/self/statm: "size resident …", in pages.
#include "base/resident.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

namespace hycrt {

ResidentMemory::ResidentMemory() : file_(open("/proc/self/statm", O_RDONLY | O_CLOEXEC)) {}

int64_t ResidentMemory::bytes() const {
  char text[128];
  const ssize_t count = pread(file_.get(), text, sizeof text - 1, 0);
  if (count <= 0) return 0;
  text[count] = '\0';
  char* resident = nullptr;
  std::strtoll(text, &resident, 10);
  return std::strtoll(resident, nullptr, 10) * sysconf(_SC_PAGESIZE);
}

}  // namespace hycrt
