// The thread that all connections to other hosts belong to.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
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
constexpr long kRestNs = 200000;
constexpr int64_t kTellingMs = 500;
constexpr int64_t kFinishedMs = 2000, kFailedMs = 500;  // how long others may take to hear that this rank leaves

// Where it cannot be rung, whoever is meant looks within a beat.
void ring(const FileDescriptor& event) {
  const uint64_t one = 1;
  while (write(event.get(), &one, sizeof one) < 0 && errno == EINTR) continue;
}
void silence(const FileDescriptor& event) {
  uint64_t count;
  while (read(event.get(), &count, sizeof count) < 0 && errno == EINTR) continue;
}

}  // namespace

Peers::~Peers() { leave(RankState::kFailed); }

Status Peers::start(std::vector<std::unique_ptr<Link>> links, int64_t deadlineMs) {
  for (FileDescriptor* epoll : {&inner_, &outer_}) epoll->reset(epoll_create1(EPOLL_CLOEXEC));
  for (FileDescriptor* event : {&call_, &alarm_}) event->reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wantsUcx_) {
    Result<std::unique_ptr<Fabric>> fabric = openUcx(self_, static_cast<int>(peers_.size()), *this);
    if (!fabric.ok()) return fabric.status();
    fabric_ = std::move(*fabric);
  }
  rest_.reset(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  const std::string words = introduction();
  const auto add = [](const FileDescriptor& epoll, int descriptor, uint32_t events, void* what) {
    epoll_event event{};
    event.events = events;
    event.data.ptr = what;
    return epoll_ctl(epoll.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
  };
  bool watches = add(inner_, call_.get(), EPOLLIN, nullptr) && add(outer_, alarm_.get(), EPOLLIN, &alarm_) &&
                 add(outer_, inner_.get(), EPOLLIN, &inner_) && add(outer_, rest_.get(), EPOLLIN, &rest_) &&
                 (!fabric_ || add(inner_, fabric_->descriptor(), EPOLLIN, &fabric_));
  for (std::unique_ptr<Link>& link : links) {
    Peer& peer = of(link->rank());
    peer.link = std::move(link);
    peer.link->send({FrameType::kIntroduction}, words);
    for (int descriptor : peer.link->descriptors()) {
      watches = watches && add(inner_, descriptor, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, &peer);
    }
  }
  if (!watches) return errnoError("cannot watch the connections to other hosts", errno);
  unfinished_.reserve(links.size());
  HYCRT_RETURN_IF_ERROR(startThread("connections", [this] { run(); }, &thread_));
  HYCRT_RETURN_IF_ERROR(awaitIntroductions(deadlineMs));
  return fabric_ ? joinFabric() : Status();
}

// Nothing comes by it before all know one another: who sends has heard every introduction.
Status Peers::joinFabric() {
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (peer) HYCRT_RETURN_IF_ERROR(fabric_->connect(peer->rank, peer->fabricAddress));
  }
  usesFabric_.store(true, std::memory_order_release);
  ring(alarm_);
  return {};
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
  epoll_event event;
  while (!stopping_.load(std::memory_order_acquire)) {
    const int count = epoll_wait(outer_.get(), &event, 1, isArmed() ? kBeatMs : 0);
    if (count > 0 && event.data.ptr == &alarm_) silence(alarm_);
    if (count > 0 && event.data.ptr == &rest_) endRest();
    if (count <= 0 || event.data.ptr != &rest_) poll();
    beat();
  }
}

// Whether all that comes wakes whoever sleeps on the connections. While another thread receives, that is its affair.
bool Peers::isArmed() {
  if (!usesFabric_.load(std::memory_order_acquire)) return true;
  const std::unique_lock<std::mutex> lock(receiving_, std::try_to_lock);
  if (!lock || fabric_->arm()) return true;
  serve(0);
  return false;
}

// Receives what there is, and sends what was left over; by whoever holds `receiving_`.
void Peers::serve(int milliseconds) {
  epoll_event events[kEvents];
  const bool usesFabric = usesFabric_.load(std::memory_order_acquire);
  if (usesFabric) hasNews_ = fabric_->progress() || hasNews_;
  const bool maySleep = unfinished_.empty() && !hasNews_ && (!usesFabric || milliseconds == 0 || fabric_->arm());
  const int count = epoll_wait(inner_.get(), events, kEvents, maySleep ? milliseconds : 0);
  if (usesFabric) hasNews_ = fabric_->progress() || hasNews_;
  for (int i = 0; i < count; ++i) {
    if (events[i].data.ptr == &fabric_) continue;
    Peer* const peer = static_cast<Peer*>(events[i].data.ptr);
    if (!peer) {
      silence(call_);
      continue;
    }
    if (events[i].events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) peer->link->expectEnd();
    if (std::find(unfinished_.begin(), unfinished_.end(), peer) == unfinished_.end()) unfinished_.push_back(peer);
  }
  lookAtWhatTrickles();
  // Those that have more to say come again.
  for (size_t left = unfinished_.size(), i = 0; left > 0; --left) {
    Peer& peer = *unfinished_[i];
    hasNews_ = peer.link->flush() || hasNews_;
    if (peer.link->receive(*this)) {
      ++i;
    } else {
      unfinished_.erase(unfinished_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    attend(peer);
  }
  if (usesFabric) {
    for (const std::unique_ptr<Peer>& peer : peers_) {
      if (peer) attend(*peer);
    }
  }
  hasUnfinished_.store(!unfinished_.empty(), std::memory_order_release);
  if (std::exchange(hasNews_, false)) local_.wakeSelf();
}

// Of a long piece the connection tells once much of it is there, which on a slow link takes longer than a rank may be
// waited for.
void Peers::lookAtWhatTrickles() {
  const int64_t now = monotonicMs();
  if (now - trickleLookMs_ < kBeatMs) return;
  trickleLookMs_ = now;
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (!peer || !peer->link || !peer->link->isInTheMiddle()) continue;
    if (std::find(unfinished_.begin(), unfinished_.end(), peer.get()) != unfinished_.end()) continue;
    unfinished_.push_back(peer.get());
  }
}

// Under waitingMutex_.
void Peers::watch(bool watches) {
  if (watches == watches_) return;
  watches_ = watches;
  epoll_event event{};
  event.events = watches ? uint32_t{EPOLLIN} : 0;
  event.data.ptr = &inner_;
  epoll_ctl(outer_.get(), EPOLL_CTL_MOD, inner_.get(), &event);
}

void Peers::beginWait() {
  const std::lock_guard<std::mutex> lock(waitingMutex_);
  ++waiting_;
  watch(false);
}

void Peers::pauseWait() {
  const std::lock_guard<std::mutex> lock(waitingMutex_);
  if (--waiting_ > 0) return;
  watch(true);
  if (fabric_ || hasUnfinished_.load(std::memory_order_acquire)) ring(alarm_);
}

void Peers::endWait() {
  const std::lock_guard<std::mutex> lock(waitingMutex_);
  if (--waiting_ > 0) return;
  if (hasUnfinished_.load(std::memory_order_acquire)) {
    watch(true);
    ring(alarm_);
  } else if (!rests_) {
    const itimerspec rest{{0, 0}, {0, kRestNs}};
    rests_ = timerfd_settime(rest_.get(), 0, &rest, nullptr) == 0;
    if (!rests_) watch(true);
  }
}

void Peers::endRest() {
  silence(rest_);
  const std::lock_guard<std::mutex> lock(waitingMutex_);
  rests_ = false;
  if (waiting_ == 0) watch(true);
}

void Peers::poll() {
  const std::unique_lock<std::mutex> lock(receiving_, std::try_to_lock);
  if (lock) serve(0);
}

bool Peers::sleep(int milliseconds, FunctionRef<bool()> mayNot) {
  const std::unique_lock<std::mutex> lock(receiving_, std::try_to_lock);
  if (!lock) return false;
  sleeping_.fetch_add(1, std::memory_order_seq_cst);
  if (!mayNot()) serve(milliseconds);
  sleeping_.fetch_sub(1, std::memory_order_seq_cst);
  return true;
}

void Peers::wakeUp() {
  if (sleeping_.load(std::memory_order_seq_cst) > 0) ring(call_);
}

// Of a link that is over. Where the fabric has failed the link tells why, a moment later.
void Peers::attend(Peer& peer) {
  const bool hasFailed = usesFabric_.load(std::memory_order_relaxed) && fabric_->hasFailed(peer.rank);
  if ((!peer.link->isOver() && !hasFailed) || peer.loss.load(std::memory_order_relaxed)) return;
  if (!peer.link->isOver()) {
    if (peer.fabricLostMs == 0) peer.fabricLostMs = monotonicMs();
    if (monotonicMs() - peer.fabricLostMs < kTellingMs) return;
  }
  peer.link->flush();  // ends it, where this rank has left and not said all
  const std::string why = peer.link->failure();
  const bool closed =
      peer.link->isOver() && (why.empty() || why == std::strerror(ECONNRESET) || why == std::strerror(EPIPE));
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
    if (peer && peer->link && !peer->link->isOver()) peer->link->send({FrameType::kSigns}, signs);
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
  // What went before must not come after.
  for (const int64_t end = monotonicMs() + kFailedMs; usesFabric_.load() && !fabric_->hasSentAll();) {
    if (monotonicMs() > end) break;
    poll();
  }
  for (const std::unique_ptr<Peer>& peer : peers_) {
    if (!peer || !peer->link) continue;
    peer->link->send({FrameType::kLeave, static_cast<uint32_t>(state)}, last);
    peer->link->endAfterwards();
  }
  const int64_t deadline = monotonicMs() + (state == RankState::kFinished ? kFinishedMs : kFailedMs);
  while (!haveAllGone() && monotonicMs() < deadline) usleep(1000);
  stopping_.store(true, std::memory_order_release);
  ring(alarm_);
  thread_.join();
}

}  // namespace hycrt
