// Link: the frames that pass between this rank and one other. Short ones go by way of a queue of bytes; long answers
// are sent from where they lie, in pieces, between which whatever is short goes first.
//
// Any thread may send. One thread, the transport's, receives, and sends what was left over where the connection was
// full. What a frame means is the transport's.
#ifndef HYCRT_SRC_COMM_TCP_LINK_H_
#define HYCRT_SRC_COMM_TCP_LINK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "comm/tcp/secure_stream.h"

namespace hycrt {

enum class FrameType : uint32_t {
  kIntroduction,  // the first each way
  kSide,          // what has changed of the sender's side of a channel
  kSigns,         // that it lives
  kPull,          // asks for bytes of an arena; `tag` names the question
  kBytes,         // some of them, in order
  kLeave,         // the last; `tag` is the RankState, and the bytes are last words
};

struct FrameHead {
  FrameType type;
  uint32_t tag;
  uint64_t bytes;  // that follow
};

// What is made of frames, on the receiving thread.
class FrameTaker {
 public:
  virtual ~FrameTaker() = default;
  // Where a frame's bytes go; null: they are collected, and given to take(). Not more than `head.bytes` are written.
  // Sets *refuses where the frame makes no sense.
  virtual std::byte* placeFor(int rank, const FrameHead& head, bool* refuses) = 0;
  // The frame is whole. False: it makes no sense.
  virtual bool take(int rank, const FrameHead& head, std::string_view bytes) = 0;
};

class Link {
 public:
  Link(int rank, SecureStream stream) : rank_(rank), stream_(std::move(stream)) {}

  int rank() const { return rank_; }
  int descriptor() const { return stream_.connection().get(); }

  // Queues the frame, and sends what goes at once.
  void send(FrameType type, uint32_t tag, std::string_view bytes);
  // The same of bytes that stay as they are until they are sent.
  void sendLong(FrameType type, uint32_t tag, const std::byte* bytes, int64_t count);
  // Sends what was left over.
  void flush();
  // Nothing more will be sent once the queue is empty.
  void endAfterwards();

  // Receives until nothing is there; whether more may be, which was left for the sake of other links.
  bool receive(FrameTaker& taker);

  bool isOver() const { return isOver_.load(std::memory_order_acquire); }
  bool hasSentAll();
  // Why it is over; "": the other side closed it.
  std::string failure();

 private:
  struct LongPiece {
    FrameType type;
    uint32_t tag;
    const std::byte* bytes;
    int64_t left;
  };
  void append(const void* bytes, size_t count);
  void flushHere();
  bool fillHere(const std::byte** bytes, int64_t* count);
  void takeHead(FrameTaker& taker);

  const int rank_;
  std::mutex mutex_;  // of the stream and of what is to be sent
  SecureStream stream_;
  std::vector<std::byte> queue_;
  size_t queueBegin_ = 0;
  std::vector<LongPiece> long_;
  size_t longBegin_ = 0;
  const std::byte* piece_ = nullptr;  // being sent
  int64_t pieceLeft_ = 0;             // negative: its head has not gone yet, which ends at headEnd_ of the queue
  size_t headEnd_ = 0;
  bool endsAfterwards_ = false, hasEnded_ = false;
  std::atomic<bool> isOver_{false};

  // Of the receiving thread.
  FrameHead head_{};
  size_t headBytes_ = 0;
  int64_t bodyBytes_ = 0;
  std::byte* place_ = nullptr;
  bool refuses_ = false;
  std::vector<char> body_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_TCP_LINK_H_
