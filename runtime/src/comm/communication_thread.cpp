// The thread on which collectives progress while the rank computes.
//
// It takes whatever every member has published, channel by channel, so that one group's slow member does not hold up
// another group. It never waits for a peer in particular: a peer that is lost is noticed by the caller, in wait().
#include "base/futex.h"
#include "base/limits.h"
#include "base/threads.h"
#include "comm/host_exchanger.h"

namespace hycrt {

namespace {
constexpr int kNapMs = 100;  // a word that is missed costs no more
thread_local bool runsExchanges = false;
}  // namespace

Status HostExchanger::startThread() {
  return hycrt::startThread("exchanges", [this] { runThread(); }, &thread_);
}

void HostExchanger::stopThread() {
  if (!thread_.joinable()) return;
  stopping_ = true;
  transport_->wakeSelf();
  thread_.join();
}

bool HostExchanger::isExchangeThread() { return runsExchanges; }

void HostExchanger::runThread() {
  runsExchanges = true;
  leaveThreadPlan();
  const auto hasWork = [&] {
    if (stopping_) return true;
    for (Channel& channel : channels_) {
      if (channel.isGroup && canAdvance(channel)) return true;
    }
    return false;
  };
  while (!stopping_ && !threadFailed_) {
    if (!advanceAll()) sleepUntilTold(hasWork);
  }
}

// Works on one item of every channel that has one ready; whether there was any.
bool HostExchanger::advanceAll() {
  bool any = false;
  for (Channel& channel : channels_) {
    if (!channel.isGroup || !canAdvance(channel)) continue;
    any = true;
    if (Status status = advance(channel); !status.ok()) {
      threadStatus_ = std::move(status);
      threadFailed_ = true;
    }
    transport_->wakeSelf();
    if (threadFailed_) return true;
  }
  return any;
}

void HostExchanger::sleepUntilTold(FunctionRef<bool()> ready) {
  if (ready()) return;
  transport_->beginWait();
  if (!spin(ready)) {
    tellRest();
    const uint32_t heard = transport_->listen();
    if (!ready()) transport_->sleep(heard, kNapMs);
    transport_->stopListening();
  }
  transport_->endWait();
}

}  // namespace hycrt
