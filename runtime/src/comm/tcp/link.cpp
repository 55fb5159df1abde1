// Queues that keep their capacity, since a step must not allocate.
#include "comm/tcp/link.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/progress.h"

namespace hycrt {
namespace {

constexpr int64_t kPieceBytes = int64_t{256} << 10;     // of a long answer, before something short may go
constexpr int64_t kMostAtOnceBytes = int64_t{4} << 20;  // received from one link before others have their turn
constexpr uint64_t kMostCollectedBytes = uint64_t{64} << 20;
constexpr int64_t kChunkBytes = int64_t{64} << 10;

}  // namespace

void Link::append(const void* bytes, size_t count) {
  const std::byte* const from = static_cast<const std::byte*>(bytes);
  queue_.insert(queue_.end(), from, from + count);
}

void Link::send(FrameHead head, std::string_view bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (isOver()) return;
  head.bytes = bytes.size();
  append(&head, sizeof head);
  append(bytes.data(), bytes.size());
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
  return queueBegin_ == queue_.size() && pieceLeft_ == 0 && longBegin_ == long_.size() && stream_.hasFlushed();
}

int64_t Link::bufferBytes() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int64_t>(sizeof *this + queue_.capacity() + long_.capacity() * sizeof(LongPiece) +
                              body_.capacity()) +
         stream_.bufferBytes();
}

std::string Link::failure() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stream_.failure();
}

// What goes next; false: nothing is left. A piece that was begun goes first, then what is short.
bool Link::fillHere(const std::byte** bytes, int64_t* count) {
  if (pieceLeft_ == 0 && queueBegin_ == queue_.size() && longBegin_ < long_.size()) {
    LongPiece& next = long_[longBegin_];
    const int64_t some = std::min(next.left, kPieceBytes);
    next.head.bytes = static_cast<uint64_t>(some);
    append(&next.head, sizeof next.head);
    piece_ = next.bytes;
    pieceLeft_ = -some;
    headEnd_ = queue_.size();
    next.bytes += some;
    next.left -= some;
    pieceSent_ = next.left == 0 ? next.sent : nullptr;
    if (next.left == 0 && ++longBegin_ == long_.size()) {
      long_.clear();
      longBegin_ = 0;
    }
  }
  if (pieceLeft_ > 0) {
    *bytes = piece_;
    *count = pieceLeft_;
    return true;
  }
  *bytes = queue_.data() + queueBegin_;
  *count = static_cast<int64_t>((pieceLeft_ < 0 ? headEnd_ : queue_.size()) - queueBegin_);
  return *count > 0;
}

bool Link::flushHere() {
  bool hasCounted = false;
  const std::byte* bytes = nullptr;
  int64_t count = 0;
  if (!stream_.flush()) isOver_.store(true, std::memory_order_release);
  while (!isOver_.load(std::memory_order_relaxed) && fillHere(&bytes, &count)) {
    // A head goes together with what it is the head of.
    const int64_t sent = stream_.write(bytes, count, pieceLeft_ < 0);
    if (sent < 0) isOver_.store(true, std::memory_order_release);
    if (sent <= 0) return hasCounted;
    if (pieceLeft_ > 0) {
      piece_ += sent;
      pieceLeft_ -= sent;
      noteProgress();
      if (pieceLeft_ == 0 && pieceSent_) {
        pieceSent_->fetch_add(1, std::memory_order_release);
        hasCounted = true;
      }
      continue;
    }
    queueBegin_ += static_cast<size_t>(sent);
    if (pieceLeft_ < 0 && queueBegin_ == headEnd_) pieceLeft_ = -pieceLeft_;
    if (queueBegin_ < queue_.size()) continue;
    queue_.clear();
    queueBegin_ = 0;
  }
  if (endsAfterwards_ && !hasEnded_ && stream_.hasFlushed() && !isOver_.load(std::memory_order_relaxed)) {
    hasEnded_ = true;
    stream_.endWriting();
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
int64_t Link::fetch(std::byte* to, int64_t room) {
  if (aheadBegin_ == aheadEnd_) {
    if (std::exchange(isDrained_, false)) return 0;
    const bool isLong = room >= static_cast<int64_t>(ahead_.size());
    const int64_t asked = isLong ? room : static_cast<int64_t>(ahead_.size());
    const std::lock_guard<std::mutex> lock(mutex_);
    const int64_t count = stream_.read(isLong ? to : ahead_.data(), asked);
    isDrained_ = count > 0 && count < asked && stream_.isInTheClear() && !expectsEnd_;
    if (count < 0) isOver_.store(true, std::memory_order_release);
    if (isLong || count <= 0) return count;
    aheadBegin_ = 0;
    aheadEnd_ = static_cast<size_t>(count);
  }
  const size_t some = std::min(static_cast<size_t>(room), aheadEnd_ - aheadBegin_);
  std::memcpy(to, ahead_.data() + aheadBegin_, some);
  aheadBegin_ += some;
  return static_cast<int64_t>(some);
}

bool Link::receive(FrameTaker& taker) {
  int64_t received = 0;
  isDrained_ = false;
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
    const int64_t count = room > 0 ? fetch(to, room) : 0;
    if (room > 0 && count <= 0) return false;
    received += count;
    if (headBytes_ < sizeof head_) {
      headBytes_ += static_cast<size_t>(count);
      if (headBytes_ == sizeof head_) takeHead(taker);
    } else {
      bodyBytes_ += count;
    }
    if (headBytes_ == sizeof head_ && !refuses_ && bodyBytes_ == static_cast<int64_t>(head_.bytes)) {
      refuses_ = !taker.take(rank_, head_, {body_.data(), place_ ? 0 : static_cast<size_t>(bodyBytes_)});
      headBytes_ = 0;
    }
    if (refuses_) isOver_.store(true, std::memory_order_release);
  }
  return !isOver();
}

}  // namespace hycrt
