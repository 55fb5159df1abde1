// IoQueue: the transfers of one BlockFile between the thread that starts them and those that carry them out. Transfers
// are cut into pieces as these are taken; reads and writes take turns, so that neither waits for all of the other.
// Every function is safe from any thread. Nothing is allocated after construction.
#ifndef HYCRT_SRC_IO_IO_QUEUE_H_
#define HYCRT_SRC_IO_IO_QUEUE_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include "io/io_fault.h"

namespace hycrt {

// A part of a transfer that is one call of the system, and what is left of it after a short one.
struct IoPiece {
  IoOperation operation;
  std::byte* memory;
  int64_t bytes;
  int64_t offset;
  uint64_t transfer;  // sequence number
  IoFault fault;
};

// The first piece that failed.
struct IoFailure {
  IoOperation operation;
  int64_t bytes;
  int64_t offset;
  int error;  // errno; 0: the file ended
};

class IoQueue {
 public:
  IoQueue(int64_t pieceBytes, IoFaults faults) : pieceBytes_(pieceBytes), faults_(std::move(faults)) {}

  // Sequence number, from 1. Blocks while as many transfers as there is room for are not complete.
  uint64_t start(IoOperation operation, std::byte* memory, int64_t bytes, int64_t offset);

  // Whether the transfer (or the whole queue, by failing) is done; waits at most `seconds`. After a failure it is done
  // when nothing is under way any more, in anybody's memory.
  bool waitFor(uint64_t transfer, double seconds);
  int64_t bytesLeft(uint64_t transfer);
  std::optional<IoFailure> failure();

  // For engines. tryTake: nothing if there is none now. take: waits for one; nothing once the queue is closed.
  std::optional<IoPiece> tryTake();
  std::optional<IoPiece> take();
  // Of every piece that was taken, once.
  void complete(const IoPiece& piece);
  void fail(const IoPiece& piece, int error);
  // What was not taken never will be.
  void close();

 private:
  struct Transfer {
    uint64_t sequence = 0;
    IoOperation operation = IoOperation::kRead;
    std::byte* memory = nullptr;
    int64_t bytes = 0;
    int64_t offset = 0;
    int64_t taken = 0;
    int64_t done = 0;
  };
  static constexpr size_t kRoom = 256;

  Transfer& at(uint64_t sequence) { return ring_[sequence % kRoom]; }
  bool isDone(uint64_t sequence);
  // The next transfer of the operation with bytes that nobody took.
  Transfer* nextOf(IoOperation operation);
  std::optional<IoPiece> takeLocked();

  std::mutex mutex_;
  std::condition_variable work_, progress_;
  std::array<Transfer, kRoom> ring_;
  uint64_t last_ = 0;            // sequence of the newest transfer
  uint64_t cursor_[2] = {1, 1};  // by operation: everything before has been taken
  IoOperation turn_ = IoOperation::kRead;
  int64_t underWay_ = 0;  // pieces that engines have taken and not told the end of
  bool closed_ = false;
  std::optional<IoFailure> failure_;
  const int64_t pieceBytes_;
  IoFaults faults_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_IO_IO_QUEUE_H_
