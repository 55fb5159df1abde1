// CudaDevice: the GPU of one rank. Arenas are one allocation each, one stream runs the program's kernels, two others
// move what is offloaded, one a direction.
#ifndef HYCRT_SRC_CUDA_DEVICE_H_
#define HYCRT_SRC_CUDA_DEVICE_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <string>
#include <vector>

#include "comm/device_exchanger.h"
#include "cuda/disk_moves.h"
#include "cuda/index_checks.h"
#include "cuda/step_graph.h"
#include "hycrt/accelerator.h"

namespace hycrt {

// An error that names the call; `what` reads like "copy to the device".
Status cudaStatus(cudaError_t error, const std::string& what);

// Pinned memory through which uploads go, so that what they take may change at once: slots in turn, each with the event
// that ends its last copy.
class UploadRing {
 public:
  ~UploadRing();
  Status open();
  Status copy(std::byte* to, const std::byte* from, int64_t bytes, cudaStream_t stream);

 private:
  static constexpr int kSlots = 8;
  static constexpr int64_t kSlotBytes = int64_t{1} << 20;
  struct Slot {
    std::byte* memory = nullptr;
    cudaEvent_t copied = nullptr;
  };
  std::vector<Slot> slots_;
  size_t next_ = 0;
};

// Pinned memory through which numbers come back: a copy to other memory would hold up the caller until all that is in
// front of it is done.
class ReadRing {
 public:
  static constexpr int64_t kSlotBytes = 64;
  ~ReadRing();
  Status open();
  // At most kSlotBytes; there when take() is called after `stream` is done.
  Status copy(std::byte* to, const std::byte* from, int64_t bytes, cudaStream_t stream);
  void take();

 private:
  static constexpr int kSlots = 64;
  struct Read {
    std::byte* to;
    int64_t bytes;
  };
  std::byte* memory_ = nullptr;
  std::vector<Read> pending_;
};

// Events with times, used again after they were taken.
class MarkList {
 public:
  ~MarkList();
  Status add(cudaStream_t stream);
  Result<std::vector<int64_t>> take();

 private:
  std::vector<cudaEvent_t> events_;
  size_t used_ = 0;
  int64_t firstNs_ = 0;  // when the first one was put on the stream
};

// A stream of its own for moves, joined with the program's by events.
class TransferStream {
 public:
  ~TransferStream();
  Status open();
  // After what is on `compute` so far.
  Result<uint64_t> start(std::byte* to, const std::byte* from, int64_t bytes, int64_t zeros, cudaStream_t compute);
  // What is put on `compute` from now on comes after the move.
  Status wait(uint64_t move, cudaStream_t compute);

 private:
  static constexpr int kEvents = 64;  // a later move's end is an earlier one's too
  cudaStream_t stream_ = nullptr;
  cudaEvent_t ready_ = nullptr;
  std::vector<cudaEvent_t> moved_;
  uint64_t started_ = 0;
};

class CudaDevice : public Accelerator {
 public:
  ~CudaDevice() override;
  Status probe() override;
  Status open(const Program& program, const DevicePlace& place) override;
  Status allocate(const Program& program, std::byte* const* images, bool pinsShared, BlockFile* file) override;
  std::byte* arena(int index) const override { return arenas_[static_cast<size_t>(index)]; }
  CUstream_st* stream() const override { return stream_; }
  Status upload(BufferRef buffer, int64_t bytes) override;
  Status copyToDevice(BufferRef buffer, int64_t bytes) override;
  Status copyToHost(BufferRef buffer, int64_t bytes) override;
  void checkIndices(const Context& ctx, const char* op, const int64_t* indices, int64_t count, int64_t bound,
                    int64_t uncounted) override;
  Status finish() override;
  Status beginRecording() override;
  Status endRecording() override;
  void refill() override { graph_->refill(); }
  Status launch() override;
  Result<uint64_t> startMove(BufferRef source, BufferRef destination, int64_t bytes, int64_t zeros) override;
  Status waitMove(uint64_t move) override;
  Status read(const std::byte* from, std::byte* to, int64_t bytes) override;
  Status mark() override;
  Result<std::vector<int64_t>> takeMarks() override;
  Result<DeviceMemory> measureMemory() override;
  DeviceExchanger* exchanger() override { return exchanger_.get(); }
  std::string describe() const override;

 private:
  Status choose(const Program& program, const DevicePlace& place);
  Status checkMemory(const Program& program) const;
  Status place(const ArenaDesc& arena);
  bool isOnHost(BufferRef buffer) const;
  bool isFile(BufferRef buffer) const { return buffer.arena == fileArena_; }
  bool hasImage(BufferRef buffer) const { return !isOnHost(buffer) && !isFile(buffer); }
  bool tellsLater(const Status& failure);
  Result<uint64_t> startDiskMove(BufferRef source, BufferRef destination, int64_t bytes);
  Status placeOnHost(const ArenaDesc& arena, std::byte* image);
  std::byte* onDevice(BufferRef buffer) const { return arenas_[static_cast<size_t>(buffer.arena)] + buffer.offset; }
  std::byte* onHost(BufferRef buffer) const { return images_[buffer.arena] + buffer.offset; }

  int count_ = 0;
  std::string name_;
  int64_t planned_ = 0;
  int64_t total_ = 0, freeBefore_ = 0, freeAfter_ = 0;  // as the driver says, around the arenas' allocation
  MarkList marks_;
  TransferStream fetches_, evictions_;  // a bus carries both ways at once
  std::unique_ptr<DiskMoves> diskMoves_;
  std::unique_ptr<StepGraph> graph_;
  int64_t uploaded_ = 0, mostUploaded_ = 0;  // since the last finish(), and between any two; for the graph's places
  Status unrecorded_;                        // why what is being recorded is no graph; as far as moves have told
  cudaStream_t stream_ = nullptr;
  std::vector<std::byte*> arenas_;
  std::vector<std::byte*> allocated_;  // of the arenas, those that are the device's own
  std::vector<std::byte*> pinned_;
  std::vector<int> pinnedArenas_;  // whose images are the arenas
  int fileArena_ = -1, device_ = 0;
  std::byte* const* images_ = nullptr;
  UploadRing ring_;
  ReadRing reads_;
  IndexChecks indexChecks_;
  std::unique_ptr<DeviceExchanger> exchanger_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_CUDA_DEVICE_H_
