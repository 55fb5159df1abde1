// NCCL between ranks whose devices are the host: through shared memory, in chunks. It is stricter than the library: a
// send ends when its peer has taken it, and ranks that disagree about a collective end with a message instead of a
// hang. Sums are rounded to their type after each rank, in the order of ranks.
//
// What is put on a stream never holds the process up: it is tried again until its peers have come (streams.h).
#include "nccl.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/narrow_float.h"
#include "streams.h"

namespace {

using hyc::kernels::Bf16;
using hyc::kernels::F16;

constexpr size_t kChunkBytes = size_t{64} << 10;

enum class Kind : int { kAllReduce, kReduce, kBroadcast, kAllGather, kReduceScatter, kSend, kReceive };

// What all members of a collective have to say alike.
struct Signature {
  Kind kind;
  int type, op, root;
  size_t count;
};

// One rank's place in a group's collectives. A round: everybody writes a chunk, then everybody reads all.
struct alignas(64) Place {
  std::atomic<uint64_t> written, read; // rounds
  Signature signature;
  unsigned char chunk[kChunkBytes];
};
// From one rank to another.
struct alignas(64) Mailbox {
  std::atomic<uint64_t> written, read; // chunks
  size_t bytes;                        // of the whole message
  unsigned char chunk[kChunkBytes];
};
struct alignas(64) Header {
  std::atomic<int> joined;
};

size_t sizeOf(ncclDataType_t type) {
  switch (type) {
  case ncclUint8:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclInt32:
  case ncclFloat32:
    return 4;
  case ncclInt64:
  case ncclFloat64:
    return 8;
  }
  return 0;
}

struct Group {
  std::string name;
  int ranks, rank;
  unsigned char *memory = nullptr;
  size_t bytes = 0;

  ~Group() {
    if (memory)
      munmap(memory, bytes);
  }
  Header &header() { return *reinterpret_cast<Header *>(memory); }
  Place &place(int of) { return reinterpret_cast<Place *>(memory + sizeof(Header))[of]; }
  Mailbox &mailbox(int from, int to) {
    auto *const boxes =
        reinterpret_cast<Mailbox *>(memory + sizeof(Header) + sizeof(Place) * static_cast<size_t>(ranks));
    return boxes[from * ranks + to];
  }
  ncclResult_t open();
  void join();
};

ncclResult_t Group::open() {
  bytes = sizeof(Header) + static_cast<size_t>(ranks) * (sizeof(Place) + static_cast<size_t>(ranks) * sizeof(Mailbox));
  const int file = shm_open(name.c_str(), O_CREAT | O_RDWR, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0)
    return ncclSystemError;
  void *const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED)
    return ncclSystemError;
  memory = static_cast<unsigned char *>(mapped);
  header().joined.fetch_add(1);
  return ncclSuccess;
}

void Group::join() {
  while (header().joined.load() < ranks)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  if (rank == 0)
    shm_unlink(name.c_str());
}

[[noreturn]] void fail(const Group &group, const std::string &what) {
  std::fprintf(stderr, "emulation: NCCL, rank %d of %d: %s\n", group.rank, group.ranks, what.c_str());
  std::abort();
}

template <typename T> void reduceAs(unsigned char *to, const unsigned char *from, size_t count, ncclRedOp_t op) {
  auto *const result = reinterpret_cast<T *>(to);
  const auto *const other = reinterpret_cast<const T *>(from);
  for (size_t i = 0; i < count; ++i) {
    if constexpr (std::is_arithmetic_v<T>) {
      result[i] = op == ncclMax ? std::max(result[i], other[i]) : static_cast<T>(result[i] + other[i]);
    } else {
      const float a = static_cast<float>(result[i]), b = static_cast<float>(other[i]);
      result[i] = T(op == ncclMax ? std::max(a, b) : a + b);
    }
  }
}

void reduce(unsigned char *to, const unsigned char *from, size_t count, ncclDataType_t type, ncclRedOp_t op) {
  switch (type) {
  case ncclUint8:
    return reduceAs<uint8_t>(to, from, count, op);
  case ncclInt32:
    return reduceAs<int32_t>(to, from, count, op);
  case ncclInt64:
    return reduceAs<int64_t>(to, from, count, op);
  case ncclFloat16:
    return reduceAs<F16>(to, from, count, op);
  case ncclFloat32:
    return reduceAs<float>(to, from, count, op);
  case ncclFloat64:
    return reduceAs<double>(to, from, count, op);
  case ncclBfloat16:
    return reduceAs<Bf16>(to, from, count, op);
  }
}

// One call, as far as it has come.
struct Operation {
  std::shared_ptr<Group> group;
  Signature signature; // root: also the peer of a send or a receive
  const unsigned char *from;
  unsigned char *to;
  size_t done = 0; // bytes
  bool isWritten = false, isOver = false;

  bool isPair() const { return signature.kind == Kind::kSend || signature.kind == Kind::kReceive; }
  ncclDataType_t type() const { return static_cast<ncclDataType_t>(signature.type); }
  // Bytes that pass through a place.
  size_t bytes() const {
    const size_t own = signature.count * sizeOf(type());
    return signature.kind == Kind::kReduceScatter ? own * static_cast<size_t>(group->ranks) : own;
  }
  void advance();
  bool advanceSend();
  bool advanceReceive();
  bool advanceRound();
  void take(size_t chunk);
  void takeScattered(size_t chunk);
};

bool Operation::advanceSend() {
  Mailbox &box = group->mailbox(group->rank, signature.root);
  if (isWritten) { // a whole round: its peer has taken it
    if (box.read.load() != box.written.load())
      return false;
    isWritten = false;
    done += std::min(kChunkBytes, bytes() - done);
    return true;
  }
  if (box.read.load() != box.written.load())
    return false;
  box.bytes = bytes();
  std::memcpy(box.chunk, from + done, std::min(kChunkBytes, bytes() - done));
  box.written.fetch_add(1);
  return isWritten = true;
}

bool Operation::advanceReceive() {
  Mailbox &box = group->mailbox(signature.root, group->rank);
  if (box.read.load() == box.written.load())
    return false;
  if (box.bytes != bytes())
    fail(*group, "rank " + std::to_string(signature.root) + " sends " + std::to_string(box.bytes) + " bytes, but " +
                     std::to_string(bytes()) + " are awaited");
  const size_t chunk = std::min(kChunkBytes, bytes() - done);
  std::memcpy(to + done, box.chunk, chunk);
  done += chunk;
  box.read.fetch_add(1);
  return true;
}

// Of what everybody has written, this rank's part lies somewhere in the middle.
void Operation::takeScattered(size_t chunk) {
  const size_t own = signature.count * sizeOf(type());
  const size_t begin = std::max(done, own * static_cast<size_t>(group->rank));
  const size_t end = std::min(done + chunk, own * static_cast<size_t>(group->rank + 1));
  if (begin >= end)
    return;
  unsigned char *const result = to + (begin - own * static_cast<size_t>(group->rank));
  std::memcpy(result, group->place(0).chunk + (begin - done), end - begin);
  for (int r = 1; r < group->ranks; ++r)
    reduce(result, group->place(r).chunk + (begin - done), (end - begin) / sizeOf(type()), type(),
           static_cast<ncclRedOp_t>(signature.op));
}

void Operation::take(size_t chunk) {
  switch (signature.kind) {
  case Kind::kBroadcast:
    std::memcpy(to + done, group->place(signature.root).chunk, chunk);
    return;
  case Kind::kAllGather:
    for (int r = 0; r < group->ranks; ++r)
      std::memcpy(to + static_cast<size_t>(r) * bytes() + done, group->place(r).chunk, chunk);
    return;
  case Kind::kReduceScatter:
    return takeScattered(chunk);
  case Kind::kReduce:
    if (signature.root != group->rank)
      return;
    [[fallthrough]];
  default:
    std::memcpy(to + done, group->place(0).chunk, chunk);
    for (int r = 1; r < group->ranks; ++r)
      reduce(to + done, group->place(r).chunk, chunk / sizeOf(type()), type(), static_cast<ncclRedOp_t>(signature.op));
  }
}

bool Operation::advanceRound() {
  Place &own = group->place(group->rank);
  const uint64_t round = own.read.load();
  const size_t chunk = std::min(kChunkBytes, bytes() - done);
  if (!isWritten) {
    for (int r = 0; r < group->ranks; ++r)
      if (group->place(r).read.load() < round)
        return false;
    own.signature = signature;
    std::memcpy(own.chunk, from + done, chunk);
    own.written.store(round + 1);
    return isWritten = true;
  }
  for (int r = 0; r < group->ranks; ++r)
    if (group->place(r).written.load() <= round)
      return false;
  for (int r = 0; r < group->ranks; ++r) {
    const Signature &other = group->place(r).signature;
    if (other.kind != signature.kind || other.type != signature.type || other.op != signature.op ||
        other.root != signature.root || other.count != signature.count)
      fail(*group, "rank " + std::to_string(r) + " of the group is at another collective, of kind " +
                       std::to_string(static_cast<int>(other.kind)) + " over " + std::to_string(other.count) +
                       " elements; this one is of kind " + std::to_string(static_cast<int>(signature.kind)) + " over " +
                       std::to_string(signature.count));
  }
  take(chunk);
  isWritten = false;
  done += chunk;
  own.read.store(round + 1);
  return true;
}

void Operation::advance() {
  for (bool goesOn = true; goesOn && done < bytes();) {
    goesOn = signature.kind == Kind::kSend      ? advanceSend()
             : signature.kind == Kind::kReceive ? advanceReceive()
                                                : advanceRound();
  }
  isOver = done >= bytes();
}

// Collectives of a group of ranks keep their order, and so do messages from one rank to another.
bool mustWaitFor(const Operation &earlier, const Operation &later) {
  if (earlier.isOver || earlier.group != later.group || earlier.isPair() != later.isPair())
    return false;
  return !later.isPair() ||
         (earlier.signature.kind == later.signature.kind && earlier.signature.root == later.signature.root);
}

bool advanceAll(std::vector<Operation> &operations) {
  bool isOver = true;
  for (size_t i = 0; i < operations.size(); ++i) {
    if (operations[i].isOver)
      continue;
    const bool waits = std::any_of(operations.begin(), operations.begin() + static_cast<std::ptrdiff_t>(i),
                                   [&](const Operation &earlier) { return mustWaitFor(earlier, operations[i]); });
    if (!waits)
      operations[i].advance();
    isOver = isOver && operations[i].isOver;
  }
  return isOver;
}

int groupDepth = 0;
std::vector<Operation> grouped;
cudaStream_t groupedStream = nullptr;
std::vector<std::shared_ptr<Group>> joining;

ncclResult_t put(cudaStream_t stream, std::vector<Operation> operations) {
  const cudaError_t error =
      emulation::put(stream, [operations = std::move(operations)]() mutable { return advanceAll(operations); });
  return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

} // namespace

struct ncclComm {
  std::shared_ptr<Group> group;
};

namespace {

ncclResult_t add(ncclComm_t comm, cudaStream_t stream, const Signature &signature, const void *from, void *to) {
  if (!comm || signature.root >= comm->group->ranks)
    return ncclInvalidArgument;
  Operation operation{comm->group, signature, static_cast<const unsigned char *>(from),
                      static_cast<unsigned char *>(to)};
  if (operation.isPair() && signature.root == comm->group->rank)
    return ncclInvalidUsage;
  if (groupDepth == 0) {
    return put(stream, {operation});
  }
  if (!grouped.empty() && groupedStream != stream)
    fail(*comm->group, "one group on two streams");
  groupedStream = stream;
  grouped.push_back(std::move(operation));
  return ncclSuccess;
}

} // namespace

const char *ncclGetErrorString(ncclResult_t result) {
  switch (result) {
  case ncclSuccess:
    return "no error";
  case ncclUnhandledCudaError:
    return "unhandled cuda error";
  case ncclSystemError:
    return "unhandled system error";
  case ncclInvalidArgument:
    return "invalid argument";
  case ncclInvalidUsage:
    return "invalid usage";
  case ncclInProgress:
    return "operation in progress";
  }
  return "unknown";
}

const char *ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  static int made = 0;
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "/hyc-emulated-nccl-%d-%d-%lld", static_cast<int>(getpid()), made++,
                static_cast<long long>(std::chrono::steady_clock::now().time_since_epoch().count()));
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank) {
  if (rank < 0 || rank >= ranks || emulation::isRecording())
    return ncclInvalidArgument;
  auto group = std::make_shared<Group>();
  group->name = id.internal, group->ranks = ranks, group->rank = rank;
  if (const ncclResult_t result = group->open(); result != ncclSuccess)
    return result;
  *comm = new ncclComm{group};
  if (groupDepth > 0)
    joining.push_back(group);
  else
    group->join();
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  emulation::finishAll();
  return delete comm, ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t *error) { return *error = ncclSuccess; }

ncclResult_t ncclGroupStart() { return ++groupDepth, ncclSuccess; }
ncclResult_t ncclGroupEnd() {
  if (groupDepth == 0)
    return ncclInvalidUsage;
  if (--groupDepth > 0)
    return ncclSuccess;
  for (const std::shared_ptr<Group> &group : std::exchange(joining, {}))
    group->join();
  if (!grouped.empty())
    return put(groupedStream, std::exchange(grouped, {}));
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {Kind::kAllReduce, type, op, 0, count}, from, to);
}
ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {Kind::kReduce, type, op, root, count}, from, to);
}
ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return add(comm, stream, {Kind::kBroadcast, type, 0, root, count}, from, to);
}
ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return add(comm, stream, {Kind::kAllGather, type, 0, 0, count}, from, to);
}
ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {Kind::kReduceScatter, type, op, 0, count}, from, to);
}
ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(comm, stream, {Kind::kSend, type, 0, peer, count}, from, nullptr);
}
ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {Kind::kReceive, type, 0, peer, count}, nullptr, to);
}
