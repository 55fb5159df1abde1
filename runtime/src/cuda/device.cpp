// Opening the device, allocating its arenas, and copies to and from it.
#include "cuda/device.h"

#include <algorithm>
#include <cstring>

#include "base/trace.h"
#include "cuda/nccl.h"
#include "kernels/gemm/cuda.h"

namespace hycrt {
namespace {

std::string mebibytes(int64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20) + " MiB"; }

std::string versionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string listOf(const Table<int>& architectures) {
  std::string text;
  for (int architecture : architectures) text += (text.empty() ? "sm_" : ", sm_") + std::to_string(architecture);
  return text;
}

Status freeAndTotal(int64_t* free, int64_t* total) {
  size_t freeBytes = 0, totalBytes = 0;
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaMemGetInfo(&freeBytes, &totalBytes), "asking for free memory"));
  *free = static_cast<int64_t>(freeBytes);
  *total = static_cast<int64_t>(totalBytes);
  return {};
}

}  // namespace

Status cudaStatus(cudaError_t error, const std::string& what) {
  if (error == cudaSuccess) return {};
  return unavailableError("CUDA: " + what + " failed: " + cudaGetErrorString(error));
}

// ------------------------------------------------------------------------------------------------------- UploadRing

UploadRing::~UploadRing() {
  for (Slot& slot : slots_) {
    if (slot.copied) cudaEventDestroy(slot.copied);
    if (slot.memory) cudaFreeHost(slot.memory);
  }
}

Status UploadRing::open() {
  slots_.resize(kSlots);
  for (Slot& slot : slots_) {
    HYCRT_RETURN_IF_ERROR(
        cudaStatus(cudaMallocHost(reinterpret_cast<void**>(&slot.memory), kSlotBytes), "allocating pinned memory"));
    HYCRT_RETURN_IF_ERROR(
        cudaStatus(cudaEventCreateWithFlags(&slot.copied, cudaEventDisableTiming), "making an event"));
  }
  return {};
}

Status UploadRing::copy(std::byte* to, const std::byte* from, int64_t bytes, cudaStream_t stream) {
  for (int64_t done = 0; done < bytes; done += kSlotBytes) {
    Slot& slot = slots_[next_];
    next_ = (next_ + 1) % slots_.size();
    const size_t part = static_cast<size_t>(std::min(kSlotBytes, bytes - done));
    // An event that was never recorded is over.
    HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventSynchronize(slot.copied), "waiting for a copy"));
    std::memcpy(slot.memory, from + done, part);
    HYCRT_RETURN_IF_ERROR(cudaStatus(cudaMemcpyAsync(to + done, slot.memory, part, cudaMemcpyHostToDevice, stream),
                                     "copying to the device"));
    HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventRecord(slot.copied, stream), "recording an event"));
  }
  return {};
}

// --------------------------------------------------------------------------------------------------------- ReadRing

ReadRing::~ReadRing() {
  if (memory_) cudaFreeHost(memory_);
}

Status ReadRing::open() {
  return cudaStatus(cudaMallocHost(reinterpret_cast<void**>(&memory_), kSlots * kSlotBytes),
                    "allocating pinned memory");
}

Status ReadRing::copy(std::byte* to, const std::byte* from, int64_t bytes, cudaStream_t stream) {
  if (pending_.size() == kSlots) {
    HYCRT_RETURN_IF_ERROR(cudaStatus(cudaStreamSynchronize(stream), "a kernel"));
    take();
  }
  std::byte* const slot = memory_ + static_cast<int64_t>(pending_.size()) * kSlotBytes;
  pending_.push_back({to, bytes});
  return cudaStatus(cudaMemcpyAsync(slot, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream),
                    "copying from the device");
}

void ReadRing::take() {
  for (size_t i = 0; i < pending_.size(); ++i) {
    std::memcpy(pending_[i].to, memory_ + static_cast<int64_t>(i) * kSlotBytes, static_cast<size_t>(pending_[i].bytes));
  }
  pending_.clear();
}

// --------------------------------------------------------------------------------------------------------- MarkList

MarkList::~MarkList() {
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
}

Status MarkList::add(cudaStream_t stream) {
  if (used_ == events_.size()) {
    cudaEvent_t event = nullptr;
    HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventCreateWithFlags(&event, cudaEventDefault), "making an event"));
    events_.push_back(event);
  }
  if (used_ == 0) firstNs_ = monotonicNs();
  return cudaStatus(cudaEventRecord(events_[used_++], stream), "recording an event");
}

Result<std::vector<int64_t>> MarkList::take() {
  std::vector<int64_t> times;
  for (size_t i = 0; i < used_; ++i) {
    float milliseconds = 0;
    HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventElapsedTime(&milliseconds, events_[0], events_[i]), "reading an event"));
    times.push_back(firstNs_ + static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6));
  }
  used_ = 0;
  return times;
}

// --------------------------------------------------------------------------------------------------- TransferStream

TransferStream::~TransferStream() {
  for (cudaEvent_t event : moved_) cudaEventDestroy(event);
  if (ready_) cudaEventDestroy(ready_);
  if (stream_) cudaStreamDestroy(stream_);
}

Status TransferStream::open() {
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"));
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming), "making an event"));
  for (int i = 0; i < kEvents; ++i) {
    cudaEvent_t event = nullptr;
    HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event"));
    moved_.push_back(event);
  }
  return {};
}

Result<uint64_t> TransferStream::start(std::byte* to, const std::byte* from, int64_t bytes, int64_t zeros,
                                       cudaStream_t compute) {
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventRecord(ready_, compute), "recording an event"));
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaStreamWaitEvent(stream_, ready_, 0), "waiting for an event"));
  HYCRT_RETURN_IF_ERROR(
      cudaStatus(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, stream_), "moving a tensor"));
  if (zeros > 0) {
    HYCRT_RETURN_IF_ERROR(
        cudaStatus(cudaMemsetAsync(to + bytes, 0, static_cast<size_t>(zeros), stream_), "clearing memory"));
  }
  const uint64_t move = ++started_;
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventRecord(moved_[move % kEvents], stream_), "recording an event"));
  return move;
}

Status TransferStream::wait(uint64_t move, cudaStream_t compute) {
  return cudaStatus(cudaStreamWaitEvent(compute, moved_[move % kEvents], 0), "waiting for an event");
}

// ------------------------------------------------------------------------------------------------------- CudaDevice

CudaDevice::~CudaDevice() {
  diskMoves_.reset();
  graph_.reset();  // which has exchanges of theirs
  exchanger_.reset();
  for (std::byte* pinned : pinned_) cudaHostUnregister(pinned);
  for (std::byte* arena : allocated_) cudaFree(arena);
  if (stream_) cudaStreamDestroy(stream_);
}

Status CudaDevice::probe() {
  const cudaError_t error = cudaGetDeviceCount(&count_);
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) return unavailableError("there is no CUDA device: this machine has no NVIDIA driver");
  if (error != cudaSuccess && driver < runtime / 1000 * 1000) {
    return unavailableError("the NVIDIA driver is too old: it is made for CUDA " + versionText(driver) +
                            ", this program for " + versionText(runtime));
  }
  if (error != cudaSuccess || count_ == 0) {
    return unavailableError(std::string("there is no CUDA device: ") +
                            (error == cudaSuccess ? "the driver lists none" : cudaGetErrorString(error)));
  }
  return {};
}

Status CudaDevice::choose(const Program& program, const DevicePlace& place) {
  const int ranksHere = place.surroundings.ranksHere;
  const bool usesNccl = place.surroundings.worldSize > 1 && place.comm != DeviceComm::kStaged;
  if (usesNccl && ranksHere > count_) {
    return unavailableError("the job has " + std::to_string(ranksHere) + " ranks, but this machine " +
                            std::to_string(count_) + (count_ == 1 ? " GPU" : " GPUs") +
                            ", and NCCL wants a GPU a rank; run with --comm shm to share them");
  }
  const int index = place.localRank % count_;
  device_ = index;
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaSetDevice(index), "taking device " + std::to_string(index)));
  cudaDeviceProp properties{};
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaGetDeviceProperties(&properties, index), "asking what the device is"));
  name_ = properties.name;
  if (!runsOnCapability(program.architectures, properties.major, properties.minor)) {
    const std::string capability = std::to_string(properties.major * 10 + properties.minor);
    return unavailableError("device " + std::to_string(index) + " (" + name_ + ") is an sm_" + capability +
                            ", but program '" + program.name + "' is compiled for " + listOf(program.architectures) +
                            "; compile with --arch sm_" + capability);
  }
  if (!usesNccl) return {};
  exchanger_ = makeNcclExchanger();
  if (exchanger_) return {};
  return unavailableError("this program was built without NCCL; run with --comm shm");
}

// Of this rank alone: whoever shares the device may still be about to take its part.
Status CudaDevice::checkMemory(const Program& program) const {
  size_t free = 0, total = 0;
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaMemGetInfo(&free, &total), "asking for free memory"));
  if (planned_ <= static_cast<int64_t>(free)) return {};
  return unavailableError("the plan of program '" + std::string(program.name) + "' wants " + mebibytes(planned_) +
                          " of device memory, but " + name_ + " has " + mebibytes(static_cast<int64_t>(free)) +
                          " free of " + mebibytes(static_cast<int64_t>(total)));
}

Status CudaDevice::open(const Program& program, const DevicePlace& place) {
  hyc::kernels::cuda::allowTf32(place.tf32);
  HYCRT_RETURN_IF_ERROR(choose(program, place));
  for (const ArenaDesc& arena : program.arenas)
    planned_ += arena.onHost || arena.sharing == Sharing::kFile ? 0 : arena.bytes;
  HYCRT_RETURN_IF_ERROR(checkMemory(program));
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"));
  HYCRT_RETURN_IF_ERROR(fetches_.open());
  HYCRT_RETURN_IF_ERROR(evictions_.open());
  HYCRT_RETURN_IF_ERROR(reads_.open());
  HYCRT_RETURN_IF_ERROR(indexChecks_.open());
  return ring_.open();
}

Status CudaDevice::place(const ArenaDesc& arena) {
  const size_t bytes = static_cast<size_t>(std::max<int64_t>(arena.bytes, 256));
  void* memory = nullptr;
  if (const cudaError_t error = cudaMalloc(&memory, bytes); error != cudaSuccess) {
    return unavailableError(std::string("arena '") + arena.name + "' of " + mebibytes(arena.bytes) +
                            " does not fit on " + name_ + " (the plan wants " + mebibytes(planned_) +
                            " in all): " + cudaGetErrorString(error));
  }
  arenas_.push_back(static_cast<std::byte*>(memory));
  allocated_.push_back(arenas_.back());
  return cudaStatus(cudaMemsetAsync(memory, 0, bytes, stream_), "clearing an arena");
}

// The image itself, which is zero where nobody has written: kernels reach it over the bus.
Status CudaDevice::placeOnHost(const ArenaDesc& arena, std::byte* image) {
  void* memory = nullptr;
  cudaError_t error = cudaHostRegister(image, static_cast<size_t>(arena.bytes), cudaHostRegisterMapped);
  if (error == cudaSuccess) {
    pinned_.push_back(image);
    error = cudaHostGetDevicePointer(&memory, image, 0);
  }
  if (error != cudaSuccess) {
    return unavailableError(std::string("arena '") + arena.name + "' of " + mebibytes(arena.bytes) +
                            " cannot be pinned on the host: " + cudaGetErrorString(error));
  }
  pinnedArenas_.push_back(static_cast<int>(arenas_.size()));
  arenas_.push_back(static_cast<std::byte*>(memory));
  return {};
}

Status CudaDevice::allocate(const Program& program, std::byte* const* images, bool pinsShared, BlockFile* file) {
  images_ = images;
  HYCRT_RETURN_IF_ERROR(freeAndTotal(&freeBefore_, &total_));
  for (int64_t i = 0; i < program.arenas.size; ++i) {
    const ArenaDesc& arena = program.arenas[i];
    if (arena.sharing == Sharing::kFile) {
      fileArena_ = static_cast<int>(i);
      arenas_.push_back(nullptr);
      continue;
    }
    HYCRT_RETURN_IF_ERROR(arena.onHost && arena.bytes > 0 ? placeOnHost(arena, images[i]) : place(arena));
    if (arena.onHost || !pinsShared || arena.sharing != Sharing::kShared || arena.bytes == 0) continue;
    // Copies are right without, only slower: what refuses to be pinned stays as it is.
    if (cudaHostRegister(images[i], static_cast<size_t>(arena.bytes), cudaHostRegisterDefault) == cudaSuccess)
      pinned_.push_back(images[i]);
    else
      cudaGetLastError();
  }
  HYCRT_RETURN_IF_ERROR(freeAndTotal(&freeAfter_, &total_));
  if (file) {
    Result<std::unique_ptr<DiskMoves>> moves = DiskMoves::create(file, device_);
    if (!moves.ok()) return moves.status();
    diskMoves_ = std::move(*moves);
  }
  return finish();
}

Status CudaDevice::read(const std::byte* from, std::byte* to, int64_t bytes) {
  HYCRT_RETURN_IF_ERROR(finish());
  return cudaStatus(cudaMemcpy(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToHost),
                    "copying from the device");
}

Status CudaDevice::mark() { return marks_.add(stream_); }

Result<std::vector<int64_t>> CudaDevice::takeMarks() { return marks_.take(); }

Result<DeviceMemory> CudaDevice::measureMemory() {
  int64_t free = 0, total = 0;
  HYCRT_RETURN_IF_ERROR(freeAndTotal(&free, &total));
  return DeviceMemory{planned_, freeBefore_ - freeAfter_, freeAfter_ - free, total - freeBefore_};
}

// Who carries out a move stands in the low bits of its number.
enum class Mover : uint64_t { kFetches, kEvictions, kDisk };
static constexpr int kMoverBits = 2;
static constexpr uint64_t kUnrecordedMove = uint64_t{1} << kMoverBits;

static Result<uint64_t> numbered(Result<uint64_t> move, Mover by) {
  if (!move.ok()) return move;
  return *move << kMoverBits | static_cast<uint64_t>(by);
}

Result<uint64_t> CudaDevice::startMove(BufferRef source, BufferRef destination, int64_t bytes, int64_t zeros) {
  if (isFile(source) || isFile(destination)) return numbered(startDiskMove(source, destination, bytes), Mover::kDisk);
  const bool isEviction = isOnHost(destination);
  TransferStream& stream = isEviction ? evictions_ : fetches_;
  const Result<uint64_t> started =
      numbered(stream.start(onDevice(destination), onDevice(source), bytes, zeros, stream_),
               isEviction ? Mover::kEvictions : Mover::kFetches);
  if (started.ok() || !tellsLater(started.status())) return started;
  return kUnrecordedMove;
}

// While a step is being recorded nothing has run, and whatever fails says that it cannot be recorded.
bool CudaDevice::tellsLater(const Status& failure) {
  if (!graph_ || !graph_->isRecording()) return false;
  if (unrecorded_.ok()) unrecorded_ = failure;
  return true;
}

Result<uint64_t> CudaDevice::startDiskMove(BufferRef source, BufferRef destination, int64_t bytes) {
  const bool isRead = isFile(source);
  const BufferRef memory = isRead ? destination : source;
  const MoveSide side = isOnHost(memory) ? MoveSide::kHost : MoveSide::kDevice;
  return diskMoves_->start(
      {isRead ? IoOperation::kRead : IoOperation::kWrite, side,
       side == MoveSide::kHost ? onHost(memory) : onDevice(memory), bytes, isRead ? source.offset : destination.offset},
      stream_);
}

Status CudaDevice::waitMove(uint64_t move) {
  const uint64_t number = move >> kMoverBits;
  const Mover mover = static_cast<Mover>(move & ((1 << kMoverBits) - 1));
  if (mover == Mover::kDisk) return diskMoves_->wait(number, stream_);
  const Status waited = (mover == Mover::kEvictions ? evictions_ : fetches_).wait(number, stream_);
  return waited.ok() || tellsLater(waited) ? Status() : waited;
}

// Where the image is the arena there is nothing to copy.
bool CudaDevice::isOnHost(BufferRef buffer) const {
  return std::find(pinnedArenas_.begin(), pinnedArenas_.end(), buffer.arena) != pinnedArenas_.end();
}

Status CudaDevice::upload(BufferRef buffer, int64_t bytes) {
  // Kernels of the step before may still be reading it.
  if (isOnHost(buffer)) return internalError("what the host writes for a step lies in memory that kernels reach");
  if (isFile(buffer)) return {};
  if (graph_ && graph_->takesUploads()) return graph_->upload(onDevice(buffer), onHost(buffer), bytes, stream_);
  uploaded_ += (bytes + StepGraph::kAlignment - 1) / StepGraph::kAlignment * StepGraph::kAlignment;
  return ring_.copy(onDevice(buffer), onHost(buffer), bytes, stream_);
}

Status CudaDevice::copyToDevice(BufferRef buffer, int64_t bytes) {
  if (!hasImage(buffer)) return {};
  return cudaStatus(
      cudaMemcpyAsync(onDevice(buffer), onHost(buffer), static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream_),
      "copying to the device");
}

Status CudaDevice::copyToHost(BufferRef buffer, int64_t bytes) {
  if (!hasImage(buffer)) return {};
  if (bytes <= ReadRing::kSlotBytes) return reads_.copy(onHost(buffer), onDevice(buffer), bytes, stream_);
  return cudaStatus(
      cudaMemcpyAsync(onHost(buffer), onDevice(buffer), static_cast<size_t>(bytes), cudaMemcpyDeviceToHost, stream_),
      "copying from the device");
}

void CudaDevice::checkIndices(const Context& ctx, const char* op, const int64_t* indices, int64_t count, int64_t bound,
                              int64_t uncounted) {
  indexChecks_.add(ctx, op, indices, count, bound, uncounted, stream_);
}

Status CudaDevice::beginRecording() {
  graph_ = std::make_unique<StepGraph>();
  if (const Status begun = graph_->begin(stream_, mostUploaded_); !begun.ok()) {
    graph_.reset();
    cudaGetLastError();  // the status says it
    return begun;
  }
  indexChecks_.beginRecording();
  if (exchanger_) exchanger_->beginRecording();
  unrecorded_ = {};
  return {};
}

Status CudaDevice::endRecording() {
  const Status joined = exchanger_ ? exchanger_->joinRecording(stream_) : Status();
  Status ended = graph_->end(stream_);
  if (!ended.ok()) hyc::kernels::cuda::forgetGemmFailure();
  if (ended.ok()) ended = joined.ok() ? unrecorded_ : joined;
  if (exchanger_) exchanger_->endRecording(!ended.ok());
  indexChecks_.endRecording(!ended.ok());
  return ended;
}

Status CudaDevice::launch() {
  if (exchanger_) HYCRT_RETURN_IF_ERROR(exchanger_->replay());
  return graph_->launch(stream_);
}

Status CudaDevice::finish() {
  // Reading states back and evaluating end with this, too: a step is the most, if one has come.
  mostUploaded_ = std::max(mostUploaded_, uploaded_);
  uploaded_ = 0;
  if (const char* failure = hyc::kernels::cuda::gemmFailure()) return unavailableError(failure);
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaGetLastError(), "starting a kernel"));
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaStreamSynchronize(stream_), "a kernel"));
  reads_.take();
  return indexChecks_.take();
}

std::string CudaDevice::describe() const {
  size_t free = 0, total = 0;
  const bool isKnown = cudaMemGetInfo(&free, &total) == cudaSuccess;
  const int64_t rest = static_cast<int64_t>(total - free) - planned_;
  return "device: " + name_ + ", " + mebibytes(planned_) + " of arenas" +
         (isKnown && rest > 0 ? ", " + mebibytes(rest) + " beside them (context, libraries, other processes)" : "");
}

std::unique_ptr<Accelerator> makeCudaDevice() { return std::make_unique<CudaDevice>(); }

}  // namespace hycrt
