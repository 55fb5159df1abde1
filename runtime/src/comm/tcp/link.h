// Link: the frames that pass between this rank and one other. Short ones go by way of a queue of bytes; long answers
// are sent from where they lie, in pieces, between which whatever is short goes first. Of a piece that is received the
// thread is woken once much of it is there, and not by every packet.
//
// There may be several connections, which take turns: the frame behind a piece of a long answer goes by the next one.
// So pieces are under way on all of them, where a network gives one connection less than it has, and frames are
// received in the order in which they were sent.
//
// Any thread may send. One thread, the transport's, receives, and sends what was left over where the connection was
// full. What a frame means is the transport's.
#ifndef HYCRT_SRC_COMM_TCP_LINK_H_
#define HYCRT_SRC_COMM_TCP_LINK_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
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
  kPush,          // bytes that were not asked for; `tag` is the receiver's channel
  kLeave,         // the last; `tag` is the RankState, and the bytes are last words
};

struct FrameHead {
  FrameType type;
  uint32_t tag = 0;
  uint64_t bytes = 0;  // that follow
  // Of a push (transport.h).
  uint64_t number = 0;
  int64_t begin = 0;
  int32_t part = 0;
  int32_t stream = 0;
  uint64_t turns = 0;  // 1: the next frame comes by the next connection
};

// What is made of frames, on the receiving thread.
class FrameTaker {
 public:
  virtual ~FrameTaker() = default;
  // Where a frame's bytes go; null: they are collected, and given to take(). Not more than `head.bytes` are written.
  // Sets *refuses where the frame makes no sense.
  virtual std::byte* placeFor(int rank, const FrameHead& head, bool* refuses) = 0;
  // Some of a frame that may not be whole yet: who sends it lives.
  virtual void hear(int, const FrameHead&) {}
  // The frame is whole. False: it makes no sense.
  virtual bool take(int rank, const FrameHead& head, std::string_view bytes) = 0;
};

class Link {
 public:
  // At least one stream.
  Link(int rank, std::vector<SecureStream> streams);

  int rank() const { return rank_; }
  std::vector<int> descriptors() const;

  // Queues the frame, and sends what goes at once.
  void send(FrameHead head, std::string_view bytes);
  // The same of bytes that stay as they are until `sent` counts one more, if that is not null; as one frame or, where
  // they are many, as several of equal heads.
  void sendLong(const FrameHead& head, const std::byte* bytes, int64_t count, std::atomic<uint64_t>* sent = nullptr);
  // Sends what was left over; whether some `sent` was counted.
  bool flush();
  // Nothing more will be sent once the queue is empty, or at once where the link is over: whoever ends waits until the
  // others have, too.
  void endAfterwards();

  // Receives until nothing is there; whether more may be, which was left for the sake of other links.
  bool receive(FrameTaker& taker);
  // A frame has begun and is not whole. Whoever wants to know how it comes along receives: not every part of it wakes.
  // Of the receiving thread.
  bool isInTheMiddle() const { return headBytes_ > 0; }
  // The other side has closed a connection, or it has failed: what comes is received up to its end.
  void expectEnd() { expectsEnd_ = true; }

  bool isOver() const { return isOver_.load(std::memory_order_acquire); }
  bool hasSentAll();
  // What it has taken of memory.
  int64_t bufferBytes();
  // Why it is over; "": the other side closed it.
  std::string failure();

 private:
  struct LongPiece {
    FrameHead head;
    const std::byte* bytes;
    int64_t left;
    std::atomic<uint64_t>* sent;
  };
  // A connection.
  struct Lane {
    explicit Lane(SecureStream over) : stream(std::move(over)) {}
    SecureStream stream;

    // Being sent: short frames or a piece's head, then the piece.
    std::vector<std::byte> head;
    size_t headSent = 0;
    const std::byte* piece = nullptr;
    int64_t pieceLeft = 0;
    std::atomic<uint64_t>* pieceSent = nullptr;  // to be counted when the piece has gone
    bool isIdle() const { return headSent == head.size() && pieceLeft == 0; }

    // Of the receiving thread.
    std::array<std::byte, 4096> ahead;  // received, and not looked at yet
    size_t aheadBegin = 0, aheadEnd = 0;
    bool isDrained = false;  // the last bytes were all that there was
  };

  bool flushHere();
  bool fillHere(Lane& lane);
  bool writeHere(Lane& lane);
  int64_t fetch(Lane& lane, std::byte* to, int64_t room);
  void takeHead(FrameTaker& taker);
  bool mayGoOn();

  const int rank_;
  std::mutex mutex_;  // of the streams and of what is to be sent
  std::vector<std::unique_ptr<Lane>> lanes_;
  size_t to_ = 0;                 // the lane of the next frame
  std::vector<std::byte> queue_;  // short frames that no lane has yet
  std::vector<LongPiece> long_;
  size_t longBegin_ = 0;
  bool endsAfterwards_ = false, hasEnded_ = false;
  std::string failure_;  // of one lane, while others could go on
  std::atomic<bool> isOver_{false};

  // Of the receiving thread.
  size_t from_ = 0;  // the lane that the next bytes come by
  FrameHead head_{FrameType::kIntroduction};
  size_t headBytes_ = 0;
  int64_t bodyBytes_ = 0;
  std::byte* place_ = nullptr;
  bool refuses_ = false;
  std::vector<char> body_;
  bool expectsEnd_ = false;
  int64_t cutMs_ = 0;  // when another lane than the one that is read was found to have ended
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_TCP_LINK_H_
