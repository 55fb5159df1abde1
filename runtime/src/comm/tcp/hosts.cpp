// Meeting, sharing memory with those beside, and calling the others.
#include "comm/tcp/hosts.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "comm/shm/doorkeeper.h"
#include "comm/shm/rendezvous.h"
#include "comm/shm/shared_memory.h"
#include "comm/tcp/peers.h"
#include "hycrt/token.h"

namespace hycrt {
namespace {

constexpr int kPollMs = 100, kRetryMs = 20;
constexpr int64_t kReachMs = 5000;  // to a listener that has been there since before its address was told

// This machine's ranks by shared memory, the others by their peers.
class Hosts : public Transport {
 public:
  // `numbers`: of the hosts, by rank.
  Hosts(const TransportSetup& setup, std::vector<HostHello> hellos, std::vector<int> numbers,
        std::unique_ptr<Transport> local)
      : plans_(setup.plans), numbers_(std::move(numbers)), local_(std::move(local)), peers_(setup, hellos, *local_) {}
  ~Hosts() override { peers_.leave(RankState::kFailed); }

  Peers& peers() { return peers_; }

  ChannelSide* side(int channel, int member) override {
    const int rank = plans_.channels[static_cast<size_t>(channel)].members[static_cast<size_t>(member)];
    return peers_.has(rank) ? peers_.side(channel, rank) : local_->side(channel, member);
  }
  void tell(int channel) override {
    local_->tell(channel);
    peers_.tell(channel);
  }
  void publish(int channel) override {
    peers_.publish(channel, [&] { local_->publish(channel); });
  }
  void tellBeside(int channel) override { local_->tell(channel); }
  Bytes find(int rank, int arena, int64_t offset, int64_t bytes) const override {
    if (!peers_.has(rank)) return local_->find(rank, arena, offset, bytes);
    return {peers_.isShared(rank, arena, offset, bytes), nullptr};
  }
  Status pull(int rank, int arena, int64_t offset, int64_t bytes, std::byte* to, FunctionRef<Status()> look) override {
    return peers_.has(rank) ? peers_.pull(rank, arena, offset, bytes, to, look)
                            : local_->pull(rank, arena, offset, bytes, to, look);
  }
  const std::byte* carriedBy(int channel, int member, uint64_t item) const override {
    const int rank = plans_.channels[static_cast<size_t>(channel)].members[static_cast<size_t>(member)];
    return peers_.has(rank) ? peers_.carriedBy(channel, rank, item) : nullptr;
  }
  int hostNumberOf(int rank) const override { return numbers_[static_cast<size_t>(rank)]; }
  void push(int rank, const Push& push, const std::byte* from, int64_t bytes, std::atomic<uint64_t>* sent) override {
    peers_.push(rank, push, from, bytes, sent);
  }
  void takePushes(PushTaker* taker) override { peers_.takePushes(taker); }
  const char* lossOf(int rank, bool thoroughly) const override {
    return peers_.has(rank) ? peers_.lossOf(rank) : local_->lossOf(rank, thoroughly);
  }
  void leave(RankState state) override {
    local_->leave(state);
    peers_.leave(state);
  }
  RankSigns& signs(int rank) override { return peers_.has(rank) ? peers_.signs(rank) : local_->signs(rank); }
  ProcessLook look(int rank) const override { return peers_.has(rank) ? peers_.look(rank) : local_->look(rank); }
  std::string hostOf(int rank) const override { return peers_.has(rank) ? peers_.hostOf(rank) : ""; }

  uint32_t listen() override { return local_->listen(); }
  // One sleeps on the connections alone, or is woken by those beside and by the thread that receives.
  void sleep(uint32_t heard, int milliseconds, Awaited whom) override {
    const auto hasHeard = [&] {
      const uint32_t now = local_->listen();
      local_->stopListening();
      return now != heard;
    };
    if (whom == Awaited::kDistant && peers_.sleep(milliseconds, hasHeard)) return;
    peers_.pauseWait();
    local_->sleep(heard, milliseconds);
    peers_.beginWait();
  }
  void stopListening() override { local_->stopListening(); }
  void wakeSelf() override {
    local_->wakeSelf();
    peers_.wakeUp();
  }
  void beginWait() override { peers_.beginWait(); }
  void poll() override { peers_.poll(); }
  void endWait() override { peers_.endWait(); }
  int64_t bufferBytes() const override { return peers_.bufferBytes(); }

  const char* nameOf(int rank, int index) const override {
    return peers_.has(rank) ? peers_.nameOf(rank, index) : local_->nameOf(rank, index);
  }
  std::string programOf(int rank) const override {
    return peers_.has(rank) ? peers_.programOf(rank) : local_->programOf(rank);
  }
  std::string catalogOf(int rank) const override {
    return peers_.has(rank) ? peers_.catalogOf(rank) : local_->catalogOf(rank);
  }

 private:
  const ChannelPlans& plans_;
  const std::vector<int> numbers_;
  const std::unique_ptr<Transport> local_;
  Peers peers_;
};

// How the ranks beside this one meet: by an abstract socket, whose name only those have heard who have the token.
Environment meetingOf(const Environment& environment, const Met& met, const std::vector<int>& here) {
  Environment meeting = environment;
  meeting.hosts = 1;
  meeting.worldSize = meeting.ranksHere = static_cast<int>(here.size());
  meeting.rank = static_cast<int>(std::find(here.begin(), here.end(), environment.rank) - here.begin());
  meeting.socketName = "hyc-" + met.name + "-" + std::to_string(here.front());
  meeting.job = meeting.socketName;
  return meeting;
}

// Connections to the ranks of other hosts: each calls those in front of it.
class Calls {
 public:
  Calls(const TransportSetup& setup, const Met& met, int64_t deadlineMs)
      : environment_(setup.environment), options_(setup.network), met_(met), deadlineMs_(deadlineMs) {}

  Result<std::vector<std::unique_ptr<Link>>> run(const std::vector<int>& distant, FileDescriptor listener) {
    for (int rank : distant) {
      if (rank < environment_.rank) HYCRT_RETURN_IF_ERROR(call(rank));
      if (rank > environment_.rank) awaited_[rank];
    }
    HYCRT_RETURN_IF_ERROR(awaitCalls(std::move(listener)));
    return std::move(links_);
  }

 private:
  // A connection from a rank that has proved to know the token.
  struct Lane {
    SecureStream stream;
    bool isShaken = false;
  };

  std::string purposeOf(int listener) const {
    return "exchanges " + met_.name + " with rank " + std::to_string(listener);
  }
  std::string whoIs(int rank) const {
    const HostHello& hello = met_.ranks[static_cast<size_t>(rank)];
    return "rank " + std::to_string(rank) + " on host '" + hello.host + "'";
  }
  SecureStream streamOver(FileDescriptor connection, int caller, int listener, size_t lane) const {
    prepareConnection(connection, options_);
    if (options_.plaintext) return SecureStream::inTheClear(std::move(connection));
    return SecureStream::encrypted(
        std::move(connection),
        listener == environment_.rank ? SecureStream::Side::kListener : SecureStream::Side::kCaller, environment_.token,
        {environment_.job + " " + met_.name, "exchanges", caller, listener, static_cast<int>(lane)});
  }

  // As many times as there are to be connections, one after the other, so that both sides count them alike.
  Status call(int rank) {
    std::vector<SecureStream> streams;
    while (streams.size() < static_cast<size_t>(options_.sockets)) {
      Result<SecureStream> stream = callOnce(rank, streams.size());
      if (!stream.ok()) return stream.status();
      streams.push_back(std::move(*stream));
    }
    links_.push_back(std::make_unique<Link>(rank, std::move(streams)));
    return {};
  }

  // Who is called answers once it has called those in front of it, which may take as long as the meeting; where too
  // many are at its door it hangs up, and is called again.
  Result<SecureStream> callOnce(int rank, size_t lane) const {
    const HostAddress& address = met_.ranks[static_cast<size_t>(rank)].address;
    const Claim claim = claimFor(environment_, purposeOf(rank), "");
    std::string last = "the time to meet is over";
    while (monotonicMs() < deadlineMs_) {
      Result<FileDescriptor> connection =
          reach(address.text, address.port, std::min(deadlineMs_, monotonicMs() + kReachMs));
      if (!connection.ok()) {
        return unavailableError(whoIs(rank) + " cannot be called: " + connection.status().message() +
                                "; has it ended, or does --interface have to name a network that both hosts are in?");
      }
      Result<std::string> proved = proveOver(*connection, environment_.token, claim, deadlineMs_);
      if (proved.ok()) {
        SecureStream stream = streamOver(std::move(*connection), environment_.rank, rank, lane);
        HYCRT_RETURN_IF_ERROR(stream.shakeHands(deadlineMs_));
        return stream;
      }
      last = proved.status().message();
      poll(nullptr, 0, kRetryMs);
    }
    return unavailableError(whoIs(rank) + " does not answer: " + last);
  }

  Status awaitCalls(FileDescriptor listener) {
    Doorkeeper doorkeeper(std::move(listener), environment_.token,
                          claimFor(environment_, purposeOf(environment_.rank), ""), "");
    doorkeeper.keepAdmitted();
    while (!awaited_.empty()) {
      if (monotonicMs() > deadlineMs_) {
        std::string text;
        for (const auto& [rank, lanes] : awaited_) text += (text.empty() ? "" : ", ") + whoIs(rank);
        return unavailableError("these ranks did not call rank " + std::to_string(environment_.rank) +
                                " in time: " + text);
      }
      pollAll(doorkeeper);
      doorkeeper.serve();
      for (Doorkeeper::Admitted& admitted : doorkeeper.takeAdmitted()) take(std::move(admitted));
      shakeAll();
    }
    return {};
  }

  void pollAll(const Doorkeeper& doorkeeper) const {
    std::vector<pollfd> polled;
    for (const auto& [rank, lanes] : awaited_) {
      for (const Lane& lane : lanes) {
        if (!lane.isShaken) polled.push_back({lane.stream.connection().get(), POLLIN, 0});
      }
    }
    doorkeeper.addPolled(&polled);
    poll(polled.data(), polled.size(), kPollMs);
  }

  void take(Doorkeeper::Admitted admitted) {
    const int rank = admitted.claim.rank;
    const auto place = awaited_.find(rank);
    if (place == awaited_.end() || place->second.size() == static_cast<size_t>(options_.sockets)) return;
    std::vector<Lane>& lanes = place->second;
    lanes.push_back({streamOver(std::move(admitted.connection), rank, environment_.rank, lanes.size())});
  }

  // As far as goes without waiting: one that is slow delays nobody, and one that does not get through is waited for as
  // if it had not come, with what came after it.
  void shakeAll() {
    for (auto place = awaited_.begin(); place != awaited_.end();) {
      auto& [rank, lanes] = *place;
      for (size_t i = 0; i < lanes.size(); ++i) {
        if (lanes[i].isShaken) continue;
        const SecureStream::Shaking state = lanes[i].stream.shake();
        lanes[i].isShaken = state == SecureStream::Shaking::kDone;
        if (state == SecureStream::Shaking::kFailed)
          lanes.erase(lanes.begin() + static_cast<std::ptrdiff_t>(i), lanes.end());
      }
      const bool isWhole = lanes.size() == static_cast<size_t>(options_.sockets) &&
                           std::all_of(lanes.begin(), lanes.end(), [](const Lane& lane) { return lane.isShaken; });
      if (!isWhole) {
        ++place;
        continue;
      }
      std::vector<SecureStream> streams;
      for (Lane& lane : lanes) streams.push_back(std::move(lane.stream));
      links_.push_back(std::make_unique<Link>(rank, std::move(streams)));
      place = awaited_.erase(place);
    }
  }

  const Environment& environment_;
  const NetworkOptions& options_;
  const Met& met_;
  const int64_t deadlineMs_;
  std::map<int, std::vector<Lane>> awaited_;  // by rank: its connections so far
  std::vector<std::unique_ptr<Link>> links_;
};

// By rank: the first rank of its host.
std::vector<int> numberHosts(const std::vector<HostHello>& ranks, int ranksTogether) {
  std::vector<int> numbers;
  for (const HostHello& hello : ranks) {
    const auto isBeside = [&](const HostHello& other) {
      return other.machine == hello.machine &&
             (ranksTogether == 0 || other.rank / ranksTogether == hello.rank / ranksTogether);
    };
    numbers.push_back(std::find_if(ranks.begin(), ranks.end(), isBeside)->rank);
  }
  return numbers;
}

Status checkToken(const TransportSetup& setup) {
  if (setup.environment.token.empty()) {
    return usageError(std::string("ranks on several hosts need a token, by which they know each other: openssl rand "
                                  "-hex 32 > token && chmod 600 token, a copy of it on every host, and ") +
                      kTokenFileVariable + "=token in the environment of every rank");
  }
  if (setup.environment.masterAddress.empty() || setup.environment.port == 0) {
    return usageError(
        "ranks on several hosts meet at rank 0; set MASTER_ADDR to its host and MASTER_PORT to a port "
        "that is free there");
  }
  if (setup.network.plaintext || canEncrypt()) return {};
  return unavailableError("this runtime was built without OpenSSL; build it where libssl-dev is installed");
}

}  // namespace

Result<std::unique_ptr<Transport>> connectHosts(const TransportSetup& setup, const RankMemory& memory) {
  HYCRT_RETURN_IF_ERROR(checkToken(setup));
  const Environment& environment = setup.environment;
  HostHello own;
  own.rank = environment.rank;
  own.processId = getpid();
  own.worldSize = environment.worldSize;
  own.planHash = setup.program.planHash;
  own.program = setup.program.name;
  own.agreement = setup.agreement;
  own.host = machineName();
  own.machine = machineIdentity();
  const int64_t deadlineMs = monotonicMs() + kRendezvousMs;
  Result<Met> met = meetOverTcp(environment, setup.network, own, kRendezvousMs);
  if (!met.ok()) return met.status();
  const std::vector<int> numbers = numberHosts(met->ranks, setup.network.ranksTogether);
  std::vector<int> here, distant;
  for (const HostHello& hello : met->ranks) {
    const bool isHere = numbers[static_cast<size_t>(hello.rank)] == numbers[static_cast<size_t>(environment.rank)];
    (isHere ? here : distant).push_back(hello.rank);
  }
  Result<std::unique_ptr<Transport>> local =
      connectSharedMemoryOf(setup, memory, meetingOf(environment, *met, here), here);
  if (!local.ok()) return local.status();
  Result<std::vector<std::unique_ptr<Link>>> links =
      Calls(setup, *met, deadlineMs).run(distant, std::move(met->listener));
  if (!links.ok()) return links.status();
  for (int rank : here) met->ranks[static_cast<size_t>(rank)].host.clear();
  auto hosts = std::make_unique<Hosts>(setup, std::move(met->ranks), numbers, std::move(*local));
  HYCRT_RETURN_IF_ERROR(hosts->peers().start(std::move(*links), deadlineMs));
  return std::unique_ptr<Transport>(std::move(hosts));
}

}  // namespace hycrt
