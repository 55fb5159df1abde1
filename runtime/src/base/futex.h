// Sleeping on a word of shared memory until it changes.
#ifndef HYCRT_SRC_BASE_FUTEX_H_
#define HYCRT_SRC_BASE_FUTEX_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace hycrt {

// Returns when the word no longer holds `seen`, when it is woken, or after `milliseconds`; also without a reason.
inline void futexWait(std::atomic<uint32_t>* word, uint32_t seen, int milliseconds) {
  timespec limit{milliseconds / 1000, milliseconds % 1000 * 1000000L};
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT, seen, &limit, nullptr, 0);
}

inline void futexWakeAll(std::atomic<uint32_t>* word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Tells the core that this is a spin loop.
inline void spinPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_FUTEX_H_
