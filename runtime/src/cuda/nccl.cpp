// NCCL. Collectives go on a stream of their own, between two events: after what was computed before their start, before
// what is computed after their wait. All of a rank's exchanges share that stream, so that their order is the one the
// compiler has checked.
//
// A flat exchange is a group of one call a tensor where its shards are of one size, and otherwise of reductions to (or
// broadcasts from) whoever has a shard: ncclReduceScatter and ncclAllGather know one size alone. Sums have NCCL's
// order, not that of world ranks.
#include "cuda/nccl.h"

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/progress.h"
#include "comm/patience.h"
#include "cuda/arrivals.h"
#include "cuda/device.h"

namespace hycrt {
namespace {

static_assert(sizeof(ncclUniqueId) == kGreetingBytes);

constexpr int kEvents = 64;  // exchanges whose ends are remembered; a later one's end is an earlier one's too
constexpr std::chrono::milliseconds kPollPeriod{20};
// What counts an exchange that is over runs behind the event that lets the computation go on: a peer may go on, and be
// lost in what comes next, before this rank's count tells so. An exchange is named only as it stands still for as long.
constexpr int kLooksBeforeBlame = 6;
constexpr int kMostInGroup = 512;  // calls; NCCL's own bound has been 2048

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

class NcclExchanger : public DeviceExchanger {
 public:
  ~NcclExchanger() override {
    endWatch();
    for (ncclComm_t comm : comms_) {
      if (comm) ncclCommDestroy(comm);
    }
    for (cudaEvent_t event : done_) cudaEventDestroy(event);
    if (ready_) cudaEventDestroy(ready_);
    if (stream_) cudaStreamDestroy(stream_);
  }

  Greeter greeter() const override { return makeId; }
  Status connect(const Program& program, HostExchanger& host, Accelerator& device, EndRun endRun) override;
  Result<Ticket> start(const CollectiveCall& call) override;
  Status wait(Ticket ticket) override;
  Status exchange(const TransferUse* uses, int count) override;
  Result<const uint64_t*> share(uint64_t own) override { return host_->share(own); }
  Status leave(bool finished) override;
  int memberCount(int group) const override { return host_->memberCount(group); }
  std::string catalogOf(int rank) const override { return host_->catalogOf(rank); }
  ExchangeCounts counts() const override { return {-1}; }
  void beginRecording() override;
  Status joinRecording(CUstream_st* stream) override;
  void endRecording(bool failed) override;
  Status replay() override;

 private:
  std::byte* at(BufferRef buffer) const { return device_->arena(buffer.arena) + buffer.offset; }
  bool tellsLater(const Status& failure);
  Result<Ticket> put(const CollectiveCall& call);
  Result<Ticket> putTransfers(const TransferUse* uses, int count);
  Status begin(Arrivals::Exchange exchange);
  Result<Ticket> end(const std::string& name, ncclResult_t result);
  Status check(ncclResult_t result, const std::string& what);
  ncclResult_t enqueue(const CollectiveCall& call, const std::vector<int>& members, ncclComm_t comm);
  ncclResult_t enqueueAllToAll(const CollectiveCall& call, int self, int members, ncclComm_t comm);
  ncclResult_t enqueueShift(const CollectiveCall& call, int self, int members, ncclComm_t comm);
  ncclResult_t enqueueFlat(const CollectiveCall& call, const std::vector<int>& members, ncclComm_t comm);
  // Whose a shard of flat memory is.
  struct Owner {
    int member = -1, count = 0;
  };
  std::vector<Owner> ownersOf(const CollectiveDesc& row, const std::vector<int>& members) const;
  ncclResult_t enqueueEvenPart(const CollectiveCall& call, const FlatPart& part, int self, ncclComm_t comm);
  ncclResult_t enqueueShard(const CollectiveCall& call, const FlatPart& part, const FlatShard& shard,
                            const Owner& owner, int self, ncclComm_t comm);
  int peerOf(const TransferDesc& transfer) const;
  Status joinGroups();
  void watch();
  void endWatch();
  Status look(Arrivals::Progress& before);
  std::string asynchronousError() const;
  void attend(const Arrivals::Exchange& exchange, Attendance& attendance) const;
  Status failure(const std::string& what, const Arrivals::Exchange& exchange) const;

  const Program* program_ = nullptr;
  HostExchanger* host_ = nullptr;
  Accelerator* device_ = nullptr;
  int rank_ = 0;
  std::vector<ncclComm_t> comms_;  // by channel; null: a transfer's channel, or a group of this rank alone
  cudaStream_t stream_ = nullptr;
  cudaEvent_t ready_ = nullptr;
  std::vector<cudaEvent_t> done_;  // by number, modulo kEvents
  uint64_t started_ = 0;
  Arrivals arrivals_;
  bool isRecording_ = false;
  Status unrecorded_;  // why what is being recorded is no step

  EndRun endRun_;
  Arrivals::Exchange joining_;          // the groups, as if it were an exchange
  std::unique_ptr<Patience> patience_;  // of the thread that watches
  int looksInTrouble_ = 0;              // one after the other, without progress between them
  std::thread watcher_;
  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  bool isJoining_ = true, isStopping_ = false;
};

Status NcclExchanger::check(ncclResult_t result, const std::string& what) {
  if (result == ncclSuccess) return {};
  const char* const more = ncclGetLastError(nullptr);
  return unavailableError("NCCL: " + what + " failed: " + ncclGetErrorString(result) +
                          (more && *more ? std::string("; ") + more : ""));
}

Status NcclExchanger::connect(const Program& program, HostExchanger& host, Accelerator& device, EndRun endRun) {
  program_ = &program;
  host_ = &host;
  device_ = &device;
  rank_ = host.rank();
  endRun_ = std::move(endRun);
  patience_ = host.makePatience();
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"));
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming), "making an event"));
  for (int i = 0; i < kEvents; ++i) {
    cudaEvent_t event = nullptr;
    HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event"));
    done_.push_back(event);
  }
  HYCRT_RETURN_IF_ERROR(arrivals_.open(static_cast<int>(host.plans().channels.size())));
  // The hosts' barriers count nothing that devices announce, so that the channel of all ranks is free for this.
  const int world = host.plans().world;
  joining_ = {"joining the groups", host.plans().channels[static_cast<size_t>(world)].members, {world}};
  host.announce(world, 1);
  HYCRT_RETURN_IF_ERROR(startThread("watching exchanges", [this] { watch(); }, &watcher_));
  HYCRT_RETURN_IF_ERROR(joinGroups());
  const std::lock_guard<std::mutex> lock(mutex_);
  isJoining_ = false;
  return {};
}

Status NcclExchanger::joinGroups() {
  const ChannelPlans& plans = host_->plans();
  const std::vector<bool> meets = deviceChannels(*program_, plans);
  comms_.assign(plans.channels.size(), nullptr);
  // All groups at once: which comes first differs between the programs of stages.
  HYCRT_RETURN_IF_ERROR(check(ncclGroupStart(), "joining groups"));
  for (size_t i = 0; i < plans.channels.size(); ++i) {
    const std::vector<int>& members = plans.channels[i].members;
    if (!meets[i]) continue;
    ncclUniqueId id;
    std::memcpy(&id, host_->greetingOf(static_cast<int>(i)), sizeof id);
    int self = 0;
    while (members[static_cast<size_t>(self)] != rank_) ++self;
    HYCRT_RETURN_IF_ERROR(
        check(ncclCommInitRank(&comms_[i], static_cast<int>(members.size()), id, self), "joining a group"));
  }
  return check(ncclGroupEnd(), "joining groups");
}

// What was computed so far comes before what is put on the stream of exchanges.
Status NcclExchanger::begin(Arrivals::Exchange exchange) {
  cudaStream_t const compute = device_->stream();
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventRecord(ready_, compute), "recording an event"));
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaStreamWaitEvent(stream_, ready_, 0), "waiting for an event"));
  arrivals_.begin(std::make_shared<const Arrivals::Exchange>(std::move(exchange)), stream_);
  return {};
}

Result<Ticket> NcclExchanger::end(const std::string& name, ncclResult_t result) {
  HYCRT_RETURN_IF_ERROR(check(result, name));
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventRecord(done_[started_ % kEvents], stream_), "recording an event"));
  arrivals_.end(stream_);
  return Ticket{0, started_++};
}

Status NcclExchanger::wait(Ticket ticket) {
  if (ticket.channel < 0) return {};
  // Where the event has been taken by a later exchange, that one's end is waited for, which is no sooner.
  const Status waited =
      cudaStatus(cudaStreamWaitEvent(device_->stream(), done_[ticket.sequence % kEvents], 0), "waiting for an event");
  return waited.ok() || tellsLater(waited) ? Status() : waited;
}

// While a step is being recorded nothing has run, and whatever fails says that it cannot be recorded.
bool NcclExchanger::tellsLater(const Status& failure) {
  if (isRecording_ && unrecorded_.ok()) unrecorded_ = failure;
  return isRecording_;
}

Result<Ticket> NcclExchanger::start(const CollectiveCall& call) {
  const Result<Ticket> started = put(call);
  if (started.ok() || !tellsLater(started.status())) return started;
  return Ticket{0, started_++};
}

Result<Ticket> NcclExchanger::put(const CollectiveCall& call) {
  const CollectiveDesc& row = program_->collectives[call.collective];
  const int channel = host_->plans().ofGroup[static_cast<size_t>(row.group)];
  const std::vector<int>& members = host_->plans().channels[static_cast<size_t>(channel)].members;
  HYCRT_RETURN_IF_ERROR(begin({std::string(factsOf(call.kind).name) + " '" + row.name + "'", members, {channel}}));
  ncclComm_t const comm = comms_[static_cast<size_t>(channel)];
  ncclResult_t result = ncclSuccess;
  if (comm) {
    result = call.parts ? enqueueFlat(call, members, comm) : enqueue(call, members, comm);
  } else if (!call.parts) {
    if (at(call.source) != at(call.destination)) {
      HYCRT_RETURN_IF_ERROR(cudaStatus(
          cudaMemcpyAsync(at(call.destination), at(call.source), static_cast<size_t>(call.count * sizeOf(call.dtype)),
                          cudaMemcpyDeviceToDevice, stream_),
          "copying on the device"));
    }
  }
  return end(row.name, result);
}

ncclResult_t NcclExchanger::enqueue(const CollectiveCall& call, const std::vector<int>& members, ncclComm_t comm) {
  const size_t count = static_cast<size_t>(call.count);
  const ncclRedOp_t op = call.op == ReduceOp::kMax ? ncclMax : ncclSum;
  const int self = static_cast<int>(std::find(members.begin(), members.end(), rank_) - members.begin());
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
      return ncclAllReduce(at(call.source), at(call.destination), count, typeOf(call.dtype), op, comm, stream_);
    case CollectiveKind::kReduceScatter:
      return ncclReduceScatter(at(call.source), at(call.destination), count, typeOf(call.dtype), op, comm, stream_);
    case CollectiveKind::kAllGather:
      return ncclAllGather(at(call.source), at(call.destination), count, typeOf(call.dtype), comm, stream_);
    case CollectiveKind::kAllToAll:
      return enqueueAllToAll(call, self, static_cast<int>(members.size()), comm);
    case CollectiveKind::kShift:
      return enqueueShift(call, self, static_cast<int>(members.size()), comm);
    case CollectiveKind::kBarrier:
      return ncclSuccess;
  }
  return ncclInvalidArgument;
}

// Messages in rounds, in each of which every member sends one and gets one: a group that ends between two rounds has
// both sides of each of its messages on every rank.
ncclResult_t NcclExchanger::enqueueAllToAll(const CollectiveCall& call, int self, int members, ncclComm_t comm) {
  const size_t count = static_cast<size_t>(call.count), bytes = count * static_cast<size_t>(sizeOf(call.dtype));
  const auto sliceOf = [&](BufferRef buffer, int member) { return at(buffer) + bytes * static_cast<size_t>(member); };
  if (cudaMemcpyAsync(sliceOf(call.destination, self), sliceOf(call.source, self), bytes, cudaMemcpyDeviceToDevice,
                      stream_) != cudaSuccess) {
    return ncclUnhandledCudaError;
  }
  ncclResult_t result = ncclSuccess;
  for (int distance = 1; distance < members && result == ncclSuccess;) {
    result = ncclGroupStart();
    for (int calls = 0; distance < members && calls < kMostInGroup && result == ncclSuccess; ++distance, calls += 2) {
      const int to = memberAfter(self, distance, static_cast<size_t>(members));
      const int from = memberBefore(self, distance, static_cast<size_t>(members));
      result = ncclSend(sliceOf(call.source, to), count, typeOf(call.dtype), to, comm, stream_);
      if (result != ncclSuccess) break;
      result = ncclRecv(sliceOf(call.destination, from), count, typeOf(call.dtype), from, comm, stream_);
    }
    const ncclResult_t ended = ncclGroupEnd();
    if (result == ncclSuccess) result = ended;
  }
  return result;
}

ncclResult_t NcclExchanger::enqueueShift(const CollectiveCall& call, int self, int members, ncclComm_t comm) {
  const size_t count = static_cast<size_t>(call.count), size = static_cast<size_t>(members);
  ncclResult_t result = ncclGroupStart();
  if (result == ncclSuccess) {
    result =
        ncclSend(at(call.source), count, typeOf(call.dtype), memberAfter(self, call.distance, size), comm, stream_);
  }
  if (result == ncclSuccess) {
    result = ncclRecv(at(call.destination), count, typeOf(call.dtype), memberBefore(self, call.distance, size), comm,
                      stream_);
  }
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

// By coordinate: which member has that shard first, and how many have it.
std::vector<NcclExchanger::Owner> NcclExchanger::ownersOf(const CollectiveDesc& row,
                                                          const std::vector<int>& members) const {
  std::vector<Owner> owners(static_cast<size_t>(sizeOf(program_->mesh, row.flat)));
  for (size_t m = 0; m < members.size(); ++m) {
    Owner& owner = owners[static_cast<size_t>(flatCoordinate(*program_, row, members[m]))];
    if (owner.count++ == 0) owner.member = static_cast<int>(m);
  }
  return owners;
}

// Of shards of one size in the order of members: one collective.
ncclResult_t NcclExchanger::enqueueEvenPart(const CollectiveCall& call, const FlatPart& part, int self,
                                            ncclComm_t comm) {
  std::byte* const whole = at(part.whole);
  std::byte* const own = whole + part.shardElements * self * sizeOf(call.dtype);
  const size_t count = static_cast<size_t>(part.shardElements);
  if (!factsOf(call.kind).reduces) {
    const std::byte* const source = part.shard.arena >= 0 ? at(part.shard) : own;
    return ncclAllGather(source, whole, count, typeOf(call.dtype), comm, stream_);
  }
  return ncclReduceScatter(whole, own, count, typeOf(call.dtype), ncclSum, comm, stream_);
}

// A shard that several members have is reduced for all of them at once, in place: what others' slices hold afterwards
// is no value. Of an all_gather the first of them sends.
ncclResult_t NcclExchanger::enqueueShard(const CollectiveCall& call, const FlatPart& part, const FlatShard& shard,
                                         const Owner& owner, int self, ncclComm_t comm) {
  std::byte* const place = at(part.whole) + shard.begin * sizeOf(call.dtype);
  const size_t count = static_cast<size_t>(shard.count);
  if (!factsOf(call.kind).reduces) {
    const std::byte* const source = owner.member == self && part.shard.arena >= 0 ? at(part.shard) : place;
    return ncclBroadcast(source, place, count, typeOf(call.dtype), owner.member, comm, stream_);
  }
  if (owner.count == 1)
    return ncclReduce(place, place, count, typeOf(call.dtype), ncclSum, owner.member, comm, stream_);
  return ncclAllReduce(place, place, count, typeOf(call.dtype), ncclSum, comm, stream_);
}

ncclResult_t NcclExchanger::enqueueFlat(const CollectiveCall& call, const std::vector<int>& members, ncclComm_t comm) {
  const std::vector<Owner> owners = ownersOf(program_->collectives[call.collective], members);
  const int self = static_cast<int>(std::find(members.begin(), members.end(), rank_) - members.begin());
  bool isInOrder = owners.size() == members.size();
  for (size_t c = 0; c < owners.size() && isInOrder; ++c) isInOrder = owners[c].member == static_cast<int>(c);
  ncclResult_t result = ncclGroupStart();
  int inGroup = 0;
  const auto add = [&](ncclResult_t added) {
    if (result == ncclSuccess) result = added;
    if (++inGroup < kMostInGroup || result != ncclSuccess) return;
    result = ncclGroupEnd();
    const ncclResult_t begun = ncclGroupStart();
    if (result == ncclSuccess) result = begun;
    inGroup = 0;
  };
  for (int i = 0; i < call.partCount && result == ncclSuccess; ++i) {
    const FlatPart& part = call.parts[i];
    if (isInOrder && part.elements == part.shardElements * static_cast<int64_t>(owners.size()) && part.elements > 0) {
      add(enqueueEvenPart(call, part, self, comm));
      continue;
    }
    for (size_t c = 0; c < owners.size() && result == ncclSuccess; ++c) {
      const FlatShard shard = flatShard(static_cast<int64_t>(c), part.shardElements, part.elements);
      if (owners[c].count > 0 && shard.count > 0) add(enqueueShard(call, part, shard, owners[c], self, comm));
    }
  }
  const ncclResult_t ended = ncclGroupEnd();
  return result == ncclSuccess ? ended : result;
}

int NcclExchanger::peerOf(const TransferDesc& transfer) const {
  Coordinates at = coordinatesOf(program_->mesh, rank_);
  at.stage = transfer.peerStage;
  return rankOf(program_->mesh, at);
}

Status NcclExchanger::exchange(const TransferUse* uses, int count) {
  const Result<Ticket> started = putTransfers(uses, count);
  if (started.ok()) return wait(*started);
  return tellsLater(started.status()) ? Status() : started.status();
}

Result<Ticket> NcclExchanger::putTransfers(const TransferUse* uses, int count) {
  ncclComm_t const world = comms_[static_cast<size_t>(host_->plans().world)];
  Arrivals::Exchange exchange{"the exchange of nothing", {}, {}};
  if (count > 0) exchange.name = std::string("the exchange of ") + program_->transfers[uses[0].transfer].name;
  for (int i = 0; i < count; ++i) {
    exchange.members.push_back(peerOf(program_->transfers[uses[i].transfer]));
    exchange.channels.push_back(host_->plans().ofTransfer[static_cast<size_t>(uses[i].transfer)]);
  }
  const std::string name = exchange.name;
  HYCRT_RETURN_IF_ERROR(begin(std::move(exchange)));
  ncclResult_t result = ncclGroupStart();
  for (int i = 0; i < count && result == ncclSuccess; ++i) {
    const TransferDesc& transfer = program_->transfers[uses[i].transfer];
    const int peer = peerOf(transfer);
    std::byte* const place = at(transfer.buffer) + transfer.slotStride * uses[i].slot;
    const size_t bytes = static_cast<size_t>(transfer.bytes);
    result = transfer.direction == Direction::kSend ? ncclSend(place, bytes, ncclUint8, peer, world, stream_)
                                                    : ncclRecv(place, bytes, ncclUint8, peer, world, stream_);
  }
  const ncclResult_t ended = ncclGroupEnd();
  return end(name, result == ncclSuccess ? ended : result);
}

// ---------------------------------------------------------------------------------------------------------- watching

// The run's own thread may wait for the device wherever it calls CUDA: this one calls nothing that waits.
void NcclExchanger::watch() {
  Arrivals::Progress before;
  patience_->begin();
  std::unique_lock<std::mutex> lock(mutex_);
  while (!changed_.wait_for(lock, kPollPeriod, [&] { return isStopping_; })) {
    const Status status = look(before);
    if (status.ok()) continue;
    host_->leaveWords(status);
    return endRun_(status);
  }
  patience_->end();
}

// Who watches exchanges takes a rank that has left for one that is gone: all end that before any leaves.
Status NcclExchanger::leave(bool finished) {
  endWatch();
  if (!host_) return {};
  Status status = finished ? host_->barrier() : Status();
  const Status left = host_->leave(finished && status.ok());
  return status.ok() ? left : status;
}

void NcclExchanger::endWatch() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    isStopping_ = true;
  }
  changed_.notify_one();
  if (watcher_.joinable()) watcher_.join();
}

// A wait lasts while the device is in an exchange, and begins anew with each that is over.
Status NcclExchanger::look(Arrivals::Progress& before) {
  const Arrivals::Progress now = isJoining_ ? Arrivals::Progress{} : arrivals_.publish(*host_);
  const Arrivals::Exchange* const exchange = isJoining_ ? &joining_ : now.ended < now.begun ? now.last.get() : nullptr;
  const bool isStill = now == before;
  if (!isStill) noteProgress();
  if (!exchange || !isStill) {
    patience_->end();
    patience_->begin();
  }
  before = now;
  std::string trouble = asynchronousError();
  if (trouble.empty() && exchange && !host_->lostAmong(exchange->members).empty()) trouble = "a peer is gone";
  if (!trouble.empty()) {
    looksInTrouble_ = isStill ? looksInTrouble_ + 1 : 1;
    if (looksInTrouble_ < kLooksBeforeBlame) return {};
    return exchange ? failure(trouble, *exchange) : unavailableError("NCCL: " + trouble);
  }
  looksInTrouble_ = 0;
  if (!exchange) return {};
  const auto what = [&] { return exchange->name + " (NCCL)"; };
  const auto attends = [&](Attendance& attendance) { attend(*exchange, attendance); };
  return patience_->look({what, attends});
}

void NcclExchanger::attend(const Arrivals::Exchange& exchange, Attendance& attendance) const {
  attendance.missing = isJoining_ ? host_->missingAt(host_->plans().world, 0) : arrivals_.missingFrom(exchange, *host_);
  std::vector<int>& arrived = attendance.arrived;
  arrived = exchange.members;
  arrived.push_back(rank_);  // of transfers the members are the others
  std::sort(arrived.begin(), arrived.end());
  arrived.erase(std::unique(arrived.begin(), arrived.end()), arrived.end());
  const auto isMissing = [&](int rank) {
    return std::find(attendance.missing.begin(), attendance.missing.end(), rank) != attendance.missing.end();
  };
  arrived.erase(std::remove_if(arrived.begin(), arrived.end(), isMissing), arrived.end());
}

std::string NcclExchanger::asynchronousError() const {
  if (isJoining_) return "";
  for (ncclComm_t comm : comms_) {
    ncclResult_t error = ncclSuccess;
    if (!comm || ncclCommGetAsyncError(comm, &error) != ncclSuccess) continue;
    if (error != ncclSuccess && error != ncclInProgress) return ncclGetErrorString(error);
  }
  return "";
}

// With who is gone, or who has not come.
Status NcclExchanger::failure(const std::string& what, const Arrivals::Exchange& exchange) const {
  const auto listOf = [](const std::vector<int>& ranks) {
    std::string text = ranks.size() == 1 ? "rank" : "ranks";
    for (size_t i = 0; i < ranks.size(); ++i) text += (i ? ", " : " ") + std::to_string(ranks[i]);
    return text;
  };
  const std::string text = "NCCL: " + what + " in " + exchange.name + ", together with " + listOf(exchange.members);
  const std::string lost = host_->lostAmong(exchange.members);
  if (!lost.empty()) return {StatusCode::kPeerLost, text + "; " + lost};
  Attendance attendance;
  attend(exchange, attendance);
  const std::vector<int>& missing = attendance.missing;
  return unavailableError(
      text + "; " + (missing.empty() ? "every rank has arrived" : listOf(missing) + " did not arrive") + " there");
}

// --------------------------------------------------------------------------------------------------------- recording

void NcclExchanger::beginRecording() {
  arrivals_.beginRecording();
  isRecording_ = true;
  unrecorded_ = {};
}

// What counts them is behind the events that waits ask for.
Status NcclExchanger::joinRecording(CUstream_st* stream) {
  HYCRT_RETURN_IF_ERROR(unrecorded_);
  if (!arrivals_.hasRecorded()) return {};
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventRecord(ready_, stream_), "recording an event"));
  return cudaStatus(cudaStreamWaitEvent(stream, ready_, 0), "waiting for an event");
}

void NcclExchanger::endRecording(bool failed) {
  arrivals_.endRecording(failed);
  isRecording_ = false;
}

// What has counted the exchanges before is not behind any event that the computation has waited for, and the step's
// own counting goes on from it.
Status NcclExchanger::replay() {
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaEventRecord(ready_, stream_), "recording an event"));
  HYCRT_RETURN_IF_ERROR(cudaStatus(cudaStreamWaitEvent(device_->stream(), ready_, 0), "waiting for an event"));
  arrivals_.replay();
  return {};
}

}  // namespace

std::unique_ptr<DeviceExchanger> makeNcclExchanger() { return std::make_unique<NcclExchanger>(); }

}  // namespace hycrt
