// Queues that keep their capacity, since a step must not allocate.
#include "comm/tcp/link.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/progress.h"

namespace hycrt {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;       // of a long answer, before something short may go
constexpr int64_t kTurnBytes = int64_t{256} << 10;      // the same where connections take turns
constexpr int64_t kBatchBytes = int64_t{512} << 10;     // of a piece that are waited for, where so many still come
constexpr int64_t kMostAtOnceBytes = int64_t{4} << 20;  // received from one link before others have their turn
constexpr uint64_t kMostCollectedBytes = uint64_t{64} << 20;
constexpr int64_t kChunkBytes = int64_t{64} << 10;
constexpr int64_t kCutMs = 500;  // how long what a peer said last may take by another connection than one that is over

void append(const void* bytes, size_t count, std::vector<std::byte>* to) {
  const std::byte* const from = static_cast<const std::byte*>(bytes);
  to->insert(to->end(), from, from + count);
}

}  // namespace

Link::Link(int rank, std::vector<SecureStream> streams) : rank_(rank) {
  for (SecureStream& stream : streams) lanes_.push_back(std::make_unique<Lane>(std::move(stream)));
}

std::vector<int> Link::descriptors() const {
  std::vector<int> all;
  for (const std::unique_ptr<Lane>& lane : lanes_) all.push_back(lane->stream.connection().get());
  return all;
}

void Link::send(FrameHead head, std::string_view bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (isOver()) return;
  head.bytes = bytes.size();
  append(&head, sizeof head, &queue_);
  append(bytes.data(), bytes.size(), &queue_);
  flushHere();
}

void Link::sendLong(const FrameHead& head, const std::byte* bytes, int64_t count, std::atomic<uint64_t>* sent) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (isOver()) return;
  long_.push_back({head, bytes, count, sent});
  flushHere();
}

bool Link::flush() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return flushHere();
}

void Link::endAfterwards() {
  const std::lock_guard<std::mutex> lock(mutex_);
  endsAfterwards_ = true;
  flushHere();
}

bool Link::hasSentAll() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return queue_.empty() && longBegin_ == long_.size() &&
         std::all_of(lanes_.begin(), lanes_.end(),
                     [](const std::unique_ptr<Lane>& lane) { return lane->isIdle() && lane->stream.hasFlushed(); });
}

int64_t Link::bufferBytes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t bytes = sizeof *this + queue_.capacity() + long_.capacity() * sizeof(LongPiece) + body_.capacity();
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    bytes += sizeof *lane + lane->head.capacity() + static_cast<size_t>(lane->stream.bufferBytes());
  }
  return static_cast<int64_t>(bytes);
}

std::string Link::failure() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (!lane->stream.failure().empty()) return lane->stream.failure();
  }
  return failure_;
}

// Gives a lane that has nothing what goes next: all that is short, or else a piece, behind which it is the next lane's
// turn. False: nothing is left.
bool Link::fillHere(Lane& lane) {
  lane.head.clear();
  lane.headSent = 0;
  if (!queue_.empty()) {
    std::swap(lane.head, queue_);
    return true;
  }
  if (longBegin_ == long_.size()) return false;
  LongPiece& next = long_[longBegin_];
  const int64_t some = std::min(next.left, lanes_.size() > 1 ? kTurnBytes : kPieceBytes);
  next.head.bytes = static_cast<uint64_t>(some);
  next.head.turns = 1;
  append(&next.head, sizeof next.head, &lane.head);
  lane.piece = next.bytes;
  lane.pieceLeft = some;
  next.bytes += some;
  next.left -= some;
  lane.pieceSent = next.left == 0 ? next.sent : nullptr;
  if (next.left == 0 && ++longBegin_ == long_.size()) {
    long_.clear();
    longBegin_ = 0;
  }
  to_ = (to_ + 1) % lanes_.size();
  return true;
}

// Sends what goes of what the lane has; whether some `sent` was counted.
bool Link::writeHere(Lane& lane) {
  while (!lane.isIdle()) {
    const bool isHead = lane.headSent < lane.head.size();
    const std::byte* const bytes = isHead ? lane.head.data() + lane.headSent : lane.piece;
    const int64_t count = isHead ? static_cast<int64_t>(lane.head.size() - lane.headSent) : lane.pieceLeft;
    // A head goes together with what it is the head of.
    const int64_t sent = lane.stream.write(bytes, count, isHead && lane.pieceLeft > 0);
    if (sent < 0) isOver_.store(true, std::memory_order_release);
    if (sent <= 0) return false;
    if (isHead) {
      lane.headSent += static_cast<size_t>(sent);
      continue;
    }
    lane.piece += sent;
    lane.pieceLeft -= sent;
    noteProgress();
    if (lane.pieceLeft > 0 || !lane.pieceSent) continue;
    lane.pieceSent->fetch_add(1, std::memory_order_release);
    lane.pieceSent = nullptr;
    return true;
  }
  return false;
}

bool Link::flushHere() {
  bool hasCounted = false;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (!lane->stream.flush()) isOver_.store(true, std::memory_order_release);
    if (!isOver_.load(std::memory_order_relaxed)) hasCounted = writeHere(*lane) || hasCounted;
  }
  while (!isOver_.load(std::memory_order_relaxed)) {
    Lane& lane = *lanes_[to_];
    if (!lane.isIdle() || !fillHere(lane)) break;  // what comes next must wait for what this one still has
    hasCounted = writeHere(lane) || hasCounted;
  }
  const auto hasGone = [](const std::unique_ptr<Lane>& lane) { return lane->isIdle() && lane->stream.hasFlushed(); };
  // One that is over ends at once: the other side, which has ended before, waits for it.
  const bool mayEnd = isOver_.load(std::memory_order_relaxed) || std::all_of(lanes_.begin(), lanes_.end(), hasGone);
  if (endsAfterwards_ && !hasEnded_ && mayEnd) {
    hasEnded_ = true;
    for (const std::unique_ptr<Lane>& lane : lanes_) lane->stream.endWriting();
  }
  return hasCounted;
}

void Link::takeHead(FrameTaker& taker) {
  bodyBytes_ = 0;
  body_.clear();
  place_ = head_.bytes == 0 ? nullptr : taker.placeFor(rank_, head_, &refuses_);
  if (!place_ && head_.bytes > kMostCollectedBytes) refuses_ = true;
}

// What is short comes by way of a buffer, so that a frame and the next one's head are one system call.
int64_t Link::fetch(Lane& lane, std::byte* to, int64_t room) {
  if (lane.aheadBegin == lane.aheadEnd) {
    if (std::exchange(lane.isDrained, false)) return 0;
    const bool isLong = room >= static_cast<int64_t>(lane.ahead.size());
    const int64_t asked = isLong ? room : static_cast<int64_t>(lane.ahead.size());
    const std::lock_guard<std::mutex> lock(mutex_);
    const int64_t count = lane.stream.read(isLong ? to : lane.ahead.data(), asked);
    lane.isDrained = count > 0 && count < asked && lane.stream.isInTheClear() && !expectsEnd_;
    if (count == 0 || lane.isDrained) lane.stream.wakeAt(isLong ? std::min(asked - count, kBatchBytes) : 1);
    if (count < 0) isOver_.store(true, std::memory_order_release);
    if (isLong || count <= 0) return count;
    lane.aheadBegin = 0;
    lane.aheadEnd = static_cast<size_t>(count);
  }
  const size_t some = std::min(static_cast<size_t>(room), lane.aheadEnd - lane.aheadBegin);
  std::memcpy(to, lane.ahead.data() + lane.aheadBegin, some);
  lane.aheadBegin += some;
  return static_cast<int64_t>(some);
}

// The lane whose turn it is has nothing. One that has ended alone ends the link, too, if what the peer may have said
// last does not come by the others: then this is to be asked again.
bool Link::mayGoOn() {
  if (!expectsEnd_ || isOver() || lanes_.size() == 1) return false;
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    char byte;
    const ssize_t count = recv(lane->stream.connection().get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR))) continue;
    const std::string why = count < 0 ? std::strerror(errno) : "";
    if (cutMs_ == 0) cutMs_ = monotonicMs();
    if (monotonicMs() - cutMs_ < kCutMs) return true;
    failure_ = why;
    isOver_.store(true, std::memory_order_release);
    return false;
  }
  return false;
}

bool Link::receive(FrameTaker& taker) {
  int64_t received = 0;
  for (const std::unique_ptr<Lane>& lane : lanes_) lane->isDrained = false;
  while (!isOver() && received < kMostAtOnceBytes) {
    std::byte* to = reinterpret_cast<std::byte*>(&head_) + headBytes_;
    int64_t room = static_cast<int64_t>(sizeof head_ - headBytes_);
    if (headBytes_ == sizeof head_) {
      room = static_cast<int64_t>(head_.bytes) - bodyBytes_;
      if (!place_) {
        room = std::min(room, kChunkBytes);  // no more memory than has come
        body_.resize(static_cast<size_t>(bodyBytes_ + room));
        to = reinterpret_cast<std::byte*>(body_.data()) + bodyBytes_;
      } else {
        to = place_ + bodyBytes_;
      }
    }
    const int64_t count = room > 0 ? fetch(*lanes_[from_], to, room) : 0;
    if (room > 0 && count <= 0) return mayGoOn();
    received += count;
    if (headBytes_ < sizeof head_) {
      headBytes_ += static_cast<size_t>(count);
      if (headBytes_ == sizeof head_) takeHead(taker);
    } else {
      bodyBytes_ += count;
      taker.hear(rank_, head_);
    }
    if (headBytes_ == sizeof head_ && !refuses_ && bodyBytes_ == static_cast<int64_t>(head_.bytes)) {
      refuses_ = !taker.take(rank_, head_, {body_.data(), place_ ? 0 : static_cast<size_t>(bodyBytes_)});
      headBytes_ = 0;
      from_ = (from_ + head_.turns % 2) % lanes_.size();
    }
    if (refuses_) isOver_.store(true, std::memory_order_release);
  }
  // More may be there than was taken: what it was to wait for is over.
  const std::lock_guard<std::mutex> lock(mutex_);
  lanes_[from_]->stream.wakeAt(1);
  return !isOver();
}

}  // namespace hycrt
