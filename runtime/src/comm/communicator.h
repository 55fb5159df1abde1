// Communicator: everything that passes between the ranks of one machine after the rendezvous. One thread calls it.
//
// All ranks map each other's blocks (shared_block.h). A member that needs a peer spins for a moment and then sleeps on
// its own doorbell, which peers ring; there is no server and no socket. Work on behalf of the group (a slice of a sum)
// is done by a thread of its own while the caller computes, where cores are left for one; otherwise inside wait(), so
// that a rank that computes is never interrupted. Sums are the same bits either way.
#ifndef HYCRT_SRC_COMM_COMMUNICATOR_H_
#define HYCRT_SRC_COMM_COMMUNICATOR_H_

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/environment.h"
#include "base/function_ref.h"
#include "base/trace.h"
#include "comm/channels.h"
#include "comm/collective_call.h"
#include "comm/shm/shared_block.h"
#include "hycrt/accelerator.h"
#include "hycrt/collectives.h"
#include "hycrt/program.h"
#include "hycrt/status.h"
#include "memory/rank_memory.h"

namespace hycrt {

struct CommunicatorOptions {
  bool ownThread = false;  // collectives progress while the caller computes
  Trace* trace = nullptr;  // outlives the communicator; null: none
};

class Communicator {
 public:
  // Meets the other ranks. `memory` and `program` outlive the communicator.
  static Result<std::unique_ptr<Communicator>> connect(const Program& program, const Environment& environment,
                                                       const RankMemory& memory, ChannelPlans plans,
                                                       CommunicatorOptions options = {});
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  Result<Ticket> start(const CollectiveCall& call);
  Status wait(Ticket ticket);

  // The same where tensors are on a device: sources go to their images first, results come from them (staged.cpp).
  Result<Ticket> startStaged(Accelerator& device, const CollectiveCall& call);
  Status waitStaged(Accelerator& device, Ticket ticket);
  Status exchangeStaged(Accelerator& device, const TransferUse* uses, int count);

  // For exchanges that devices do by themselves: who talks on a channel, and what its first member said in front.
  const ChannelPlans& plans() const { return plans_; }
  // "rank 3 was killed or crashed": which of these ranks can no longer take part; empty: all can.
  std::string lostAmong(const std::vector<int>& ranks) const;
  // Tells the channel's members that this rank has come to `count` of its exchanges.
  void announce(int channel, uint64_t count);
  // The members that have not come to exchange `number` of the channel yet; ascending.
  std::vector<int> missingAt(int channel, uint64_t number) const;
  const std::byte* greetingOf(int channel) const { return channels_[static_cast<size_t>(channel)].rows[0]->greeting; }

  // Of a row of Program::groups; 0 where this rank is not in it.
  int memberCount(int group) const;

  // Runs the transfers together: no order among them is assumed but that of one direction between two ranks.
  Status exchange(const TransferUse* uses, int count);

  // Returns when every rank has called it.
  Status barrier();

  // How long the caller has waited so far: communication that its computation did not hide.
  int64_t waitedNs() const { return waitedNs_; }

  // The text that a rank published when it was set up; valid as long as the communicator.
  std::string catalogOf(int rank) const;

  // Says how this rank ends, and wakes all who may be waiting for it. Also done on destruction, as a failure.
  void leave(RankState state);

 private:
  struct Peer {
    Mapping mapping;
    SharedBlock block;
    FileDescriptor process;  // becomes readable when the process ends
    std::string program;
  };
  // This rank's side of a channel beyond what is shared. Items [0, started) were issued here, [0, worked) have had
  // this member's share of the work, [0, completed) are over for all. The own thread only moves `worked` on, and only
  // of groups' channels.
  struct Channel {
    std::vector<int> members;
    std::vector<ChannelRow*> rows;  // by member
    int self = 0;                   // index into members
    bool isGroup = false;           // of collectives, not of transfers
    std::atomic<uint64_t> started{0};
    std::atomic<uint64_t> worked{0};
    uint64_t completed = 0;
    CollectiveCall calls[kRingSize] = {};

    ChannelRow& own() const { return *rows[static_cast<size_t>(self)]; }
  };
  // A transfer in progress.
  struct Moving {
    const TransferDesc* transfer;
    const TransferUse* use;
    int channel;
    uint64_t item;  // its number in the channel
    enum class State { kIdle, kOffered, kDone } state = State::kIdle;
  };

  Communicator(const Program& program, const Environment& environment, const RankMemory& memory, ChannelPlans plans,
               CommunicatorOptions options);
  Status mapPeers(std::vector<struct PeerHello> hellos);
  Status resolveChannels();

  Result<Ticket> startOn(int channelIndex, const CollectiveCall& call, const Publication& publication);
  Status waitFor(Ticket ticket);
  Status workOn(Channel& channel);
  bool isPublishedByAll(const Channel& channel, uint64_t item) const;
  Status performWork(Channel& channel, const CollectiveCall& call, uint64_t item);
  Status finishUpTo(Channel& channel, uint64_t item);
  Status reduce(Channel& channel, const CollectiveCall& call, uint64_t item);
  int64_t flatCoordinate(const CollectiveDesc& row, int rank) const;
  Result<std::byte*> flatAddressAt(const Channel& channel, const CollectiveCall& call, int member, uint64_t item,
                                   int part) const;
  Status reduceFlat(Channel& channel, const CollectiveCall& call, uint64_t item);
  Status gatherFlat(Channel& channel, const CollectiveCall& call, uint64_t item);
  Status gather(Channel& channel, const CollectiveCall& call, uint64_t item);
  Status allToAll(Channel& channel, const CollectiveCall& call, uint64_t item);
  Status shift(Channel& channel, const CollectiveCall& call, uint64_t item);
  Result<std::byte*> addressAt(const Channel& channel, int member, uint64_t item, int64_t bytes) const;
  Status compare(const Channel& channel, uint64_t item, int member) const;
  std::string describe(int rank, const Publication& publication) const;
  std::string nameItem(int rank, const Publication& publication) const;

  // communication_thread.cpp
  void startThread();
  void stopThread();
  void runThread();
  bool advance();
  void sleepUntilRung(const std::function<bool()>& ready);
  void ringSelf() const;

  Status runExchange(const TransferUse* uses, int count);

  // staged.cpp
  struct StagedCall {
    Ticket ticket;
    CollectiveCall call;
  };
  template <typename Use>
  Status forStagedSources(const CollectiveCall& call, Use use) const;
  template <typename Use>
  Status forStagedResults(const CollectiveCall& call, Use use) const;
  bool progress(Moving& moving, Status* status);
  Status receive(Channel& channel, const Moving& moving);

  // Until ready() returns true; fails where one of `peers` can no longer make it so. `what` is asked for errors only.
  using Description = FunctionRef<std::string()>;
  Status waitUntil(const std::vector<int>& peers, Description what, FunctionRef<bool()> ready);
  Status checkPeer(int rank, Description what, bool askKernel) const;
  void ring(const std::vector<int>& ranks) const;
  std::byte* ownAddress(BufferRef buffer) const { return memory_.arenas()[buffer.arena] + buffer.offset; }

  const Program& program_;
  const RankMemory& memory_;
  const int rank_;
  ChannelPlans plans_;
  std::vector<Peer> peers_;  // by rank; the own entry has only the block
  std::deque<Channel> channels_;
  // Of the exchange in progress; they keep their capacity, since a step must not allocate.
  std::vector<Moving> moving_;
  std::vector<int> movingPeers_;
  std::vector<StagedCall> staged_;  // started and not waited for
  int spins_;
  bool left_ = false;
  int64_t waitedNs_ = 0;

  const CommunicatorOptions options_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> threadFailed_{false};
  Status threadStatus_;  // written before threadFailed_ is set
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_COMMUNICATOR_H_
