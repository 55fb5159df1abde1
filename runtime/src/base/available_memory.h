// How much memory processes of this host can still have.
#ifndef HYCRT_SRC_BASE_AVAILABLE_MEMORY_H_
#define HYCRT_SRC_BASE_AVAILABLE_MEMORY_H_

#include <cstdint>

namespace hycrt {

// By the kernel's estimate, and what the control groups of this process leave of it; INT64_MAX: nothing says.
int64_t availableMemory();

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_AVAILABLE_MEMORY_H_
