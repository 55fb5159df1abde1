// WriteBehind: the chunks of a file that is written from its beginning to its end. While some are written, past the
// page cache where the file system can do that, whoever makes them fills and sums the next. A file of one chunk is
// written where it is made, without a thread.
#ifndef HYCRT_SRC_CHECKPOINT_WRITE_BEHIND_H_
#define HYCRT_SRC_CHECKPOINT_WRITE_BEHIND_H_

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/file.h"
#include "hycrt/file_sums.h"
#include "hycrt/status.h"

namespace hycrt {

class WriteBehind {
 public:
  // `file` outlives it.
  WriteBehind(const FileDescriptor& file, std::string path) : file_(file), path_(std::move(path)) {}
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  // Memory of kChunkBytes for the next chunk, the same until that is given to write(). Waits for room.
  std::byte* chunk();
  // What chunk() gave goes behind what was written before; of the last chunk fewer bytes than kChunkBytes. An error may
  // be that of a chunk before.
  Status write(int64_t bytes);
  // All is written, or the first error.
  Status finish();

 private:
  static constexpr size_t kUnderWay = 4;  // of which a disk makes the most
  struct AlignedDelete {
    void operator()(std::byte* memory) const;
  };
  struct Slot {
    std::unique_ptr<std::byte[], AlignedDelete> memory;
    int64_t bytes = 0;  // that wait, or are written; 0: free
    int64_t offset = 0;
  };

  Slot& slotOf(int64_t chunk) { return slots_[static_cast<size_t>(chunk) % slots_.size()]; }
  void startThreads();
  void run();
  Status writeChunk(const std::byte* from, int64_t bytes, int64_t offset);

  const FileDescriptor& file_;
  const std::string path_;
  int64_t offset_ = 0;
  bool hasBegun_ = false;

  std::array<std::thread, kUnderWay> threads_;
  std::mutex mutex_;
  std::condition_variable work_, room_;
  std::array<Slot, kUnderWay + 1> slots_;  // and that which is filled
  int64_t given_ = 0, taken_ = 0;          // chunks, by whoever makes and by whoever writes them
  bool isOver_ = false;
  Status status_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_WRITE_BEHIND_H_
