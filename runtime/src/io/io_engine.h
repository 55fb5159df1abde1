// IoEngine: what carries out the pieces of an IoQueue. Two kinds, with the same outcome: io_uring, one thread that
// keeps many pieces under way, and a pool of threads with one blocking call each.
#ifndef HYCRT_SRC_IO_IO_ENGINE_H_
#define HYCRT_SRC_IO_IO_ENGINE_H_

#include <cstdint>
#include <memory>

#include "hycrt/status.h"
#include "io/io_queue.h"

namespace hycrt {

class IoEngine {
 public:
  // Close the queue first; returns when nothing is under way any more.
  virtual ~IoEngine() = default;
};

// Unavailable where this build has no liburing, or the system has no io_uring or forbids it; the message says which.
Result<std::unique_ptr<IoEngine>> startUringEngine(int fd, IoQueue* queue, int depth);
Result<std::unique_ptr<IoEngine>> startThreadEngine(int fd, IoQueue* queue, int threads);

// One piece over as many calls of the system as it takes: calls may transfer less than they were asked for.
class PieceInProgress {
 public:
  enum class Outcome { kAgain, kComplete, kFailed };

  PieceInProgress() = default;
  explicit PieceInProgress(const IoPiece& piece) : piece_(piece) {}

  const IoPiece& piece() const { return piece_; }
  // Arguments of the next call.
  std::byte* memory() const { return piece_.memory + done_; }
  int64_t offset() const { return piece_.offset + done_; }
  int64_t bytes() const;
  // Whether an injected fault stands in for the next call, and what that call answers.
  bool isFaulted() const { return tries_ == 0 && (piece_.fault.error != 0 || piece_.fault.mostBytes == 0); }
  int64_t faultedResult() const { return -piece_.fault.error; }
  // Sleeps for as long as an injected fault says, before the first call.
  void delay() const;

  // `result` as io_uring gives it: bytes transferred, 0 at the end of the file, or -errno.
  Outcome advance(int64_t result);
  int error() const { return error_; }

 private:
  IoPiece piece_{};
  int64_t done_ = 0;
  int tries_ = 0;
  int error_ = 0;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_IO_ENGINE_H_
