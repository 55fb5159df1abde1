// Cutting transfers into pieces and handing them out in turns.
#include "io/io_queue.h"

#include <algorithm>
#include <chrono>

#include "base/progress.h"

namespace hycrt {

uint64_t IoQueue::start(IoOperation operation, std::byte* memory, int64_t bytes, int64_t offset) {
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t sequence = last_ + 1;
  progress_.wait(lock, [&] { return sequence <= kRoom || isDone(sequence - kRoom); });
  last_ = sequence;
  at(sequence) = {sequence, operation, memory, bytes, offset, 0, 0};
  work_.notify_all();
  return sequence;
}

bool IoQueue::isDone(uint64_t sequence) {
  const Transfer& transfer = at(sequence);
  return (failure_ && underWay_ == 0) || closed_ || transfer.sequence != sequence || transfer.done == transfer.bytes;
}

bool IoQueue::waitFor(uint64_t transfer, double seconds) {
  std::unique_lock<std::mutex> lock(mutex_);
  return progress_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return isDone(transfer); });
}

int64_t IoQueue::bytesLeft(uint64_t transfer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Transfer& row = at(transfer);
  return row.sequence == transfer ? row.bytes - row.done : 0;
}

std::optional<IoFailure> IoQueue::failure() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return failure_;
}

IoQueue::Transfer* IoQueue::nextOf(IoOperation operation) {
  for (uint64_t& cursor = cursor_[operation == IoOperation::kRead ? 0 : 1]; cursor <= last_; ++cursor) {
    Transfer& transfer = at(cursor);
    if (transfer.sequence == cursor && transfer.operation == operation && transfer.taken < transfer.bytes) {
      return &transfer;
    }
  }
  return nullptr;
}

std::optional<IoPiece> IoQueue::takeLocked() {
  // After a failure nothing more is begun: the run is over, and the disk may be what is broken.
  if (closed_ || failure_) return std::nullopt;
  Transfer* transfer = nextOf(turn_);
  const IoOperation other = turn_ == IoOperation::kRead ? IoOperation::kWrite : IoOperation::kRead;
  if (!transfer) transfer = nextOf(other);
  if (!transfer) return std::nullopt;
  turn_ = transfer->operation == IoOperation::kRead ? IoOperation::kWrite : IoOperation::kRead;
  const int64_t bytes = std::min(pieceBytes_, transfer->bytes - transfer->taken);
  const IoPiece piece{
      transfer->operation, transfer->memory + transfer->taken,      bytes, transfer->offset + transfer->taken,
      transfer->sequence,  faults_.next(transfer->operation, bytes)};
  transfer->taken += bytes;
  ++underWay_;
  return piece;
}

std::optional<IoPiece> IoQueue::tryTake() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return takeLocked();
}

std::optional<IoPiece> IoQueue::take() {
  std::unique_lock<std::mutex> lock(mutex_);
  std::optional<IoPiece> piece;
  work_.wait(lock, [&] { return closed_ || (piece = takeLocked()).has_value(); });
  return piece;
}

void IoQueue::complete(const IoPiece& piece) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Transfer& transfer = at(piece.transfer);
  transfer.done += piece.bytes;
  --underWay_;
  noteProgress();
  if (transfer.done == transfer.bytes || failure_) progress_.notify_all();
}

void IoQueue::fail(const IoPiece& piece, int error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!failure_) failure_ = IoFailure{piece.operation, piece.bytes, piece.offset, error};
  --underWay_;
  progress_.notify_all();
}

void IoQueue::close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  work_.notify_all();
  progress_.notify_all();
}

}  // namespace hycrt
