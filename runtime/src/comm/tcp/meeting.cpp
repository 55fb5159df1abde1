// Both sides of the meeting: rank 0, which all call, and everybody else. Where rank 0 was called to meet it is called
// for exchanges afterwards, so that every rank takes one port.
#include "comm/tcp/meeting.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <fstream>
#include <list>

#include "base/clock.h"
#include "comm/shm/doorkeeper.h"
#include "comm/shm/rendezvous.h"
#include "comm/tcp/meeting_messages.h"
#include "hycrt/token.h"

namespace hycrt {
namespace {

constexpr int kPollMs = 100;
constexpr int64_t kHelloMs = 5000;    // from a proof to a whole hello
constexpr int64_t kRefusalMs = 5000;  // how long others may take to come where the job is refused
constexpr int64_t kGraceMs = 5000;    // a rank waits this much longer than rank 0, which knows better what is wrong
constexpr char kPurpose[] = "meeting";

SecureStream streamOver(FileDescriptor connection, SecureStream::Side side, const Environment& environment,
                        const NetworkOptions& options, int caller) {
  if (options.plaintext) return SecureStream::inTheClear(std::move(connection));
  return SecureStream::encrypted(std::move(connection), side, environment.token,
                                 {environment.job, kPurpose, caller, 0, 0});
}

Status failureOf(const HostHello& hello, const std::string& why) {
  return {StatusCode::kPeerLost, describe(hello) + " failed before the ranks had met: " + why};
}

class Hub {
 public:
  Hub(const Environment& environment, const NetworkOptions& options, HostHello own, int64_t deadlineMs)
      : environment_(environment),
        options_(options),
        own_(std::move(own)),
        admission_(own_),
        deadlineMs_(deadlineMs),
        members_(static_cast<size_t>(environment.worldSize)) {}

  // `refusal`: of a rank 0 that has failed.
  Result<Met> run(Status refusal = {}) {
    HYCRT_RETURN_IF_ERROR(listen());
    while (present_ + misfits_ + 1 < environment_.worldSize) {
      if (monotonicMs() > deadlineMs_) return refuse(refusal.ok() ? unavailableError(missing()) : refusal);
      pollAll();
      doorkeeper_->serve();
      takeAdmitted();
      Status status = hearGuests();
      if (status.ok()) status = hearMembers();
      if (status.ok()) continue;
      if (!hasMisfit_) return refuse(refusal.ok() ? status : refusal);
      // The others are still waited for a while, so that they hear why.
      hasMisfit_ = false;
      deadlineMs_ = std::min(deadlineMs_, monotonicMs() + kRefusalMs);
      if (refusal.ok()) refusal = status;
    }
    if (!refusal.ok()) return refuse(refusal);
    return introduceAll();
  }

 private:
  struct Guest {  // has proved to know the token, and not said who it is
    MeetingStream stream;
    Claim claim;
    int64_t deadlineMs;
    bool isShaken = false;
  };
  struct Member {
    MeetingStream stream;
    HostHello hello;
  };

  Status listen() {
    Result<std::string> address = localAddress(options_, environment_.masterAddress);
    if (!address.ok()) return address.status();
    Result<FileDescriptor> door = listenOn(*address, environment_.port, options_, &own_.address.port);
    if (!door.ok()) return door.status();
    own_.address.text = ownAddress(*door);
    met_.name = makeName();
    doorkeeper_ = std::make_unique<Doorkeeper>(std::move(*door), environment_.token,
                                               claimFor(environment_, kPurpose, own_.agreement), "");
    doorkeeper_->keepAdmitted();
    return {};
  }

  void pollAll() {
    std::vector<pollfd> polled;
    for (const Guest& guest : guests_) polled.push_back({guest.stream.connection().get(), POLLIN, 0});
    for (const Member& member : members_) {
      if (member.stream.isOpen()) polled.push_back({member.stream.connection().get(), POLLIN, 0});
    }
    doorkeeper_->addPolled(&polled);
    poll(polled.data(), polled.size(), kPollMs);
  }

  void takeAdmitted() {
    for (Doorkeeper::Admitted& admitted : doorkeeper_->takeAdmitted()) {
      prepareConnection(admitted.connection, options_);
      const int caller = admitted.claim.rank;
      guests_.push_back({MeetingStream(streamOver(std::move(admitted.connection), SecureStream::Side::kListener,
                                                  environment_, options_, caller)),
                         admitted.claim, monotonicMs() + kHelloMs});
    }
  }

  Status hearGuests() {
    for (auto guest = guests_.begin(); guest != guests_.end();) {
      Status status;
      const bool isOver = hearGuest(*guest, &status);
      guest = isOver ? guests_.erase(guest) : std::next(guest);
      HYCRT_RETURN_IF_ERROR(status);
    }
    return {};
  }

  // Whether it is no guest any more.
  bool hearGuest(Guest& guest, Status* status) {
    if (!guest.isShaken) {
      const SecureStream::Shaking state = guest.stream.stream().shake();
      if (state == SecureStream::Shaking::kFailed) return drop("its TLS handshake failed");
      guest.isShaken = state == SecureStream::Shaking::kDone;
      if (!guest.isShaken) return monotonicMs() > guest.deadlineMs && drop("its TLS handshake took too long");
    }
    MeetingMessage message;
    const Heard heard = guest.stream.hear(&message);
    if (heard == Heard::kNothingYet) return monotonicMs() > guest.deadlineMs && drop("it did not say who it is");
    HostHello hello;
    std::string why;
    if (heard == Heard::kMessage && message.type == MeetingType::kFailed &&
        decodeFailure(message.bytes, &hello, &why)) {
      *status = countMisfit(failureOf(hello, why));
      return true;
    }
    if (heard != Heard::kMessage || message.type != MeetingType::kHello || !decodeHello(message.bytes, &hello)) {
      return drop("what it said is no message of this protocol");
    }
    // What was said in front of the proof is what is said now.
    if (guest.claim.rank != hello.rank || guest.claim.agreement != sha256(hello.agreement)) {
      return drop("it says that it is another than it has proved");
    }
    *status = admit(std::move(guest.stream), std::move(hello));
    return true;
  }

  bool drop(const char* why) {
    log_.dropped(why);
    return true;
  }

  // Since one has left the job cannot start.
  Status hearMembers() {
    for (Member& member : members_) {
      MeetingMessage message;
      if (member.stream.isOpen() && member.stream.hear(&message) == Heard::kClosed) {
        return {StatusCode::kPeerLost, describe(member.hello) + " left during the rendezvous"};
      }
    }
    return {};
  }

  Status countMisfit(Status reason) {
    ++misfits_;
    hasMisfit_ = true;
    return reason;
  }

  Status admit(MeetingStream stream, HostHello hello) {
    const bool isKnown = hello.rank >= 0 && hello.rank < environment_.worldSize;
    const Member* const holder = isKnown ? &members_[static_cast<size_t>(hello.rank)] : nullptr;
    const std::string misfit = admission_.misfit(hello, holder && holder->stream.isOpen() ? &holder->hello : nullptr);
    if (!misfit.empty()) {
      members_.push_back({std::move(stream), std::move(hello)});  // so that it hears the reason, too
      return countMisfit(dataError(misfit));
    }
    members_[static_cast<size_t>(hello.rank)] = {std::move(stream), std::move(hello)};
    ++present_;
    return {};
  }

  Status refuse(const Status& status) {
    for (Member& member : members_) {
      if (member.stream.isOpen()) (void)member.stream.send(MeetingType::kRefused, encodeStatus(status));
    }
    return status;
  }

  std::string missing() const {
    std::string text;
    for (size_t rank = 1; rank < static_cast<size_t>(environment_.worldSize); ++rank) {
      if (!members_[rank].stream.isOpen()) text += (text.empty() ? "" : ", ") + std::to_string(rank);
    }
    return "these ranks of " + std::to_string(environment_.worldSize) + " did not come in time to " +
           environment_.masterAddress + ":" + std::to_string(environment_.port) + ": " + text;
  }

  Result<Met> introduceAll() {
    for (Member& member : members_) met_.ranks.push_back(std::move(member.hello));
    met_.ranks[0] = own_;
    for (size_t to = 1; to < members_.size(); ++to) {
      for (size_t about = 0; about < members_.size(); ++about) {
        if (about == to) continue;
        HYCRT_RETURN_IF_ERROR(members_[to].stream.send(MeetingType::kPeer, encodeHello(met_.ranks[about], false)));
      }
      HYCRT_RETURN_IF_ERROR(members_[to].stream.send(MeetingType::kGo, met_.name));
    }
    met_.listener = doorkeeper_->takeListener();
    return std::move(met_);
  }

  const Environment& environment_;
  const NetworkOptions& options_;
  HostHello own_;
  Admission admission_;
  int64_t deadlineMs_;
  std::unique_ptr<Doorkeeper> doorkeeper_;
  std::list<Guest> guests_;
  std::vector<Member> members_;  // by rank; behind them, those to be refused
  Met met_;
  DropLog log_;
  int present_ = 0;
  int misfits_ = 0;
  bool hasMisfit_ = false;  // the error that is on its way is of one
};

// Rank 0 may start later than this one, and something else may still have its port.
Result<MeetingStream> callHub(const Environment& environment, const NetworkOptions& options,
                              const std::string& agreement, int64_t deadlineMs) {
  const HostAddress hub{environment.masterAddress, environment.port};
  std::string last = "nobody listens there";
  while (monotonicMs() < deadlineMs) {
    Result<FileDescriptor> connection = reach(hub.text, hub.port, deadlineMs);
    if (!connection.ok()) {
      last = connection.status().message();
      break;
    }
    prepareConnection(*connection, options);
    const int64_t patience = std::min(deadlineMs, monotonicMs() + kHelloMs);
    const Claim claim = claimFor(environment, kPurpose, agreement);
    Result<std::string> proved = proveOver(*connection, environment.token, claim, patience);
    if (proved.ok()) {
      MeetingStream stream(
          streamOver(std::move(*connection), SecureStream::Side::kCaller, environment, options, environment.rank));
      HYCRT_RETURN_IF_ERROR(stream.stream().shakeHands(patience));
      return stream;
    }
    last = proved.status().message();
    poll(nullptr, 0, 20);
  }
  return unavailableError("rank 0 did not answer at " + shown(hub) + " (MASTER_ADDR, MASTER_PORT): " + last +
                          hintsOfMissingHub(environment.rank, true));
}

Result<Met> join(const Environment& environment, const NetworkOptions& options, HostHello own, int64_t deadlineMs) {
  Result<MeetingStream> hub = callHub(environment, options, own.agreement, deadlineMs);
  if (!hub.ok()) return hub.status();
  Met met;
  Result<std::string> address = localAddress(options, ownAddress(hub->connection()));
  if (!address.ok()) return address.status();
  own.address.text = *address;
  Result<FileDescriptor> listener = listenOn(*address, 0, options, &own.address.port);
  if (!listener.ok()) return listener.status();
  met.listener = std::move(*listener);
  HYCRT_RETURN_IF_ERROR(hub->send(MeetingType::kHello, encodeHello(own, true)));
  met.ranks.resize(static_cast<size_t>(environment.worldSize));
  for (;;) {
    MeetingMessage message;
    const Heard heard = hub->hear(&message);
    if (heard == Heard::kNothingYet) {
      if (pollUntil(hub->connection(), POLLIN, deadlineMs + kGraceMs)) continue;
      return unavailableError("rank 0 did not gather all " + std::to_string(environment.worldSize) + " ranks in time");
    }
    if (heard != Heard::kMessage) return Status(StatusCode::kPeerLost, "rank 0 left during the rendezvous");
    if (message.type == MeetingType::kRefused) return decodeStatus(message.bytes);
    if (message.type == MeetingType::kGo) {
      met.name = message.bytes;
      break;
    }
    HostHello peer;
    if (message.type != MeetingType::kPeer || !decodeHello(message.bytes, &peer)) continue;
    if (peer.rank >= 0 && peer.rank < environment.worldSize) met.ranks[static_cast<size_t>(peer.rank)] = peer;
  }
  met.ranks[static_cast<size_t>(environment.rank)] = own;
  for (size_t rank = 0; rank < met.ranks.size(); ++rank) {
    if (met.ranks[rank].rank != static_cast<int>(rank)) {
      return internalError("rank 0 did not tell of rank " + std::to_string(rank));
    }
  }
  return met;
}

}  // namespace

Claim claimFor(const Environment& environment, const std::string& purpose, const std::string& agreement) {
  return {environment.rank, environment.worldSize, sha256(environment.job + "\n" + purpose), sha256(agreement)};
}

Result<Met> meetOverTcp(const Environment& environment, const NetworkOptions& options, HostHello own,
                        int64_t timeoutMs) {
  const int64_t deadlineMs = monotonicMs() + timeoutMs;
  if (environment.rank == 0) return Hub(environment, options, std::move(own), deadlineMs).run();
  return join(environment, options, std::move(own), deadlineMs);
}

void tellOfFailureOverTcp(const Environment& environment, const NetworkOptions& options, const std::string& program,
                          const Status& failure) {
  HostHello own;
  own.rank = environment.rank;
  own.processId = getpid();
  own.worldSize = environment.worldSize;
  own.program = program;
  own.host = machineName();
  const int64_t deadlineMs = monotonicMs() + kRefusalMs;
  if (environment.rank == 0) {
    (void)Hub(environment, options, own, deadlineMs).run(failureOf(own, failure.message()));
    return;
  }
  Result<MeetingStream> hub = callHub(environment, options, "", deadlineMs);
  if (hub.ok()) (void)hub->send(MeetingType::kFailed, encodeFailure(own, failure.message()));
}

std::string machineIdentity() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  struct stat network{};
  if (!std::getline(file, boot) || stat("/proc/self/ns/net", &network) != 0) return makeName();  // as nobody else's
  return boot + " " + std::to_string(network.st_ino);
}

std::string machineName() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "?";
}

}  // namespace hycrt
