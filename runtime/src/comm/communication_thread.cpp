// The thread on which collectives progress while the rank computes.
//
// It takes whatever every member has published, channel by channel, so that one group's slow member does not hold up
// another group. It never waits for a peer in particular: a peer that is lost is noticed by the caller, in wait().
#include "base/futex.h"
#include "base/threads.h"
#include "comm/communicator.h"

namespace hycrt {

namespace {
constexpr int kNapMs = 100;  // a ring that is missed costs no more
}

void Communicator::startThread() {
  thread_ = std::thread([this] { runThread(); });
}

void Communicator::stopThread() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  ringSelf();
  thread_.join();
}

void Communicator::runThread() {
  leaveThreadPlan();
  const auto hasWork = [&] {
    if (stopping_) return true;
    for (const Channel& channel : channels_) {
      const uint64_t item = channel.worked;
      if (channel.isGroup && item < channel.started && isPublishedByAll(channel, item)) return true;
    }
    return false;
  };
  while (!stopping_ && !threadFailed_) {
    if (!advance()) sleepUntilRung(hasWork);
  }
}

// Works on one item of every channel that has one ready; whether there was any.
bool Communicator::advance() {
  bool any = false;
  for (Channel& channel : channels_) {
    const uint64_t item = channel.worked;
    if (!channel.isGroup || item >= channel.started || !isPublishedByAll(channel, item)) continue;
    any = true;
    if (Status status = workOn(channel); !status.ok()) {
      threadStatus_ = std::move(status);
      threadFailed_ = true;
    }
    ringSelf();
    if (threadFailed_) return true;
  }
  return any;
}

void Communicator::sleepUntilRung(const std::function<bool()>& ready) {
  for (int i = 0; i < spins_; ++i) {
    if (ready()) return;
    spinPause();
  }
  BlockHeader& own = memory_.block().header();
  const uint32_t seen = own.doorbell.load(std::memory_order_acquire);
  own.asleep.fetch_add(1, std::memory_order_seq_cst);
  if (!ready()) futexWait(&own.doorbell, seen, kNapMs);
  own.asleep.fetch_sub(1, std::memory_order_relaxed);
}

// Wakes this rank's other thread.
void Communicator::ringSelf() const {
  BlockHeader& own = memory_.block().header();
  own.doorbell.fetch_add(1, std::memory_order_seq_cst);
  if (own.asleep.load(std::memory_order_seq_cst) != 0) futexWakeAll(&own.doorbell);
}

}  // namespace hycrt
