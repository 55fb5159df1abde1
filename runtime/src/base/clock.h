// The clock that the ranks of a machine share.
#ifndef HYCRT_SRC_BASE_CLOCK_H_
#define HYCRT_SRC_BASE_CLOCK_H_

#include <time.h>

#include <cstdint>

namespace hycrt {

inline int64_t monotonicNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

inline int64_t monotonicMs() { return monotonicNs() / 1000000; }

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_CLOCK_H_
