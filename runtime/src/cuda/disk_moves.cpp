// A thread that takes bytes between file and pinned memory while the device goes on.
#include "cuda/disk_moves.h"

#include <algorithm>
#include <string>

#include "base/limits.h"
#include "cuda/device.h"

namespace hycrt {

Result<std::unique_ptr<DiskMoves>> DiskMoves::create(BlockFile* file, int device) {
  std::unique_ptr<DiskMoves> moves(new DiskMoves(file, device));
  HYCRT_RETURN_IF_ERROR(moves->open());
  return moves;
}

Status DiskMoves::open() {
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"));
  return startThread("the disk", [this] { run(); }, &thread_);
}

DiskMoves::~DiskMoves() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    isClosed_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
  for (auto& [number, entry] : entries_) {
    if (entry.event) cudaEventDestroy(entry.event);
  }
  for (Slot& slot : slots_) {
    if (slot.copied) cudaEventDestroy(slot.copied);
  }
  // After an error the disk may still be at work on it.
  if (pinned_ && !hasFailed_) cudaFreeHost(pinned_);
  if (stream_) cudaStreamDestroy(stream_);
}

// With the lock held.
Result<cudaEvent_t> DiskMoves::takeEvent() {
  cudaEvent_t event = nullptr;
  if (!events_.empty()) {
    event = events_.back();
    events_.pop_back();
    return event;
  }
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event"));
  return event;
}

Result<uint64_t> DiskMoves::start(const DiskMove& move, cudaStream_t compute) {
  uint64_t number = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Result<cudaEvent_t> event = takeEvent();
    if (!event.ok()) return event.status();
    HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventRecord(*event, compute), "recording an event"));
    number = ++started_;
    Entry& entry = entries_[number];
    entry.move = move;
    entry.event = *event;
    queue_.push_back(number);
  }
  changed_.notify_all();
  return number;
}

Status DiskMoves::wait(uint64_t number, cudaStream_t compute) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto found = entries_.find(number);
  if (found == entries_.end()) return internalError("a move is waited for that was not started");
  changed_.wait(lock, [&] { return found->second.isBegun; });
  const Entry entry = std::move(found->second);
  entries_.erase(found);
  lock.unlock();
  Status status = entry.status;
  if (status.ok() && entry.move.side == MoveSide::kHost) status = file_->wait(entry.ticket);
  if (status.ok() && entry.move.side == MoveSide::kDevice && entry.move.operation == IoOperation::kRead)
    status = cudaStatus(cudaStreamWaitEvent(compute, entry.event, 0), "waiting for an event");
  lock.lock();
  events_.push_back(entry.event);
  return status;
}

void DiskMoves::run() {
  cudaSetDevice(device_);
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return isClosed_ || !queue_.empty(); });
    if (isClosed_) return;
    // Nobody else changes it before it is begun, and others come and go beside it.
    Entry& entry = entries_[queue_.front()];
    queue_.pop_front();
    lock.unlock();
    Status status = begin(entry);
    lock.lock();
    hasFailed_ |= !status.ok();
    entry.status = std::move(status);
    entry.isBegun = true;
    changed_.notify_all();
  }
}

Status DiskMoves::begin(Entry& entry) {
  const DiskMove& move = entry.move;
  const bool isRead = move.operation == IoOperation::kRead;
  if (move.side == MoveSide::kDevice) {
    HYCRT_RETURN_IF_ERROR(openSlots());
    HYCRT_RETURN_IF_ERROR(cudaStatus(cudaStreamWaitEvent(stream_, entry.event, 0), "waiting for an event"));
    return isRead ? readToDevice(entry) : writeFromDevice(entry);
  }
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventSynchronize(entry.event), "a kernel"));
  entry.ticket = isRead ? file_->startRead(move.memory, move.bytes, move.offset)
                        : file_->startWrite(move.memory, move.bytes, move.offset);
  return {};
}

Status DiskMoves::openSlots() {
  if (!slots_.empty()) return {};
  // Of whole blocks, whatever the allocation begins with.
  size_t room = kSlots * kSlotBytes + kBlockBytes;
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaMallocHost(&pinned_, room), "allocating pinned memory"));
  void* aligned = pinned_;
  std::align(kBlockBytes, kSlots * kSlotBytes, aligned, room);
  slots_.resize(kSlots);
  for (size_t i = 0; i < kSlots; ++i) {
    slots_[i].memory = static_cast<std::byte*>(aligned) + i * kSlotBytes;
    HYCRT_RETURN_IF_ERROR(
        cudaStatus(cudaEventCreateWithFlags(&slots_[i].copied, cudaEventDisableTiming), "making an event"));
  }
  return {};
}

Status DiskMoves::readToDevice(const Entry& entry) {
  const DiskMove& move = entry.move;
  const int64_t parts = (move.bytes + kSlotBytes - 1) / kSlotBytes;
  const auto bytesOf = [&](int64_t part) { return std::min(kSlotBytes, move.bytes - part * kSlotBytes); };
  for (int64_t asked = 0, part = 0; part < parts; ++part) {
    for (; asked < std::min(parts, part + static_cast<int64_t>(kSlots)); ++asked) {
      Slot& slot = slots_[static_cast<size_t>(asked) % kSlots];
      // An event that was never recorded is over.
      HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventSynchronize(slot.copied), "waiting for a copy"));
      slot.ticket = file_->startRead(slot.memory, bytesOf(asked), move.offset + asked * kSlotBytes);
    }
    Slot& slot = slots_[static_cast<size_t>(part) % kSlots];
    HYCRT_RETURN_IF_ERROR(file_->wait(slot.ticket));
    HYCRT_RETURN_IF_ERROR(
        cudaStatus(cudaMemcpyAsync(move.memory + part * kSlotBytes, slot.memory, static_cast<size_t>(bytesOf(part)),
                                   cudaMemcpyHostToDevice, stream_),
                   "copying to the device"));
    HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventRecord(slot.copied, stream_), "recording an event"));
  }
  return cudaStatus(cudaEventRecord(entry.event, stream_), "recording an event");
}

Status DiskMoves::writeFromDevice(const Entry& entry) {
  const DiskMove& move = entry.move;
  const int64_t parts = (move.bytes + kSlotBytes - 1) / kSlotBytes;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t bytes = std::min(kSlotBytes, move.bytes - part * kSlotBytes);
    Slot& slot = slots_[static_cast<size_t>(part) % kSlots];
    HYCRT_RETURN_IF_ERROR(file_->wait(slot.ticket));
    HYCRT_RETURN_IF_ERROR(cudaStatus(cudaMemcpyAsync(slot.memory, move.memory + part * kSlotBytes,
                                                     static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream_),
                                     "copying from the device"));
    HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventRecord(slot.copied, stream_), "recording an event"));
    HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventSynchronize(slot.copied), "waiting for a copy"));
    slot.ticket = file_->startWrite(slot.memory, bytes, move.offset + part * kSlotBytes);
  }
  for (Slot& slot : slots_) HYCRT_RETURN_IF_ERROR(file_->wait(slot.ticket));
  return {};
}

}  // namespace hycrt
