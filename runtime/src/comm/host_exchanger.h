// HostExchanger: exchanges of tensors in the memory of hosts. It decides what is said and done when; how that comes to
// other ranks, and where their bytes are, is its transport's (transport.h).
//
// A member that needs a peer spins for a moment and then sleeps until something is told to it. Work on behalf of the
// group (a slice of a sum) is done by a thread of its own while the caller computes, where cores are left for one;
// otherwise inside wait(), so that a rank that computes is never interrupted. Sums over several hosts go from host to
// host where their members stand so that they can (sum_over_hosts.h). They are the same bits in every way.
#ifndef HYCRT_SRC_COMM_HOST_EXCHANGER_H_
#define HYCRT_SRC_COMM_HOST_EXCHANGER_H_

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
#include "comm/exchanger.h"
#include "comm/heartbeat.h"
#include "comm/patience.h"
#include "comm/sum_over_hosts.h"
#include "comm/transport.h"
#include "comm/vector_reduce.h"

namespace hycrt {

// Of bytes that are not mapped, at once and from one member.
inline constexpr int64_t kPulledChunkBytes = int64_t{256} << 10;
// What comes along with a publication to other hosts: of a transfer, and of a collective to all members together.
inline constexpr int64_t kMostCarriedBytes = int64_t{16} << 10, kMostCarriedToAll = int64_t{64} << 10;

struct HostExchangerOptions {
  bool ownThread = false;           // collectives progress while the caller computes
  Trace* trace = nullptr;           // outlives the exchanger; null: none
  Patience::Options patience = {};  // its lines come on the caller's thread
};

class HostExchanger : public Exchanger, private PushTaker {
 public:
  // All but the transport outlive the exchanger; `arenas` are this rank's. Fails where the members' programs do not
  // know the same channels.
  static Result<std::unique_ptr<HostExchanger>> create(const TransportSetup& setup, std::byte* const* arenas,
                                                       std::unique_ptr<Transport> transport,
                                                       HostExchangerOptions options = {});
  ~HostExchanger() override;
  HostExchanger(const HostExchanger&) = delete;
  HostExchanger& operator=(const HostExchanger&) = delete;

  Result<Ticket> start(const CollectiveCall& call) override;
  Status wait(Ticket ticket) override;
  Status exchange(const TransferUse* uses, int count) override;
  Result<const uint64_t*> share(uint64_t own) override;
  Status leave(bool finished) override;
  int memberCount(int group) const override;
  std::string catalogOf(int rank) const override { return transport_->catalogOf(rank); }
  ExchangeCounts counts() const override;
  const Lateness* lateness() const override { return &lateness_; }
  const std::vector<ExchangeTime>* exchangeTimes() const override { return &exchangeTimes_; }

  // What the machine of a rank is called; empty: it is this one.
  std::string hostOf(int rank) const { return transport_->hostOf(rank); }
  bool spansHosts(const std::vector<int>& ranks) const;
  // Bytes a second that come from a rank of another host where `bytes` of its arenas are asked for at once; 0: it has
  // no arena of so many.
  Result<double> rateFrom(int rank, int64_t bytes);

  // For exchanges that devices do by themselves: who talks on a channel, and what its first member said in front.
  const ChannelPlans& plans() const { return plans_; }
  int rank() const { return rank_; }
  // "rank 3 was killed or crashed": which of these ranks can no longer take part; empty: all can.
  std::string lostAmong(const std::vector<int>& ranks) const;
  // Tells the channel's members that this rank has come to `count` of its exchanges.
  void announce(int channel, uint64_t count);
  // The members that have not come to exchange `number` of the channel yet; ascending.
  std::vector<int> missingAt(int channel, uint64_t number) const;
  // For waits that are not this class's own.
  std::unique_ptr<Patience> makePatience() const;
  // Says why this rank will end, for those who wait for it. Of a peer that is lost, what that one said is said again.
  void leaveWords(const Status& status);
  // The rank that this one has waited for in vain; -1: none.
  int blamedRank() const { return patience_.blamed() >= 0 ? patience_.blamed() : pullPatience_.blamed(); }
  // What exchanges with other hosts take of memory.
  int64_t bufferBytes() const;
  const std::byte* greetingOf(int channel) const { return channels_[static_cast<size_t>(channel)].sides[0]->greeting; }

 private:
  // This rank's view of a channel. Items [0, started) were issued here, of [0, begun) this member has read what others
  // hold, [0, worked) have had all of its work, [0, completed) are over for all. The own thread only moves `begun` and
  // `worked` on, and only of groups' channels.
  struct Channel {
    int index = 0;
    std::vector<int> members;
    std::vector<ChannelSide*> sides;  // by member
    int self = 0;                     // index into members
    bool isGroup = false;             // of collectives, not of transfers
    bool isMapped = true;             // all members' bytes are
    // Of members on several hosts.
    bool spansHosts = false;
    std::vector<ChannelSide*> beside;    // the sides of this host's
    int place = 0;                       // of this rank among these
    std::unique_ptr<SumOverHosts> sums;  // null: terms are fetched
    int64_t sumBeginNs = 0;              // of the one that is on its way
    std::atomic<uint64_t> started{0};
    std::atomic<uint64_t> worked{0};
    // Members of other hosts have not been told of the last items that this one has finished; nobody waits to hear of
    // these but for room in a ring, so they go with what is next published, or before this rank sleeps.
    std::atomic<bool> isUntold{false};
    uint64_t begun = 0;
    uint64_t completed = 0;  // for this rank: of a group that spans hosts, members of others may still be at it
    CollectiveCall calls[kRingSize] = {};
    // Of whoever moves `begun` on: the member that was missing last when it looked, -1 for none; then, of each item,
    // who came last, and when.
    int missing = -1;
    struct Arrival {
      int last = -1;
      int64_t ns = 0;
    } arrivals[kRingSize] = {};

    ChannelSide& own() const { return *sides[static_cast<size_t>(self)]; }
  };
  // A collective that this member works on.
  struct Item {
    Channel& channel;
    const CollectiveCall& call;
    uint64_t number;
  };
  // A transfer in progress.
  struct Moving {
    const TransferDesc* transfer;
    const TransferUse* use;
    int channel;
    uint64_t item;  // its number in the channel
    enum class State { kIdle, kOffered, kDone } state = State::kIdle;
  };

  HostExchanger(const TransportSetup& setup, std::byte* const* arenas, std::unique_ptr<Transport> transport,
                HostExchangerOptions options);
  Status resolveChannels();
  void layOutSums(Channel& channel);
  void tellOfFetchedSums() const;

  // How an item of a channel is done, equal on all members.
  enum class Way {
    kMapped,     // where all bytes lie
    kCarried,    // what is not mapped has come along
    kOverHosts,  // a sum that goes from host to host
    kPulled,     // what is not mapped is fetched
  };
  Way wayOf(const Channel& channel, const CollectiveCall& call) const;
  int64_t carriedBytes(const Channel& channel, const CollectiveCall& call) const;
  // Whose finishing ends an item for this rank.
  const std::vector<ChannelSide*>& enders(const Channel& channel, uint64_t item) const;

  std::byte* placeFor(int rank, const Push& push, int64_t bytes) override;
  bool take(int rank, const Push& push, int64_t bytes) override;

  // group_work.cpp
  Result<Ticket> startOn(int channelIndex, const CollectiveCall& call, const Publication& publication);
  Status waitFor(Ticket ticket);
  bool canAdvance(Channel& channel) const;
  void countLateness(const Channel& channel, uint64_t item, int64_t beginNs, int64_t endNs);
  Status advance(Channel& channel);
  void countReceived(const Channel& channel, Way way, const CollectiveCall& call);
  bool isOnItsWay(const Channel& channel) const;
  Status finishUpTo(const Channel& channel, uint64_t item, const std::vector<ChannelSide*>& sides);
  Status compare(const Channel& channel, uint64_t item, int member) const;
  std::string describe(int rank, const Publication& publication) const;
  std::string nameItem(int rank, const Publication& publication) const;

  // group_kinds.cpp
  bool pullsSlices(const Item& item) const;
  Status perform(const Item& item);
  Status pullSlices(const Item& item);
  Status sumOverHosts(const Item& item);
  Status reduce(const Item& item);
  Status reduceFlat(const Item& item);
  Status gatherFlat(const Item& item);
  Status gather(const Item& item);
  // Of a kind that shares nothing with others; each is specialised beside perform.
  template <CollectiveKind kKind>
  Status performAlone(const Item& item);
  struct Source {
    int rank;
    BufferRef place;                     // in that rank's arenas
    std::byte* address;                  // null: it is not mapped
    const std::byte* carried = nullptr;  // a copy of it that has come along; null: there is none

    const std::byte* readable() const { return address ? address : carried; }  // null: it has to be pulled
  };
  Result<Source> sourceOf(const Item& item, int member, int64_t bytes) const;
  Result<Source> flatSourceOf(const Item& item, int member, int part) const;
  Status copy(const Source& source, int64_t offset, int64_t bytes, std::byte* to);
  Status lookWhilePulling(int rank, FunctionRef<std::string()> what);
  void addWait(int64_t nanoseconds, bool spansHosts);
  Status combine(const ReduceRange& range, const std::vector<Source>& sources, const std::vector<std::byte*>& targets);
  // Of the members with one shard: how many there are, and where this one stands among them.
  struct Sharers {
    int64_t coordinate;
    int count = 0, self = 0;
  };
  Sharers sharingOf(const Item& item) const;

  // communication_thread.cpp
  Status startThread();
  void stopThread();
  static bool isExchangeThread();
  void runThread();
  bool advanceAll();
  void sleepUntilTold(FunctionRef<bool()> ready);

  // transfers.cpp
  Status runExchange(const TransferUse* uses, int count);
  bool progress(Moving& moving, Status* status);
  Status receive(Channel& channel, const Moving& moving);

  // Until ready() returns true; fails where one of `peers` can no longer make it so, or does not in time.
  using Description = FunctionRef<std::string()>;
  Status waitUntil(const std::vector<int>& peers, const Patience::Wait& wait, FunctionRef<bool()> ready,
                   Awaited whom = Awaited::kAnyone);
  bool spin(FunctionRef<bool()> ready);
  void tellRest();
  Status waitUntilReady(const std::vector<int>& peers, const Patience::Wait& wait, FunctionRef<bool()> ready,
                        Awaited whom);
  bool areDistant(const std::vector<int>& ranks) const;
  Status checkPeer(int rank, Description what, bool thoroughly) const;
  void attendItem(const Channel& channel, uint64_t item, Attendance& attendance) const;
  void attendTransfers(Attendance& attendance) const;
  std::byte* ownAddress(BufferRef buffer) const { return arenas_[buffer.arena] + buffer.offset; }

  const Program& program_;
  const int rank_;
  const ChannelPlans& plans_;
  std::byte* const* const arenas_;
  // Rooms that bytes are pulled to. They outlive the transport: of a pull that was given up some may come yet.
  std::vector<std::byte> pulled_;    // a chunk of one member's source, and a running sum, where terms are fetched
  std::vector<std::byte> measured_;  // by rateFrom, while it pulls
  const std::unique_ptr<Transport> transport_;
  const HostExchangerOptions options_;
  Patience patience_;      // of the caller's waits
  Patience pullPatience_;  // of the caller's pulls, which may be part of a wait
  struct {
    int rank = 0;
    const Publication* publication = nullptr;
  } pullsFor_;  // what the caller pulls bytes for, as that rank has published it
  std::deque<Channel> channels_;
  // Of the exchange in progress; they keep their capacity, since a step must not allocate.
  std::vector<Moving> moving_;
  std::vector<int> movingPeers_;
  int spins_;
  int64_t spinNs_ = 0;  // the same where connections are looked at in between
  bool left_ = false;
  int64_t waitedNs_ = 0, betweenHostsNs_ = 0;
  std::atomic<int64_t> receivedBytes_{0}, receivingNs_{0};
  Lateness lateness_;
  std::vector<ExchangeTime> exchangeTimes_;
  int64_t copyingNs_ = 0;         // of the exchange in progress
  int lastPeer_ = -1;             // and with whom a transfer was over last
  std::vector<uint64_t> shared_;  // by rank: what it has given to the last barrier

  Heartbeat heartbeat_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> threadFailed_{false};
  Status threadStatus_;  // written before threadFailed_ is set
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_HOST_EXCHANGER_H_
