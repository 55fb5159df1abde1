// Peers: the ranks of other hosts as this one sees them. Whoever receives keeps copies of what they have said up to
// date and answers their questions for bytes of this rank's arenas: a thread of the peers' own, which also tells that
// this rank lives, or, as long as one of the rank's threads waits, that one, so that no other has to be woken first.
#ifndef HYCRT_SRC_COMM_TCP_PEERS_H_
#define HYCRT_SRC_COMM_TCP_PEERS_H_

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/function_ref.h"
#include "comm/tcp/fabric.h"
#include "comm/tcp/link.h"
#include "comm/tcp/meeting.h"
#include "comm/transport.h"

namespace hycrt {

class Peers : public FrameTaker {
 public:
  // `hellos`: by rank, those of this host without a host's name. `local` is where this rank's own sides, signs and
  // arenas are, and who is woken; it outlives the peers.
  Peers(const TransportSetup& setup, const std::vector<HostHello>& hellos, Transport& local);
  ~Peers() override;

  // Takes the links, and returns when every peer has introduced itself.
  Status start(std::vector<std::unique_ptr<Link>> links, int64_t deadlineMs);

  bool has(int rank) const { return peers_[static_cast<size_t>(rank)] != nullptr; }
  ChannelSide* side(int channel, int rank) { return of(rank).sides[static_cast<size_t>(channel)].get(); }
  void tell(int channel);
  // Tells of the next item, with the bytes that it carries, and then lets the others of this host see it: from then on
  // these may write where the bytes lie.
  void publish(int channel, FunctionRef<void()> showBeside);
  const std::byte* carriedBy(int channel, int rank, uint64_t item) const;
  void push(int rank, const Push& push, const std::byte* from, int64_t bytes, std::atomic<uint64_t>* sent);
  void takePushes(PushTaker* taker) { taker_.store(taker, std::memory_order_release); }

  // Of a thread that waits: see Transport.
  void beginWait();
  void poll();
  void endWait();
  // The thread sleeps without looking at the connections, and goes on to wait.
  void pauseWait();
  // False: another thread receives, and the caller may sleep otherwise. `mayNot` is asked once wakeUp() would be heard.
  bool sleep(int milliseconds, FunctionRef<bool()> mayNot);
  void wakeUp();

  int64_t bufferBytes() const;

  bool isShared(int rank, int arena, int64_t offset, int64_t bytes) const;
  Status pull(int rank, int arena, int64_t offset, int64_t bytes, std::byte* to, FunctionRef<Status()> look);
  const char* lossOf(int rank) const;
  // Tells all, and returns when they have it or some time has passed.
  void leave(RankState state);
  RankSigns& signs(int rank) { return of(rank).signs; }
  ProcessLook look(int rank) const;
  const char* nameOf(int rank, int index) const;
  const std::string& programOf(int rank) const { return of(rank).program; }
  const std::string& catalogOf(int rank) const { return of(rank).catalog; }
  const std::string& hostOf(int rank) const { return of(rank).host; }

  std::byte* placeFor(int rank, const FrameHead& head, bool* refuses) override;
  void hear(int rank, const FrameHead& head) override;
  bool take(int rank, const FrameHead& head, std::string_view bytes) override;

 private:
  // What came along with the publications of a ring; it keeps its capacity.
  using Carried = std::array<std::vector<std::byte>, kRingSize>;
  struct Peer {
    int rank = 0;
    std::string host, program, catalog, fabricAddress;
    int64_t fabricLostMs = 0;
    std::unique_ptr<Link> link;
    std::vector<int64_t> arenas;  // bytes of those that are shared; -1
    std::vector<std::string> names;
    std::vector<std::unique_ptr<ChannelSide>> sides;  // by this rank's channels; null: it knows nothing of that one
    std::vector<std::unique_ptr<Carried>> carried;    // likewise
    std::vector<int32_t> theirs;                      // likewise: how it numbers the channel; -1
    RankSigns signs{};
    ProcessLook look;  // as its own machine saw it last
    std::atomic<RankState> state{RankState::kRunning};
    std::atomic<const char*> loss{nullptr};
    std::atomic<bool> isIntroduced{false};
  };
  // What this rank has told of a channel.
  struct Told {
    std::mutex mutex;
    uint64_t published = 0;
    std::string frame;  // keeps its capacity
  };
  struct Pull {
    bool isUsed = false;
    uint32_t tag = 0;
    std::byte* to = nullptr;
    int64_t left = 0;
    std::atomic<uint32_t> isDone{0};
  };
  static constexpr size_t kPulls = 16;  // at once: a rank has two threads that pull

  Peer& of(int rank) { return *peers_[static_cast<size_t>(rank)]; }
  const Peer& of(int rank) const { return *peers_[static_cast<size_t>(rank)]; }
  void send(Peer& peer, const FrameHead& head, std::string_view bytes);
  void sendLong(Peer& peer, const FrameHead& head, const std::byte* bytes, int64_t count, std::atomic<uint64_t>* sent);
  Status joinFabric();
  void describeSide(int channel, uint64_t published, Told& told) const;
  std::string introduction() const;
  bool takeIntroduction(Peer& peer, int rank, std::string_view bytes);
  bool takeSide(Peer& peer, std::string_view bytes);
  bool answer(Peer& peer, const FrameHead& head, std::string_view bytes);
  void takeBytes(const FrameHead& head);
  Pull* pullOf(uint32_t tag);
  Pull* claimPull(std::byte* to, int64_t bytes);
  Status awaitPull(int rank, Pull& pull, FunctionRef<Status()> look);
  Status awaitIntroductions(int64_t deadlineMs);

  void run();
  bool isArmed();
  void serve(int milliseconds);
  void lookAtWhatTrickles();
  void watch(bool watches);
  void endRest();
  void attend(Peer& peer);
  void beat();
  bool haveAllGone() const;

  const Program& program_;
  const bool wantsUcx_;
  const ChannelPlans& plans_;
  const std::string& catalog_;
  const int self_;
  Transport& local_;
  std::vector<std::unique_ptr<Peer>> peers_;    // by rank; null: of this host
  std::unordered_map<uint64_t, int> channels_;  // by key
  std::deque<Told> told_;                       // by channel
  std::vector<std::vector<int>> distant_;       // by channel: its members on other hosts
  mutable std::mutex lookMutex_;
  std::mutex pullMutex_;
  std::array<Pull, kPulls> pulls_;
  uint32_t nextTag_ = 1;

  std::atomic<PushTaker*> taker_{nullptr};

  std::unique_ptr<Fabric> fabric_;  // null: all frames go over the connections
  std::atomic<bool> usesFabric_{false};

  // All connections and `call_` are in `inner_`, which whoever receives asks; it and `alarm_` are in `outer_`, which
  // the thread waits for. While a thread of the rank waits, the outer one does not look at the inner one, nor for a
  // moment afterwards, since waits come in quick succession: then `rest_`, a timer, ends.
  FileDescriptor inner_, outer_, call_, alarm_, rest_;
  std::mutex
      receiving_;  // of `unfinished_`, `hasNews_`, `trickleLookMs_`, and what the links know of what they receive
  std::vector<Peer*> unfinished_;
  bool hasNews_ = false;
  int64_t trickleLookMs_ = 0;
  std::mutex waitingMutex_;
  int waiting_ = 0;                      // threads
  bool watches_ = true, rests_ = false;  // the peers' own thread
  std::atomic<bool> hasUnfinished_{false};
  std::atomic<int> sleeping_{0};  // threads that `call_` has to wake

  // Of the thread.
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  int64_t lastBeatMs_ = -1;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_TCP_PEERS_H_
