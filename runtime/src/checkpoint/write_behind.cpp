// A ring of chunks: one that is filled, and those that threads write.
#include "checkpoint/write_behind.h"

#include <fcntl.h>

#include <algorithm>
#include <csignal>
#include <new>
#include <utility>

#include "base/limits.h"

namespace hycrt {
namespace {

constexpr size_t kAlignment = 4096;  // of memory, place and size of what goes past the page cache

// Nothing where the file system knows only its cache.
void setDirect(int fd, bool direct) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags >= 0) fcntl(fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT);
}

bool isDirect(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_DIRECT) != 0;
}

}  // namespace

void WriteBehind::AlignedDelete::operator()(std::byte* memory) const {
  operator delete[](memory, std::align_val_t{kAlignment});
}

WriteBehind::~WriteBehind() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    isOver_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

std::byte* WriteBehind::chunk() {
  std::unique_lock<std::mutex> lock(mutex_);
  Slot& slot = slotOf(given_);
  room_.wait(lock, [&] { return slot.bytes == 0; });
  if (!slot.memory) {
    slot.memory.reset(new (std::align_val_t{kAlignment}) std::byte[static_cast<size_t>(kChunkBytes)]);
  }
  return slot.memory.get();
}

Status WriteBehind::write(int64_t bytes) {
  const std::byte* const from = chunk();
  const int64_t offset = std::exchange(offset_, offset_ + bytes);
  if (!std::exchange(hasBegun_, true) && bytes == kChunkBytes) {
    setDirect(file_.get(), true);
    startThreads();
  }
  if (!threads_[0].joinable()) return writeChunk(from, bytes, offset);
  if (bytes < kChunkBytes) {
    // Behind all others: it goes by the cache.
    HYCRT_RETURN_IF_ERROR(finish());
    return writeChunk(from, bytes, offset);
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!status_.ok()) return status_;
  Slot& slot = slotOf(given_++);
  slot.bytes = bytes;
  slot.offset = offset;
  work_.notify_one();
  return {};
}

Status WriteBehind::finish() {
  std::unique_lock<std::mutex> lock(mutex_);
  room_.wait(lock,
             [this] { return std::all_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.bytes == 0; }); });
  return status_;
}

// Fewer will do, and none.
void WriteBehind::startThreads() {
  for (std::thread& thread : threads_) {
    if (!startThread("writing a checkpoint", [this] { run(); }, &thread).ok()) return;
  }
}

void WriteBehind::run() {
  // Handlers of whoever embeds the runtime belong on threads of theirs. The cores are those of the thread that makes
  // the chunks.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return taken_ < given_ || isOver_; });
    if (taken_ == given_) return;
    Slot& slot = slotOf(taken_++);
    lock.unlock();
    Status status = writeChunk(slot.memory.get(), slot.bytes, slot.offset);
    lock.lock();
    if (status_.ok()) status_ = std::move(status);
    slot.bytes = 0;
    room_.notify_one();
  }
}

// What is no multiple goes by the cache; and a file system may take the flag and then refuse the write.
Status WriteBehind::writeChunk(const std::byte* from, int64_t bytes, int64_t offset) {
  if (bytes % static_cast<int64_t>(kAlignment) != 0) setDirect(file_.get(), false);
  const bool wasDirect = isDirect(file_.get());  // another thread may take the flag off meanwhile
  Status status = writeAt(file_, path_, from, bytes, offset);
  if (status.ok() || !wasDirect) return status;
  setDirect(file_.get(), false);
  return writeAt(file_, path_, from, bytes, offset);
}

}  // namespace hycrt
