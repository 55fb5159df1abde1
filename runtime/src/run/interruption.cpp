// Signals as bits, and the arithmetic of the time that is left.
#include "run/interruption.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "base/clock.h"

namespace hycrt {
namespace {

constexpr char kEndVariable[] = "SLURM_JOB_END_TIME";
constexpr double kAssumedBytesPerSecond = 100e6;  // of a disk that nothing is known of
constexpr double kSpare = 2, kSpareSeconds = 1;   // times what has been measured, and for what has not

std::atomic<uint32_t> signalled{0};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

void onCheckpointSignal(int) { signalled.fetch_or(kWriteCheckpoint); }

void onRelayoutSignal(int) { signalled.fetch_or(kRelayout); }

// The first process of a container is ended by no signal of which it has not said so.
bool isFirstProcess() { return getpid() == 1; }
void endAsBySignal(int signal) { _exit(128 + signal); }

void onEndSignalAgain(int) { signalled.fetch_or(kEndRun); }

void onEndSignal(int signal) {
  if ((signalled.fetch_or(kEndRun) & kEndRun) == 0) return;
  if (isFirstProcess()) endAsBySignal(signal);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

void take(int signal, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

int64_t wallClockNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

}  // namespace

void takeSignalsOfFirstProcess() {
  if (!isFirstProcess()) return;
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction now{};
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) take(signal, endAsBySignal);
  }
}
void takeCheckpointSignal() { take(SIGUSR2, onCheckpointSignal); }
void takeEndSignal(SecondEnd second) { take(SIGTERM, second == SecondEnd::kAtOnce ? onEndSignal : onEndSignalAgain); }
void takeRelayoutSignal() { take(relayoutSignal(), onRelayoutSignal); }
int relayoutSignal() { return SIGRTMIN; }
// A wish to end stays, so that a second signal is known as one.
uint32_t takeSignalledWishes() { return signalled.fetch_and(kEndRun); }

Result<TimeLimit> TimeLimit::of(const RunOptions& options, int64_t stateBytes) {
  TimeLimit limit;
  const int64_t now = monotonicNs();
  limit.checkpoint_ = static_cast<double>(stateBytes) / kAssumedBytesPerSecond;
  if (options.timeLimit > 0) limit.endNs_ = now + options.timeLimit * 1000000000;
  const char* const text = options.checkpoint.empty() ? nullptr : std::getenv(kEndVariable);
  if (!text || !*text) return limit;
  char* end = nullptr;
  errno = 0;
  const long long seconds = std::strtoll(text, &end, 10);
  constexpr long long kMost = 1LL << 33;
  if (errno != 0 || *end != '\0' || seconds <= 0 || seconds > kMost) {
    return usageError(std::string(kEndVariable) + " is '" + text +
                      "', expected the seconds since 1970 at which the "
                      "job will end; unset it, or mend it");
  }
  const int64_t endNs = now + (int64_t{seconds} * 1000000000 - wallClockNs());
  limit.endNs_ = limit.endNs_ < 0 ? std::max<int64_t>(0, endNs) : std::min(limit.endNs_, std::max<int64_t>(0, endNs));
  return limit;
}

void TimeLimit::checkpointTook(double seconds) {
  checkpoint_ = hasWritten_ ? std::max(checkpoint_, seconds) : seconds;
  hasWritten_ = true;
}

bool TimeLimit::isUpIn(double seconds, bool isWriting) const {
  if (endNs_ < 0) return false;
  const double needed = seconds + kSpare * (step_ + checkpoint_) + (isWriting ? checkpoint_ : 0) + kSpareSeconds;
  return monotonicNs() + static_cast<int64_t>(needed * 1e9) >= endNs_;
}

std::string causeOfEnd(uint32_t wishes) {
  return wishes & kEndRun ? "SIGTERM" : wishes & kTimeIsUp ? "the time limit" : kAnotherLayout;
}

std::string causeOfCheckpoint(uint32_t wishes, const RunOptions& options, bool isLast) {
  if (wishes & kEndingWishes) return causeOfEnd(wishes);
  if (wishes & kWriteCheckpoint) return "SIGUSR2";
  return isLast ? "the last step" : "--checkpoint-every " + std::to_string(options.checkpointEvery);
}

}  // namespace hycrt
