// DiskMoves: what moves between the rank's file and memory that a device works on.
//
// A disk knows nothing of streams, and a stream nothing of disks: somebody has to wait for the one before the other may
// begin. A thread of its own does, so that neither the thread that starts kernels nor the device waits for anything but
// what it needs next. A move starts when what was on the stream at its start is done, since that may still use the
// memory; memory of the host is then read or written by the disk itself. Between the device's memory and the file,
// bytes pass through slots of pinned memory, some of them on their way to or from the disk while others are copied.
//
// Moves begin in the order of their starts. The surprise: one that waits for the stream holds up those behind it, which
// the plan starts later because they are needed later.
#ifndef HYCRT_SRC_CUDA_DISK_MOVES_H_
#define HYCRT_SRC_CUDA_DISK_MOVES_H_

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "hycrt/status.h"
#include "io/block_file.h"
#include "io/io_fault.h"

namespace hycrt {

enum class MoveSide : uint8_t { kHost, kDevice };

// One range of memory and one of the file.
struct DiskMove {
  IoOperation operation;
  MoveSide side;
  std::byte* memory;
  int64_t bytes, offset;
};

class DiskMoves {
 public:
  // `file` outlives this object; `device` is the one that moves to the device's memory go to.
  static Result<std::unique_ptr<DiskMoves>> create(BlockFile* file, int device);
  // Lets what is under way end, drops what was not begun.
  ~DiskMoves();
  DiskMoves(const DiskMoves&) = delete;
  DiskMoves& operator=(const DiskMoves&) = delete;

  // After what is on `compute` so far. Numbers from 1 on.
  Result<uint64_t> start(const DiskMove& move, cudaStream_t compute);
  // Once a move: returns when the disk is done with the range, a read to the device's memory as far as the slots; what
  // is put on `compute` from then on finds what was moved.
  Status wait(uint64_t number, cudaStream_t compute);

 private:
  struct Entry {
    DiskMove move;
    cudaEvent_t event = nullptr;  // what it waits for; of a read to the device, later on, that it is there
    bool isBegun = false;         // by the thread; on the device's side that is all but the last copies
    IoTicket ticket;              // on the host's side
    Status status;
  };
  struct Slot {
    std::byte* memory = nullptr;
    cudaEvent_t copied = nullptr;  // its last copy by the device
    IoTicket ticket;               // its last transfer of the disk
  };
  static constexpr size_t kSlots = 4;
  static constexpr int64_t kSlotBytes = int64_t{4} << 20;

  DiskMoves(BlockFile* file, int device) : file_(file), device_(device) {}
  Status open();
  void run();
  Status begin(Entry& entry);
  Status readToDevice(const Entry& entry);
  Status writeFromDevice(const Entry& entry);
  Status openSlots();
  Result<cudaEvent_t> takeEvent();

  BlockFile* const file_;
  const int device_;
  cudaStream_t stream_ = nullptr;
  void* pinned_ = nullptr;
  std::vector<Slot> slots_;  // the thread's; there once something moves to or from the device's memory

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint64_t, Entry> entries_;  // by number, from start to wait
  std::deque<uint64_t> queue_;         // not begun
  std::vector<cudaEvent_t> events_;    // nobody's
  uint64_t started_ = 0;
  bool isClosed_ = false, hasFailed_ = false;
  std::thread thread_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_CUDA_DISK_MOVES_H_
