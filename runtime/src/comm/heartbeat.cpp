// The thread that beats. Its stack and one store in 200 ms are all that it costs.
#include "comm/heartbeat.h"

#include <csignal>

#include "base/clock.h"
#include "base/futex.h"
#include "base/limits.h"
#include "base/progress.h"
#include "base/threads.h"

namespace hycrt {

static constexpr int kBeatMs = 200;

Status Heartbeat::start(RankSigns& signs) {
  return startThread("heartbeats", [this, &signs] { run(signs); }, &thread_);
}

void Heartbeat::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(1, std::memory_order_release);
  futexWakeAll(&stopping_);
  thread_.join();
}

void Heartbeat::run(RankSigns& signs) {
  // Handlers of whoever embeds the runtime belong on threads of theirs.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  leaveThreadPlan();
  while (!stopping_.load(std::memory_order_acquire)) {
    signs.moved.store(progressCount().load(std::memory_order_relaxed), std::memory_order_relaxed);
    signs.beatMs.store(monotonicMs(), std::memory_order_release);
    futexWait(&stopping_, 0, kBeatMs);
  }
}

}  // namespace hycrt
