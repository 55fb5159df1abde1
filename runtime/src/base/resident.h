// ResidentMemory: the pages that this process has in memory, those it shares with others included, as often as a step.
#ifndef HYCRT_SRC_BASE_RESIDENT_H_
#define HYCRT_SRC_BASE_RESIDENT_H_

#include <cstdint>

#include "base/file.h"

namespace hycrt {

class ResidentMemory {
 public:
  ResidentMemory();
  // 0: the kernel does not say. Allocates nothing.
  int64_t bytes() const;

 private:
  FileDescriptor file_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_RESIDENT_H_
