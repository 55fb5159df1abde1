// Progress: whether this process goes on at all, counted where anything long takes another step. Ranks that wait for
// this one are told of the count (comm/heartbeat.h), and wait on while it moves.
#ifndef HYCRT_SRC_BASE_PROGRESS_H_
#define HYCRT_SRC_BASE_PROGRESS_H_

#include <atomic>
#include <cstdint>

namespace hycrt {

inline std::atomic<uint64_t>& progressCount() {
  static std::atomic<uint64_t> count{0};
  return count;
}

// An exchange, an instruction of the schedule, or bytes of a file are done. Any thread may say so.
inline void noteProgress() { progressCount().fetch_add(1, std::memory_order_relaxed); }

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_PROGRESS_H_
