// Both sides of the meeting: the hub in rank 0, and everybody else's hello.
#include "comm/shm/rendezvous.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <memory>

#include "base/limits.h"
#include "comm/shm/doorkeeper.h"
#include "comm/shm/handshake.h"
#include "comm/shm/sockets.h"
#include "hycrt/token.h"

namespace hycrt {
namespace {

constexpr int kPollMs = 200;
constexpr int64_t kHelloMs = 5000;    // how long a connection to the Unix socket may stay silent
constexpr int64_t kRefusalMs = 5000;  // how long others may take to come where the job is refused
constexpr size_t kMaxRefusalBytes = size_t{16} << 10;
constexpr int64_t kGraceMs = 5000;  // a rank waits this much longer than rank 0, which knows better what is wrong

// To ranks, which need no agreement of others, without it.
Message messageOf(MessageType type, const PeerHello& hello) {
  Message message;
  message.type = type;
  message.rank = hello.rank;
  message.worldSize = hello.worldSize;
  message.processId = hello.processId;
  message.planHash = hello.planHash;
  message.blockBytes = hello.blockBytes;
  message.text = hello.program;
  if (type == MessageType::kHello) message.agreement = hello.agreement;
  return message;
}

PeerHello helloOf(const Message& message, FileDescriptor memfd) {
  PeerHello hello;
  hello.rank = message.rank;
  hello.processId = message.processId;
  hello.worldSize = message.worldSize;
  hello.planHash = message.planHash;
  hello.program = message.text;
  hello.agreement = message.agreement;
  hello.blockBytes = message.blockBytes;
  hello.memfd = std::move(memfd);
  return hello;
}

Message handshakeMessage(MessageType type, const std::string& bytes) {
  Message message;
  message.type = type;
  message.text = bytes;
  return message;
}

Message refusalMessage(const Status& status) {
  Message message;
  message.type = MessageType::kRefused;
  message.code = status.exitCode();
  message.text = status.message().substr(0, kMaxRefusalBytes);
  return message;
}

// To those that did not fail.
Status failureOf(const PeerHello& hello, const std::string& why) {
  return {StatusCode::kPeerLost, describe(hello) + " failed before the ranks had met: " + why};
}

// What another process says is a code only where it is one of an error.
Status refusalOf(const Message& message) {
  StatusCode code = StatusCode::kUnavailable;
  for (StatusCode known : {StatusCode::kUsage, StatusCode::kData, StatusCode::kUnavailable, StatusCode::kInternal,
                           StatusCode::kIo, StatusCode::kPeerLost}) {
    if (message.code == static_cast<int32_t>(known)) code = known;
  }
  return {code, "refused by rank 0: " + message.text};
}

Claim claimOf(const Environment& environment, const PeerHello& own) {
  Claim claim;
  claim.rank = own.rank;
  claim.worldSize = own.worldSize;
  if (environment.token.empty()) return claim;
  claim.job = sha256(environment.job);
  claim.agreement = sha256(own.agreement);
  return claim;
}

class Hub {
 public:
  Hub(const Environment& environment, const PeerHello& own, int64_t deadlineMs)
      : environment_(environment),
        own_(own),
        claim_(claimOf(environment, own)),
        admission_(own),
        deadlineMs_(deadlineMs),
        members_(environment.worldSize) {}

  // `refusal`: of a rank 0 that has failed.
  Result<std::vector<PeerHello>> run(Status refusal = {}) {
    HYCRT_RETURN_IF_ERROR(listen());
    // Where ranks do not fit together, the others are still waited for a while, so that they hear why.
    while (present_ + misfits_ + 1 < environment_.worldSize) {
      if (monotonicMs() > deadlineMs_) return refuse(refusal.ok() ? unavailableError(missing()) : refusal);
      pollAll();
      if (doorkeeper_) doorkeeper_->serve();
      Status status = acceptAll();
      if (status.ok()) status = hearAll();
      if (status.ok()) continue;
      if (!hasMisfit_) return refuse(refusal.ok() ? status : refusal);
      hasMisfit_ = false;
      if (refusal.ok()) deadlineMs_ = std::min(deadlineMs_, monotonicMs() + kRefusalMs);
      if (refusal.ok()) refusal = status;
    }
    if (!refusal.ok()) return refuse(refusal);
    return introduceAll();
  }

 private:
  struct Member {
    FileDescriptor connection;
    PeerHello hello;
  };
  struct Guest {  // connected, and has not said who it is
    FileDescriptor connection;
    int64_t deadlineMs;
    HubHandshake handshake;
    MessageType expected;
  };

  Status listen() {
    const std::string name = environment_.socketName.empty() ? "hyc-" + makeName() : environment_.socketName;
    Result<UnixListener> listener = UnixListener::listen(name);
    if (!listener.ok()) return listener.status();
    listener_ = std::move(*listener);
    if (!environment_.socketName.empty()) return {};
    if (environment_.token.empty()) return internalError("ranks without a token do not meet over TCP");
    Result<FileDescriptor> door = listenLoopback(environment_.port);
    if (!door.ok()) return door.status();
    doorkeeper_ = std::make_unique<Doorkeeper>(std::move(*door), environment_.token, claim_, name);
    return {};
  }

  void pollAll() {
    std::vector<pollfd> polled{{listener_.socket().get(), POLLIN, 0}};
    for (const Guest& guest : guests_) polled.push_back({guest.connection.get(), POLLIN, 0});
    for (const Member& member : members_) {
      if (member.connection.isOpen()) polled.push_back({member.connection.get(), POLLIN, 0});
    }
    if (doorkeeper_) doorkeeper_->addPolled(&polled);
    poll(polled.data(), polled.size(), kPollMs);
  }

  Status acceptAll() {
    for (;;) {
      FileDescriptor connection = acceptFrom(listener_.socket());
      if (!connection.isOpen()) {
        if (errno != EMFILE && errno != ENFILE) return {};
        if (doorkeeper_ && doorkeeper_->dropOldest()) continue;
        return errnoError("rank 0 cannot take a rank's connection", errno);
      }
      if (!isTrusted(connection)) continue;
      const MessageType first = environment_.token.empty() ? MessageType::kHello : MessageType::kOpening;
      guests_.push_back(
          {std::move(connection), monotonicMs() + kHelloMs, HubHandshake(environment_.token, claim_), first});
    }
  }

  // Guests; and members that left, since then the job cannot start.
  Status hearAll() {
    for (auto guest = guests_.begin(); guest != guests_.end();) {
      PeerHello hello;
      const Heard heard = hear(*guest, &hello);
      if (heard == Heard::kNoRoom) {
        return unavailableError("rank 0 cannot take the memory of rank " + std::to_string(hello.rank) +
                                descriptorLimit());
      }
      FileDescriptor connection;
      if (heard != Heard::kNothingYet) {
        connection = std::move(guest->connection);
        guest = guests_.erase(guest);
      } else {
        ++guest;
      }
      if (heard == Heard::kHello) HYCRT_RETURN_IF_ERROR(admit(std::move(connection), std::move(hello)));
      if (heard == Heard::kFailed) return countMisfit(failureOf(hello, hello.agreement));
    }
    for (const Member& member : members_) {
      Message message;
      if (member.connection.isOpen() && receiveMessage(member.connection, &message, nullptr) == Received::kClosed) {
        return {StatusCode::kPeerLost, describe(member.hello) + " left during the rendezvous"};
      }
    }
    return {};
  }

  // No descriptor is taken from whoever has not proved to know the token.
  enum class Heard { kNothingYet, kHello, kFailed, kNoRoom, kNothing };
  Heard hear(Guest& guest, PeerHello* hello) {
    const bool takes = guest.expected == MessageType::kHello;
    Message message;
    FileDescriptor memfd;
    const Received received = receiveMessage(guest.connection, &message, takes ? &memfd : nullptr);
    if (received == Received::kNothingYet) {
      return monotonicMs() < guest.deadlineMs ? Heard::kNothingYet : Heard::kNothing;
    }
    if (received != Received::kMessage) return Heard::kNothing;
    if (takes && message.type == MessageType::kFailed) {
      *hello = helloOf(message, {});
      return Heard::kFailed;
    }
    if (message.type != guest.expected) {
      tellAboutTokens(guest, message.type);
      return Heard::kNothing;
    }
    if (takes) {
      *hello = helloOf(message, std::move(memfd));
      if (!isAsProved(guest, *hello)) return Heard::kNothing;
      return hello->memfd.isOpen() ? Heard::kHello : message.lostDescriptor ? Heard::kNoRoom : Heard::kNothing;
    }
    const bool opens = message.type == MessageType::kOpening;
    Result<std::string> reply =
        opens ? guest.handshake.challenge(message.text) : guest.handshake.accept(message.text, "");
    const Message answer = reply.ok() ? handshakeMessage(opens ? MessageType::kClaim : MessageType::kProof, *reply)
                                      : refusalMessage(reply.status());
    if (!sendMessage(guest.connection, answer, -1).ok() || !reply.ok()) return Heard::kNothing;
    guest.expected = opens ? MessageType::kProof : MessageType::kHello;
    return Heard::kNothingYet;
  }

  void tellAboutTokens(const Guest& guest, MessageType found) {
    const char* const why = found == MessageType::kOpening ? "this rank has a token, and rank 0 has none"
                            : found == MessageType::kHello ? "rank 0 has a token, and this rank has none"
                                                           : nullptr;
    if (!why) return;
    (void)sendMessage(guest.connection,
                      refusalMessage(usageError(std::string(why) + "; give all ranks the same " + kTokenVariable)), -1);
  }

  // With a token, what was said in front of the proof is what is said now.
  bool isAsProved(const Guest& guest, const PeerHello& hello) const {
    if (environment_.token.empty()) return true;
    const Claim& claimed = guest.handshake.caller();
    return claimed.rank == hello.rank && claimed.worldSize == hello.worldSize &&
           claimed.agreement == sha256(hello.agreement);
  }

  // One that ends the job, once the others have heard of it.
  Status countMisfit(Status reason) {
    ++misfits_;
    hasMisfit_ = true;
    return reason;
  }

  Status admit(FileDescriptor connection, PeerHello hello) {
    const auto refuseOne = [&](std::string reason) {
      members_.push_back({std::move(connection), std::move(hello)});  // so that it hears the reason, too
      return countMisfit(dataError(std::move(reason)));
    };
    const bool isKnown = hello.rank >= 0 && hello.rank < environment_.worldSize;
    const Member* const holder = isKnown ? &members_[static_cast<size_t>(hello.rank)] : nullptr;
    const std::string misfit =
        admission_.misfit(hello, holder && holder->connection.isOpen() ? &holder->hello : nullptr);
    if (!misfit.empty()) return refuseOne(misfit);
    Member& place = members_[static_cast<size_t>(hello.rank)];
    place = {std::move(connection), std::move(hello)};
    ++present_;
    return {};
  }

  // Tells everyone who is there, then fails with the same.
  Status refuse(const Status& status) {
    const Message message = refusalMessage(status);
    for (const Member& member : members_) {
      if (member.connection.isOpen()) (void)sendMessage(member.connection, message, -1);
    }
    return status;
  }

  std::string missing() const {
    std::string text;
    for (size_t rank = 1; rank < members_.size(); ++rank) {
      if (!members_[rank].connection.isOpen()) text += (text.empty() ? "" : ", ") + std::to_string(rank);
    }
    return "these ranks of " + std::to_string(environment_.worldSize) + " did not come in time: " + text;
  }

  Result<std::vector<PeerHello>> introduceAll() {
    for (const Member& to : members_) {
      if (!to.connection.isOpen()) continue;
      HYCRT_RETURN_IF_ERROR(sendMessage(to.connection, messageOf(MessageType::kPeer, own_), own_.memfd.get()));
      for (const Member& about : members_) {
        if (!about.connection.isOpen() || &about == &to) continue;
        const Message message = messageOf(MessageType::kPeer, about.hello);
        HYCRT_RETURN_IF_ERROR(sendMessage(to.connection, message, about.hello.memfd.get()));
      }
      HYCRT_RETURN_IF_ERROR(sendMessage(to.connection, messageOf(MessageType::kGo, own_), -1));
    }
    std::vector<PeerHello> peers;
    for (Member& member : members_) peers.push_back(std::move(member.hello));
    return peers;
  }

  const Environment& environment_;
  const PeerHello& own_;
  const Claim claim_;
  Admission admission_;
  int64_t deadlineMs_;
  UnixListener listener_;
  std::unique_ptr<Doorkeeper> doorkeeper_;
  std::list<Guest> guests_;
  std::vector<Member> members_;  // by rank; behind them, those to be refused
  int present_ = 0;
  int misfits_ = 0;
  bool hasMisfit_ = false;  // the error that is on its way is of one
};

// Rank 0 may start later than this one: refused connections are tried again.
Result<FileDescriptor> reachHub(const Environment& environment, const PeerHello& own, int64_t deadlineMs) {
  std::string name = environment.socketName;
  if (name.empty()) {
    if (environment.token.empty()) return internalError("ranks without a token do not meet over TCP");
    Result<std::string> answer =
        askDoorkeeper(environment.port, environment.token, claimOf(environment, own), deadlineMs);
    if (!answer.ok()) return answer.status();
    name = *answer;
  }
  for (;;) {
    Result<FileDescriptor> connection = connectUnix(name);
    if (connection.ok()) return connection;
    if (connection.status().code() == StatusCode::kUnavailable) return connection.status();
    if (monotonicMs() > deadlineMs) {
      return unavailableError(connection.status().message() +
                              hintsOfMissingHub(environment.rank, !environment.token.empty()));
    }
    const timespec pause{0, 10 * 1000000};
    nanosleep(&pause, nullptr);
  }
}

// What rank 0 says next, if it is of this type.
Result<Message> hear(const FileDescriptor& hub, MessageType expected, int64_t deadlineMs) {
  while (pollUntil(hub, POLLIN, deadlineMs)) {
    Message message;
    const Received received = receiveMessage(hub, &message, nullptr);
    if (received == Received::kNothingYet) continue;
    if (received != Received::kMessage) return Status(StatusCode::kPeerLost, "rank 0 left during the rendezvous");
    if (message.type == MessageType::kRefused) return refusalOf(message);
    if (message.type == expected) return message;
    break;
  }
  return unavailableError("rank 0 does not answer as it should; does it have the same " + std::string(kTokenVariable) +
                          "?");
}

// Nothing is said, and no memory handed over, before rank 0 has proved to know the token.
Status proveToHub(const Environment& environment, const PeerHello& own, const FileDescriptor& hub, int64_t deadlineMs) {
  CallerHandshake handshake(environment.token, claimOf(environment, own));
  HYCRT_RETURN_IF_ERROR(sendMessage(hub, handshakeMessage(MessageType::kOpening, handshake.opening()), -1));
  Result<Message> claim = hear(hub, MessageType::kClaim, deadlineMs);
  if (!claim.ok()) return claim.status();
  Result<std::string> proof = handshake.prove(claim->text);
  if (!proof.ok()) return proof.status();
  HYCRT_RETURN_IF_ERROR(sendMessage(hub, handshakeMessage(MessageType::kProof, *proof), -1));
  Result<Message> answer = hear(hub, MessageType::kProof, deadlineMs);
  if (!answer.ok()) return answer.status();
  if (handshake.accept(answer->text).ok()) return {};
  return unavailableError("what answers as rank 0 does not know this job's token; is it another job's?");
}

Result<std::vector<PeerHello>> join(const Environment& environment, const PeerHello& own, int64_t deadlineMs) {
  Result<FileDescriptor> hub = reachHub(environment, own, deadlineMs);
  if (!hub.ok()) return hub.status();
  if (!environment.token.empty()) HYCRT_RETURN_IF_ERROR(proveToHub(environment, own, *hub, deadlineMs));
  HYCRT_RETURN_IF_ERROR(sendMessage(*hub, messageOf(MessageType::kHello, own), own.memfd.get()));
  std::vector<PeerHello> peers(static_cast<size_t>(environment.worldSize));
  while (pollUntil(*hub, POLLIN, deadlineMs + kGraceMs)) {
    Message message;
    FileDescriptor memfd;
    const Received received = receiveMessage(*hub, &message, &memfd);
    if (received == Received::kNothingYet) continue;
    if (received != Received::kMessage) return Status(StatusCode::kPeerLost, "rank 0 left during the rendezvous");
    if (message.type == MessageType::kGo) return peers;
    if (message.type == MessageType::kRefused) return refusalOf(message);
    if (message.rank < 0 || message.rank >= environment.worldSize) continue;
    if (!memfd.isOpen()) {
      return unavailableError("cannot take the memory of rank " + std::to_string(message.rank) + descriptorLimit());
    }
    const size_t rank = static_cast<size_t>(message.rank);
    peers[rank] = helloOf(message, std::move(memfd));
  }
  return unavailableError("rank 0 did not gather all " + std::to_string(environment.worldSize) + " ranks in time");
}

// In place of joining.
void tellHubOfFailure(const Environment& environment, const PeerHello& own, const Status& failure, int64_t deadlineMs) {
  const Result<FileDescriptor> hub = reachHub(environment, own, deadlineMs);
  if (!hub.ok()) return;
  if (!environment.token.empty() && !proveToHub(environment, own, *hub, deadlineMs).ok()) return;
  Message message = messageOf(MessageType::kFailed, own);
  message.agreement = failure.message().substr(0, kMaxRefusalBytes);
  (void)sendMessage(*hub, message, -1);
}

}  // namespace

void tellOfFailure(const Environment& environment, const std::string& program, const Status& failure) {
  if (environment.worldSize == 1) return;
  PeerHello own;
  own.rank = environment.rank;
  own.processId = getpid();
  own.worldSize = environment.worldSize;
  own.program = program;
  const int64_t deadlineMs = monotonicMs() + kRefusalMs;
  if (environment.rank != 0) return tellHubOfFailure(environment, own, failure, deadlineMs);
  (void)Hub(environment, own, deadlineMs).run(failureOf(own, failure.message()));
}

Result<std::vector<PeerHello>> rendezvous(const Environment& environment, const PeerHello& own, int64_t timeoutMs) {
  if (environment.worldSize == 1) return std::vector<PeerHello>(1);
  const int64_t deadlineMs = monotonicMs() + timeoutMs;
  if (environment.rank == 0) return Hub(environment, own, deadlineMs).run();
  return join(environment, own, deadlineMs);
}

}  // namespace hycrt
