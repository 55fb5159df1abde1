// Transport: how what a rank says, and the bytes of its shared arenas, come to other ranks. What is said, and when, is
// the exchanger's (host_exchanger.h).
//
// A channel is an ordered conversation of fixed members: a group's collectives, or the transfers from one rank to
// another. Each member keeps its own side of it, and sees a copy of every other side that the transport keeps up to
// date: polling is reading an atomic of this process' memory, whatever the transport. Numbers count the channel's items
// from 0: `published` says how many a side has offered (their descriptions are in the ring), `finished` how many it has
// done its part of. An item's place in the ring is free again once every member has finished it, which is why at most
// kRingSize may be pending.
//
// Bytes are read where they lie if this process has them mapped. Of others, few come along with what is published, and
// many are pulled, or pushed where the other side knows better when they are there (sum_over_hosts.h). Where all
// members' bytes are mapped, a sum's slice is also written into all of their arenas by whoever computes it.
//
// To add a transport: a folder with a class of this interface, and a row in transports.cpp.
#ifndef HYCRT_SRC_COMM_TRANSPORT_H_
#define HYCRT_SRC_COMM_TRANSPORT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/function_ref.h"
#include "comm/channels.h"
#include "comm/network_options.h"
#include "hycrt/collectives.h"
#include "hycrt/program.h"
#include "hycrt/status.h"
#include "memory/rank_memory.h"

namespace hycrt {

inline constexpr int kRingSize = kMaxPending;
inline constexpr int kGreetingBytes = 128;

// What one side offers as item n of a channel. All but the addresses must be equal among the members.
struct Publication {
  uint32_t id;   // CollectiveDesc::id or TransferDesc::tag
  uint8_t kind;  // CollectiveKind, or kTransferKind
  DType dtype;
  ReduceOp op;
  int32_t microBatch;     // of a transfer
  int64_t count;          // elements; of a transfer: bytes
  int32_t name;           // index into the publisher's names
  int32_t arena;          // the publisher's source; of a flat exchange that of its first part
  int64_t offset;         // of a barrier: what the publisher shares
  int32_t partCount = 0;  // of a flat exchange
  int64_t distance = 0;   // of a shift
  int32_t carried = 0;    // bytes from `offset` on that come along, for those members that have not mapped them
};

inline constexpr uint8_t kTransferKind = 100;

struct alignas(64) ChannelSide {
  uint64_t key;
  std::byte greeting[kGreetingBytes];  // what the first member tells the others before all: an id of NCCL's
  alignas(64) std::atomic<uint64_t> published;
  alignas(64) std::atomic<uint64_t> finished;
  std::atomic<uint64_t> reduced;    // sums whose slice this side has computed; asked for where slices are pulled
  std::atomic<uint64_t> announced;  // exchanges that this side's device has come to; written where devices exchange
  alignas(64) Publication ring[kRingSize];
};

enum class RankState : uint32_t { kRunning, kFinished, kFailed };

inline constexpr int kLastWordsBytes = 1024;

// What a rank says of itself beside its channels; what is made of it is in patience.h.
struct alignas(64) RankSigns {
  std::atomic<int64_t> beatMs;      // monotonicMs of this machine when it was last known to run (heartbeat.h)
  std::atomic<uint64_t> moved;      // its progressCount
  std::atomic<uint64_t> heard;      // how often bytes of a message have come from it, of another host
  std::atomic<int32_t> waitsFor;    // one more than the rank that it has been waiting for; 0: it waits for none
  std::atomic<int32_t> thread;      // the kernel's number of the thread that runs the rank
  char lastWords[kLastWordsBytes];  // why it failed, and who it was; complete before its state tells that it has
};

// What the system says of a rank's process, where it can be asked.
struct ProcessLook {
  int processId = 0;     // 0: nothing is known
  char state = 0;        // as in /proc/PID/stat: R, S, D, T, …
  int64_t switches = 0;  // how often it has been given a core
};

// Bytes that a member of a channel hands another one of another host unasked; what they are is the exchanger's to say.
struct Push {
  int32_t channel = 0;  // index of the side that looks at it
  int32_t stream = 0;
  uint64_t number = 0;
  int32_t part = 0;
  int64_t begin = 0;
};

class PushTaker {
 public:
  virtual ~PushTaker() = default;
  // Where they go; null: they make no sense, and the peer is taken for lost. Asked and told on whichever of this rank's
  // threads receives.
  virtual std::byte* placeFor(int rank, const Push& push, int64_t bytes) = 0;
  // They are there. What has no bytes has no place, either. False: it makes no sense.
  virtual bool take(int rank, const Push& push, int64_t bytes) = 0;
};
inline constexpr int64_t kMostPushedBytes = int64_t{256} << 10;

// Whom a thread waits for.
enum class Awaited { kAnyone, kDistant };

class Transport {
 public:
  virtual ~Transport() = default;

  // By index of ChannelPlans::channels and of its members. A side that is not this rank's is only read. It stays where
  // it is; null: that member's program knows nothing of the channel.
  virtual ChannelSide* side(int channel, int member) = 0;
  // Passes on what has changed of this rank's side, and wakes whoever may wait for it.
  virtual void tell(int channel) = 0;
  // Publishes the next item of this rank's side, whose description is in the ring, and tells.
  virtual void publish(int channel) = 0;
  // Tells the members on this host alone; the others learn it with what is next passed on to them.
  virtual void tellBeside(int channel) { tell(channel); }

  struct Bytes {
    bool exist = false;            // they lie in a shared arena of that rank
    std::byte* address = nullptr;  // null: they have to be pulled
  };
  virtual Bytes find(int rank, int arena, int64_t offset, int64_t bytes) const = 0;
  // Copies bytes of a published source, which exist. Where that takes a while `look` is asked ten times a second
  // whether to go on; where it is not to, bytes may still come to `to` until the transport has left.
  virtual Status pull(int rank, int arena, int64_t offset, int64_t bytes, std::byte* to,
                      FunctionRef<Status()> look) = 0;
  // What came along with a publication, until all members have finished the item; null: nothing did, or it is mapped.
  virtual const std::byte* carriedBy(int, int, uint64_t) const { return nullptr; }

  // Which host a rank is on, as all ranks number them: those of one host have mapped one another.
  virtual int hostNumberOf(int) const { return 0; }
  // To a rank of another host, from where the bytes lie. They stay as they are until `sent` counts one more; null: they
  // may be overwritten at once, and are few.
  virtual void push(int, const Push&, const std::byte*, int64_t, std::atomic<uint64_t>*) {}
  virtual void takePushes(PushTaker*) {}

  // Of a peer: "failed", "has ended its run", "was killed or crashed"; null: it lives, as far as is known here.
  // `thoroughly` may take a system call.
  virtual const char* lossOf(int rank, bool thoroughly) const = 0;
  // Says how this rank ends, and wakes all who may be waiting for it.
  virtual void leave(RankState state) = 0;
  // Those that are not this rank's are only read, and kept up to date as the sides are.
  virtual RankSigns& signs(int rank) = 0;
  virtual ProcessLook look(int rank) const = 0;
  // What the machine of a rank is called; empty: it is this one.
  virtual std::string hostOf(int) const { return ""; }
  // What it has taken of memory for the ranks of other hosts.
  virtual int64_t bufferBytes() const { return 0; }

  // How any of this rank's threads waits for others: between listen() and stopListening() whatever is told to this rank
  // ends a sleep() with listen()'s value, also if it came before the sleep began.
  virtual uint32_t listen() = 0;
  virtual void sleep(uint32_t heard, int milliseconds, Awaited whom = Awaited::kAnyone) = 0;
  virtual void stopListening() = 0;
  // Around a wait: the thread looks itself, by poll(), at what comes from other hosts, which nobody else then need be
  // woken for. A wait may hold others.
  virtual void beginWait() {}
  virtual void poll() {}
  virtual void endWait() {}
  // Ends the sleep of this rank's other threads.
  virtual void wakeSelf() = 0;

  // What a rank says of itself at the start; valid as long as the transport.
  virtual const char* nameOf(int rank, int index) const = 0;  // of a publication
  virtual std::string programOf(int rank) const = 0;
  virtual std::string catalogOf(int rank) const = 0;
};

// What a transport is made from; all of it outlives the transport.
struct TransportSetup {
  const Program& program;
  const Environment& environment;
  const ChannelPlans& plans;
  const std::string& catalog;           // text that peers may read (run/state_file.h)
  void (*greet)(std::byte*) = nullptr;  // fills the greeting of each channel whose first member this rank is
  std::string agreement = {};           // what must be the same in all ranks, as text (agreement.h)
  NetworkOptions network = {};
};

// The names that publications refer to: the collectives', the transfers', then the barrier's.
std::vector<const char*> publicationNames(const Program& program);

struct TransportKind {
  const char* name;
  bool (*carries)(const Surroundings& surroundings, const NetworkOptions& network);
  // Of the memory that holds the shared arenas, what the transport wants in front of them for itself.
  int64_t (*headBytes)(const TransportSetup& setup);
  // Of a rank that will not meet the others, since it has failed: they need not wait for it.
  void (*tellOfFailure)(const Environment& environment, const NetworkOptions& network, const std::string& program,
                        const Status& failure);
  // Meets the other ranks.
  Result<std::unique_ptr<Transport>> (*connect)(const TransportSetup& setup, const RankMemory& memory);
};

// The first that can carry the job.
Result<const TransportKind*> transportFor(const Surroundings& surroundings, const NetworkOptions& network);

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_TRANSPORT_H_
