// NCCL. Collectives go on a stream of their own, between two events: after what was computed before their start, before
// what is computed after their wait. All of a rank's exchanges share that stream, so that their order is the one the
// compiler has checked.
//
// A flat exchange is a group of reductions to (or broadcasts from) whoever has the shard: shards differ in size, which
// ncclReduceScatter and ncclAllGather do not know. Sums have NCCL's order, not that of world ranks.
#include "cuda/nccl.h"

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cuda/device.h"

namespace hycrt {
namespace {

static_assert(sizeof(ncclUniqueId) == kGreetingBytes);

constexpr int kEvents = 64;  // exchanges whose ends are remembered; a later one's end is an earlier one's too
constexpr int64_t kPollNs = 200000;
constexpr int kDefaultTimeoutSeconds = 600;

int timeoutSeconds() {
  const char* text = std::getenv("HYC_NCCL_TIMEOUT");
  const int seconds = text ? std::atoi(text) : 0;
  return seconds > 0 ? seconds : kDefaultTimeoutSeconds;
}

void makeId(std::byte* greeting) {
  ncclUniqueId id;
  if (ncclGetUniqueId(&id) == ncclSuccess) std::memcpy(greeting, &id, sizeof id);
}

ncclDataType_t typeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ncclFloat32;
    case DType::kF64:
      return ncclFloat64;
    case DType::kI32:
      return ncclInt32;
    case DType::kI64:
      return ncclInt64;
    case DType::kF16:
      return ncclFloat16;
    case DType::kBF16:
      return ncclBfloat16;
    case DType::kU8:
      return ncclUint8;
  }
  return ncclUint8;
}

class NcclCollectives : public DeviceCollectives {
 public:
  ~NcclCollectives() override {
    for (ncclComm_t comm : comms_) {
      if (comm) failed_ ? ncclCommAbort(comm) : ncclCommDestroy(comm);
    }
    for (Pending& one : pending_) {
      if (one.done) cudaEventDestroy(one.done);
    }
    if (ready_) cudaEventDestroy(ready_);
    if (stream_) cudaStreamDestroy(stream_);
  }

  Greeter greeter() const override { return makeId; }
  Status connect(const Program& program, Communicator& communicator, int rank) override;
  Result<Ticket> start(Context& ctx, const CollectiveCall& call) override;
  Status wait(Ticket ticket) override;
  Status exchange(Context& ctx, const TransferUse* uses, int count) override;
  Status watch(CUstream_st* stream) override;

 private:
  // This rank came to exchange `number` of a channel.
  struct Arrival {
    int channel;
    uint64_t number;
  };
  // An exchange that was put on the stream.
  struct Pending {
    cudaEvent_t done = nullptr;
    std::string name;
    std::vector<int> members;
    std::vector<Arrival> arrivals;  // of this rank, by channel
  };

  Status begin(cudaStream_t compute);
  Result<Ticket> end(const std::string& name, const std::vector<int>& members, std::vector<Arrival> arrivals,
                     ncclResult_t result);
  std::string missingFrom(const Pending& one) const;
  Status check(ncclResult_t result, const std::string& what);
  ncclResult_t enqueue(Context& ctx, const CollectiveCall& call, ncclComm_t comm);
  ncclResult_t enqueueFlat(Context& ctx, const CollectiveCall& call, const std::vector<int>& members, ncclComm_t comm);
  int64_t coordinateOfShard(const CollectiveDesc& row, int rank) const;
  const Pending* oldestUnfinished() const;
  Status failure(const std::string& what);

  const Program* program_ = nullptr;
  Communicator* communicator_ = nullptr;
  int rank_ = 0;
  std::vector<ncclComm_t> comms_;  // by channel; null: a transfer's channel, or a group of this rank alone
  cudaStream_t stream_ = nullptr, compute_ = nullptr;
  cudaEvent_t ready_ = nullptr;
  std::vector<Pending> pending_ = std::vector<Pending>(kEvents);
  uint64_t started_ = 0;
  bool failed_ = false;
};

Status NcclCollectives::check(ncclResult_t result, const std::string& what) {
  if (result == ncclSuccess) return {};
  failed_ = true;
  return unavailableError("NCCL: " + what + " failed: " + ncclGetErrorString(result));
}

Status NcclCollectives::connect(const Program& program, Communicator& communicator, int rank) {
  program_ = &program;
  communicator_ = &communicator;
  rank_ = rank;
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"));
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming), "making an event"));
  for (Pending& one : pending_) {
    HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventCreateWithFlags(&one.done, cudaEventDisableTiming), "making an event"));
  }
  const ChannelPlans& plans = communicator.plans();
  std::vector<bool> isGroup(plans.channels.size(), false);
  for (int channel : plans.ofGroup) {
    if (channel >= 0) isGroup[static_cast<size_t>(channel)] = true;
  }
  isGroup[static_cast<size_t>(plans.world)] = true;
  comms_.assign(plans.channels.size(), nullptr);
  // All groups at once: which comes first differs between the programs of stages.
  HYCRT_RETURN_IF_ERROR(check(ncclGroupStart(), "joining groups"));
  for (size_t i = 0; i < plans.channels.size(); ++i) {
    const std::vector<int>& members = plans.channels[i].members;
    if (!isGroup[i] || members.size() < 2) continue;
    ncclUniqueId id;
    std::memcpy(&id, communicator.greetingOf(static_cast<int>(i)), sizeof id);
    int self = 0;
    while (members[static_cast<size_t>(self)] != rank) ++self;
    HYCRT_RETURN_IF_ERROR(
        check(ncclCommInitRank(&comms_[i], static_cast<int>(members.size()), id, self), "joining a group"));
  }
  return check(ncclGroupEnd(), "joining groups");
}

// What was computed so far comes before what is put on the stream of exchanges.
Status NcclCollectives::begin(cudaStream_t compute) {
  compute_ = compute;
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventRecord(ready_, compute), "recording an event"));
  return cudaStatus(cudaStreamWaitEvent(stream_, ready_, 0), "waiting for an event");
}

Result<Ticket> NcclCollectives::end(const std::string& name, const std::vector<int>& members,
                                    std::vector<Arrival> arrivals, ncclResult_t result) {
  HYCRT_RETURN_IF_ERROR(check(result, name));
  Pending& one = pending_[started_ % kEvents];
  one.name = name;
  one.members = members;
  one.arrivals = std::move(arrivals);
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventRecord(one.done, stream_), "recording an event"));
  return Ticket{0, started_++};
}

Status NcclCollectives::wait(Ticket ticket) {
  if (ticket.channel < 0) return {};
  // Where the event has been taken by a later exchange, that one's end is waited for, which is no sooner.
  return cudaStatus(cudaStreamWaitEvent(compute_, pending_[ticket.sequence % kEvents].done, 0), "waiting for an event");
}

Result<Ticket> NcclCollectives::start(Context& ctx, const CollectiveCall& call) {
  const CollectiveDesc& row = program_->collectives[call.collective];
  const int channel = communicator_->plans().ofGroup[static_cast<size_t>(row.group)];
  const std::vector<int>& members = communicator_->plans().channels[static_cast<size_t>(channel)].members;
  const Arrival arrival{channel, communicator_->announce(channel)};
  HYCRT_RETURN_IF_ERROR(begin(ctx.accelerator()->stream()));
  ncclComm_t const comm = comms_[static_cast<size_t>(channel)];
  ncclResult_t result = ncclSuccess;
  if (comm) {
    result = call.parts ? enqueueFlat(ctx, call, members, comm) : enqueue(ctx, call, comm);
  } else if (!call.parts) {
    const auto at = [&](BufferRef buffer) { return ctx.accelerator()->arena(buffer.arena) + buffer.offset; };
    if (at(call.source) != at(call.destination)) {
      HYCRT_RETURN_IF_ERROR(cudaStatus(
          cudaMemcpyAsync(at(call.destination), at(call.source), static_cast<size_t>(call.count * sizeOf(call.dtype)),
                          cudaMemcpyDeviceToDevice, stream_),
          "copying on the device"));
    }
  }
  return end(row.name, members, {arrival}, result);
}

ncclResult_t NcclCollectives::enqueue(Context& ctx, const CollectiveCall& call, ncclComm_t comm) {
  const auto at = [&](BufferRef buffer) { return ctx.accelerator()->arena(buffer.arena) + buffer.offset; };
  const size_t count = static_cast<size_t>(call.count);
  const ncclRedOp_t op = call.op == ReduceOp::kMax ? ncclMax : ncclSum;
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
      return ncclAllReduce(at(call.source), at(call.destination), count, typeOf(call.dtype), op, comm, stream_);
    case CollectiveKind::kReduceScatter:
      return ncclReduceScatter(at(call.source), at(call.destination), count, typeOf(call.dtype), op, comm, stream_);
    case CollectiveKind::kAllGather:
      return ncclAllGather(at(call.source), at(call.destination), count, typeOf(call.dtype), comm, stream_);
    case CollectiveKind::kBarrier:
      return ncclSuccess;
  }
  return ncclSuccess;
}

int64_t NcclCollectives::coordinateOfShard(const CollectiveDesc& row, int rank) const {
  const Coordinates at = coordinatesOf(program_->mesh, rank);
  int64_t coordinate = 0;
  for (Axis axis : row.flat) coordinate = coordinate * sizeOf(program_->mesh, axis) + coordinateOf(at, axis);
  return coordinate;
}

// A shard that several members have is reduced for all of them at once, in place: what others' slices hold afterwards
// is no value. Of an all_gather the first of them sends.
ncclResult_t NcclCollectives::enqueueFlat(Context& ctx, const CollectiveCall& call, const std::vector<int>& members,
                                          ncclComm_t comm) {
  const CollectiveDesc& row = program_->collectives[call.collective];
  const auto at = [&](BufferRef buffer) { return ctx.accelerator()->arena(buffer.arena) + buffer.offset; };
  const int64_t size = sizeOf(call.dtype);
  int64_t coordinates = 1;
  for (Axis axis : row.flat) coordinates *= sizeOf(program_->mesh, axis);
  ncclResult_t result = ncclGroupStart();
  for (int i = 0; i < call.partCount; ++i) {
    const FlatPart& part = call.parts[i];
    for (int64_t c = 0; c < coordinates && result == ncclSuccess; ++c) {
      int owner = -1, owners = 0;
      for (size_t m = 0; m < members.size(); ++m) {
        if (coordinateOfShard(row, members[m]) != c) continue;
        if (owners++ == 0) owner = static_cast<int>(m);
      }
      const FlatShard shard = flatShard(c, part.shardElements, part.elements);
      if (owners == 0 || shard.count <= 0) continue;
      std::byte* const place = at(part.whole) + shard.begin * size;
      const size_t count = static_cast<size_t>(shard.count);
      if (call.kind == CollectiveKind::kAllGather) {
        const bool isOwn = members[static_cast<size_t>(owner)] == rank_;
        const std::byte* const source = isOwn && part.shard.arena >= 0 ? at(part.shard) : place;
        result = ncclBroadcast(source, place, count, typeOf(call.dtype), owner, comm, stream_);
      } else if (owners == 1) {
        result = ncclReduce(place, place, count, typeOf(call.dtype), ncclSum, owner, comm, stream_);
      } else {
        result = ncclAllReduce(place, place, count, typeOf(call.dtype), ncclSum, comm, stream_);
      }
    }
  }
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

Status NcclCollectives::exchange(Context& ctx, const TransferUse* uses, int count) {
  ncclComm_t const world = comms_[static_cast<size_t>(communicator_->plans().world)];
  HYCRT_RETURN_IF_ERROR(begin(ctx.accelerator()->stream()));
  std::vector<int> peers;
  std::vector<Arrival> arrivals;
  ncclResult_t result = ncclGroupStart();
  for (int i = 0; i < count && result == ncclSuccess; ++i) {
    const TransferDesc& transfer = program_->transfers[uses[i].transfer];
    Coordinates at = ctx.at();
    at.pp = transfer.peerStage;
    const int peer = rankOf(program_->mesh, at);
    peers.push_back(peer);
    const int channel = communicator_->plans().ofTransfer[static_cast<size_t>(uses[i].transfer)];
    arrivals.push_back({channel, communicator_->announce(channel)});
    std::byte* const place =
        ctx.accelerator()->arena(transfer.buffer.arena) + transfer.buffer.offset + transfer.slotStride * uses[i].slot;
    const size_t bytes = static_cast<size_t>(transfer.bytes);
    result = transfer.direction == Direction::kSend ? ncclSend(place, bytes, ncclUint8, peer, world, stream_)
                                                    : ncclRecv(place, bytes, ncclUint8, peer, world, stream_);
  }
  const ncclResult_t ended = ncclGroupEnd();
  const std::string name = count > 0 ? program_->transfers[uses[0].transfer].name : "nothing";
  Result<Ticket> ticket =
      end("the exchange of " + name, peers, std::move(arrivals), result == ncclSuccess ? ended : result);
  return ticket.ok() ? wait(*ticket) : ticket.status();
}

// ---------------------------------------------------------------------------------------------------------- watching

const NcclCollectives::Pending* NcclCollectives::oldestUnfinished() const {
  const uint64_t first = started_ < kEvents ? 0 : started_ - kEvents;
  for (uint64_t i = first; i < started_; ++i) {
    const Pending& one = pending_[i % kEvents];
    if (cudaEventQuery(one.done) == cudaErrorNotReady) return &one;
  }
  return nullptr;
}

// "; rank 2, 3 did not arrive there", or that all did.
std::string NcclCollectives::missingFrom(const Pending& one) const {
  std::vector<int> missing;
  for (const Arrival& arrival : one.arrivals) {
    for (int rank : communicator_->missingAt(arrival.channel, arrival.number)) {
      if (std::find(missing.begin(), missing.end(), rank) == missing.end()) missing.push_back(rank);
    }
  }
  if (missing.empty()) return "; every rank has arrived there";
  std::string text = missing.size() == 1 ? "; rank" : "; ranks";
  for (size_t i = 0; i < missing.size(); ++i) text += (i ? ", " : " ") + std::to_string(missing[i]);
  return text + " did not arrive there";
}

// Ends all groups, since a rank that waits inside NCCL's kernels waits for ever.
Status NcclCollectives::failure(const std::string& what) {
  const Pending* const one = oldestUnfinished();
  std::string text = "NCCL: " + what;
  if (one) {
    text += " in " + one->name + ", together with rank";
    for (size_t i = 0; i < one->members.size(); ++i) text += (i ? ", " : " ") + std::to_string(one->members[i]);
    const std::string lost = communicator_->lostAmong(one->members);
    text += lost.empty() ? missingFrom(*one) : "; " + lost;
  }
  failed_ = true;
  for (ncclComm_t& comm : comms_) {
    if (comm) ncclCommAbort(comm);
    comm = nullptr;
  }
  return unavailableError(text);
}

Status NcclCollectives::watch(CUstream_st* stream) {
  const int64_t limit = monotonicNs() + int64_t{timeoutSeconds()} * 1000000000;
  for (int64_t polls = 0;; ++polls) {
    const cudaError_t state = cudaStreamQuery(stream);
    if (state != cudaErrorNotReady) return cudaStatus(state, "a kernel");
    for (ncclComm_t comm : comms_) {
      ncclResult_t error = ncclSuccess;
      if (!comm || ncclCommGetAsyncError(comm, &error) != ncclSuccess) continue;
      if (error != ncclSuccess && error != ncclInProgress) return failure(ncclGetErrorString(error));
    }
    if (polls % 500 == 499 && oldestUnfinished()) {
      const Pending* const one = oldestUnfinished();
      if (one && !communicator_->lostAmong(one->members).empty()) return failure("a peer is gone");
    }
    if (monotonicNs() > limit) {
      return failure("nothing has moved for " + std::to_string(timeoutSeconds()) + " s (HYC_NCCL_TIMEOUT)");
    }
    const timespec nap{0, kPollNs};
    nanosleep(&nap, nullptr);
  }
}

}  // namespace

std::unique_ptr<DeviceCollectives> makeNcclCollectives() { return std::make_unique<NcclCollectives>(); }

}  // namespace hycrt
