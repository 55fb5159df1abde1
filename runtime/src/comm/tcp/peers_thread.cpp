// The thread that all connections to other hosts belong to.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/clock.h"
#include "base/futex.h"
#include "base/limits.h"
#include "base/threads.h"
#include "comm/tcp/peers.h"
#include "comm/tcp/wire.h"

namespace hycrt {
namespace {

constexpr int kBeatMs = 200;
constexpr int kEvents = 64;
constexpr int64_t kFinishedMs = 2000, kFailedMs = 500;  // how long others may take to hear that this rank leaves

}  // namespace

Peers::~Peers() { leave(RankState::kFailed); }

Status Peers::start(std::vector<std::unique_ptr<Link>> links, int64_t deadlineMs) {
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  alarm_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.isOpen() || !alarm_.isOpen()) return errnoError("cannot watch the connections to other hosts", errno);
  const std::string words = introduction();
  const auto watch = [this](int descriptor, uint32_t events, Peer* peer) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = peer;
    return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
  };
  bool watches = watch(alarm_.get(), EPOLLIN, nullptr);
  for (std::unique_ptr<Link>& link : links) {
    Peer& peer = of(link->rank());
    peer.link = std::move(link);
    peer.link->send(FrameType::kIntroduction, 0, words);
    watches = watches && watch(peer.link->descriptor(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, &peer);
  }
  if (!watches) return errnoError("cannot watch the connections to other hosts", errno);
  HYCRT_RETURN_IF_ERROR(startThread("connections", [this] { run(); }, &thread_));
  return awaitIntroductions(deadlineMs);
}

Status Peers::awaitIntroductions(int64_t deadlineMs) {
  for (size_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer* const peer = peers_[rank].get();
    while (peer && !peer->isIntroduced.load(std::memory_order_acquire)) {
      const std::string who = "rank " + std::to_string(rank) + " on host '" + peer->host + "'";
      if (peer->loss.load(std::memory_order_acquire)) {
        return {StatusCode::kPeerLost, who + " has ended before the first step, or runs another version of hyc"};
      }
      if (monotonicMs() > deadlineMs) return unavailableError(who + " has not introduced itself in time");
      usleep(200);
    }
  }
  return {};
}

void Peers::run() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  leaveThreadPlan();
  epoll_event events[kEvents];
  while (!stopping_.load(std::memory_order_acquire)) {
    const int count = epoll_wait(epoll_.get(), events, kEvents, unfinished_.empty() ? kBeatMs : 0);
    for (int i = 0; i < count; ++i) {
      Peer* const peer = static_cast<Peer*>(events[i].data.ptr);
      if (peer && std::find(unfinished_.begin(), unfinished_.end(), peer) == unfinished_.end()) {
        unfinished_.push_back(peer);
      }
    }
    // Those that have more to say come again.
    for (size_t left = unfinished_.size(), i = 0; left > 0; --left) {
      Peer& peer = *unfinished_[i];
      peer.link->flush();
      if (peer.link->receive(*this)) {
        ++i;
      } else {
        unfinished_.erase(unfinished_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      attend(peer);
    }
    beat();
    if (std::exchange(hasNews_, false)) local_.wakeSelf();
  }
}

// Of a link that is over.
void Peers::attend(Peer& peer) {
  if (!peer.link->isOver() || peer.loss.load(std::memory_order_relaxed)) return;
  const std::string why = peer.link->failure();
  const bool closed = why.empty() || why == std::strerror(ECONNRESET) || why == std::strerror(EPIPE);
  peer.loss.store(closed ? "was killed or crashed" : "cannot be reached any more: its host or the network is down",
                  std::memory_order_release);
  hasNews_ = true;
}

// As often as the rank's own heart beats.
void Peers::beat() {
  const RankSigns& own = local_.signs(self_);
  const int64_t beatMs = own.beatMs.load(std::memory_order_acquire);
  if (beatMs == lastBeatMs_) return;
  lastBeatMs_ = beatMs;
  WireWriter writer;
  writer.number(own.moved.load(std::memory_order_relaxed));
  writer.number(own.waitsFor.load(std::memory_order_acquire));
  const ProcessLook look = local_.look(self_);
  writer.number(static_cast<int32_t>(look.processId));
  writer.number(look.state);
  writer.number(look.switches);
  const std::string signs = writer.take();
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (peer && peer->link && !peer->link->isOver()) peer->link->send(FrameType::kSigns, 0, signs);
  }
}

bool Peers::haveAllGone() const {
  return std::all_of(peers_.begin(), peers_.end(),
                     [](const std::unique_ptr<Peer>& peer) { return !peer || !peer->link || peer->link->isOver(); });
}

void Peers::leave(RankState state) {
  if (!thread_.joinable()) return;
  const char* const words = local_.signs(self_).lastWords;
  const std::string_view last(words, strnlen(words, kLastWordsBytes));
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (!peer || !peer->link) continue;
    peer->link->send(FrameType::kLeave, static_cast<uint32_t>(state), last);
    peer->link->endAfterwards();
  }
  const int64_t deadline = monotonicMs() + (state == RankState::kFinished ? kFinishedMs : kFailedMs);
  while (!haveAllGone() && monotonicMs() < deadline) usleep(1000);
  stopping_.store(true, std::memory_order_release);
  const uint64_t one = 1;
  if (write(alarm_.get(), &one, sizeof one) < 0) stopping_.store(true);  // it looks within a beat, then
  thread_.join();
}

}  // namespace hycrt
