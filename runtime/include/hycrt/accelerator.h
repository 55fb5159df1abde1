// Accelerator: the device that a rank's arenas and kernels are on, as the rest of the runtime sees it. A program for
// CPUs has none.
//
// Every arena but those on the host (ArenaDesc::onHost) then exists twice: where generated code works, and as an image
// on the host, at the same offsets, through which initial values, inputs, scalars and saved states pass. The surprise:
// an image is memory only where somebody has touched it, and what it holds is old unless it was just copied.
#ifndef HYCRT_ACCELERATOR_H_
#define HYCRT_ACCELERATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hycrt/indices.h"
#include "hycrt/program.h"
#include "hycrt/status.h"
#include "hycrt/surroundings.h"

struct CUstream_st;

namespace hycrt {

class BlockFile;
class DeviceExchanger;

// How the ranks of a device program exchange tensors.
enum class DeviceComm : uint8_t {
  kAuto,    // NCCL where the job has more than one rank
  kNccl,    // a GPU a rank
  kStaged,  // --comm shm: through pinned images and shared memory; ranks may share a GPU
};

// Whether steps after the first are a recorded one (a CUDA graph).
enum class StepRecording : uint8_t {
  kAuto,  // where one can be recorded
  kOn,    // an error where none can
  kOff,
};

struct DevicePlace {
  int localRank = 0;  // among the ranks here
  Surroundings surroundings;
  DeviceComm comm = DeviceComm::kAuto;
  bool tf32 = false;  // products of f32 may round their factors to TF32
};

// What a rank takes of its device, in bytes. All but `planned` are differences of what the driver calls free, so that
// other processes that come or go meanwhile are in them too.
struct DeviceMemory {
  int64_t planned = 0;  // of the arenas
  int64_t arenas = 0;   // what allocating them took
  int64_t later = 0;    // what was taken after that: kernels' code, cuBLASLt, NCCL, pinned rings
  int64_t before = 0;   // what was taken in front: the context, and whoever else is there
};

class Accelerator {
 public:
  virtual ~Accelerator() = default;

  // Whether there is any device that this process can use; the reason in one line where there is none.
  virtual Status probe() = 0;
  // Takes the rank's device, if it can run the program and has the memory; every message says what was found.
  virtual Status open(const Program& program, const DevicePlace& place) = 0;
  // One allocation an arena, zeroed. `images` outlive this object; `pinsShared`: peers exchange through them; `file` is
  // the arena that is one, and outlives this object, too; null: none is.
  virtual Status allocate(const Program& program, std::byte* const* images, bool pinsShared, BlockFile* file) = 0;

  // On the device; valid for the whole run.
  virtual std::byte* arena(int index) const = 0;
  // Where generated code puts its kernels.
  virtual CUstream_st* stream() const = 0;

  // The three are done in the order of the stream. What `upload` takes from the image may change when it returns; with
  // the other two the image is left alone until finish().
  virtual Status upload(BufferRef buffer, int64_t bytes) = 0;
  virtual Status copyToDevice(BufferRef buffer, int64_t bytes) = 0;
  virtual Status copyToHost(BufferRef buffer, int64_t bytes) = 0;
  // Compares indices on the device with their bound where the stream comes to them (hycrt/indices.h); nobody waits. Of
  // one that lies outside finish() tells. `ctx` and `op` are there at each finish() to come.
  virtual void checkIndices(const Context& ctx, const char* op, const int64_t* indices, int64_t count, int64_t bound,
                            int64_t uncounted = kAllCounted) = 0;

  // Waits for all that was put on the stream; the first error of any of it.
  virtual Status finish() = 0;

  // A step that is recorded once and run as one thing. Between beginRecording and endRecording nothing runs, and
  // uploads are remembered; where something cannot be recorded, endRecording fails and all is as before. Later steps:
  // refill, the same uploads in the same order, launch. The device is idle at each beginRecording and refill; a step
  // between two calls of finish() has come before.
  virtual Status beginRecording() = 0;
  virtual Status endRecording() = 0;
  virtual void refill() = 0;
  virtual Status launch() = 0;

  // Moves between arenas beside the stream's kernels: after what is on the stream at the start, before what follows the
  // wait. That holds up the caller only where the file takes part, until the disk is done: each of these is waited for
  // once. `zeros` bytes behind those that are moved become zero, of memory alone. No number is 0.
  virtual Result<uint64_t> startMove(BufferRef source, BufferRef destination, int64_t bytes, int64_t zeros) = 0;
  virtual Status waitMove(uint64_t move) = 0;

  // `bytes` from any address on the device, when all that was put on the stream is done.
  virtual Status read(const std::byte* from, std::byte* to, int64_t bytes) = 0;

  // Remembers when the stream comes to this place. After finish(), takeMarks gives the times of all marks since it was
  // asked last, in ns of CLOCK_MONOTONIC as of the first of them: that one must have met an idle device.
  virtual Status mark() = 0;
  virtual Result<std::vector<int64_t>> takeMarks() = 0;

  virtual Result<DeviceMemory> measureMemory() = 0;

  // Exchanges that the device does by itself; null: they are staged.
  virtual DeviceExchanger* exchanger() { return nullptr; }

  // "NVIDIA H100, 512 MiB of arenas, 811 MiB beside them (context, libraries, other processes)".
  virtual std::string describe() const = 0;
};

// What runProgram is given to make one.
using MakeAccelerator = std::unique_ptr<Accelerator> (*)();

// CUDA devices (libhycrt_cuda).
std::unique_ptr<Accelerator> makeCudaDevice();

// Whether code compiled for `architectures`, as in 80 and 90, runs on a device of compute capability major.minor:
// binaries run on the same major version, from their minor version on.
bool runsOnCapability(const Table<int>& architectures, int major, int minor);

}  // namespace hycrt

#endif  // HYCRT_ACCELERATOR_H_
