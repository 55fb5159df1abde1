// Both sides of the meeting: the hub in rank 0, and everybody else's hello.
#include "comm/shm/rendezvous.h"

#include <poll.h>
#include <sys/random.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <list>
#include <memory>

#include "comm/shm/doorkeeper.h"
#include "comm/shm/sockets.h"

namespace hycrt {
namespace {

constexpr int kPollMs = 200;
constexpr int64_t kHelloMs = 5000;  // how long a connection to the Unix socket may stay silent
constexpr int64_t kGraceMs = 5000;  // a rank waits this much longer than rank 0, which knows better what is wrong

std::string hexadecimal(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

std::string describe(const PeerHello& hello) {
  return "rank " + std::to_string(hello.rank) + " (process " + std::to_string(hello.processId) + ", program '" +
         hello.program + "', plan " + hexadecimal(hello.planHash) + ")";
}

Message messageOf(MessageType type, const PeerHello& hello, const std::string& token) {
  Message message;
  message.type = type;
  message.rank = hello.rank;
  message.worldSize = hello.worldSize;
  message.processId = hello.processId;
  message.planHash = hello.planHash;
  message.blockBytes = hello.blockBytes;
  std::copy(token.begin(), token.end(), message.token);  // at most kMaxTokenBytes: checked with the environment
  setText(&message, hello.program);
  return message;
}

PeerHello helloOf(const Message& message, FileDescriptor memfd) {
  PeerHello hello;
  hello.rank = message.rank;
  hello.processId = message.processId;
  hello.worldSize = message.worldSize;
  hello.planHash = message.planHash;
  hello.program = message.text;
  hello.blockBytes = message.blockBytes;
  hello.memfd = std::move(memfd);
  return hello;
}

std::string randomName() {
  uint64_t words[2] = {};
  const ssize_t count = getrandom(words, sizeof words, 0);
  (void)count;  // up to 256 bytes are always delivered whole
  return "hyc-" + hexadecimal(words[0]) + hexadecimal(words[1]);
}

class Hub {
 public:
  Hub(const Environment& environment, const PeerHello& own, int64_t deadlineMs)
      : environment_(environment), own_(own), deadlineMs_(deadlineMs), members_(environment.worldSize) {}

  Result<std::vector<PeerHello>> run() {
    HYCRT_RETURN_IF_ERROR(listen());
    while (present_ + 1 < environment_.worldSize) {
      if (monotonicMs() > deadlineMs_) return refuse(unavailableError(missing()));
      pollAll();
      if (doorkeeper_) doorkeeper_->serve();
      acceptAll();
      if (Status status = hearAll(); !status.ok()) return refuse(status);
    }
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
  };

  Status listen() {
    const std::string name = environment_.socketName.empty() ? randomName() : environment_.socketName;
    Result<FileDescriptor> listener = listenUnix(name);
    if (!listener.ok()) return listener.status();
    listener_ = std::move(*listener);
    if (!environment_.socketName.empty()) return {};
    Result<FileDescriptor> door = listenLoopback(environment_.port);
    if (!door.ok()) return door.status();
    doorkeeper_ = std::make_unique<Doorkeeper>(std::move(*door), environment_.token, name);
    return {};
  }

  void pollAll() {
    std::vector<pollfd> polled{{listener_.get(), POLLIN, 0}};
    for (const Guest& guest : guests_) polled.push_back({guest.connection.get(), POLLIN, 0});
    for (const Member& member : members_) {
      if (member.connection.isOpen()) polled.push_back({member.connection.get(), POLLIN, 0});
    }
    if (doorkeeper_) doorkeeper_->addPolled(&polled);
    poll(polled.data(), polled.size(), kPollMs);
  }

  void acceptAll() {
    for (;;) {
      FileDescriptor connection = acceptFrom(listener_);
      if (!connection.isOpen()) return;
      if (isTrusted(connection)) guests_.push_back({std::move(connection), monotonicMs() + kHelloMs});
    }
  }

  // Hellos of guests; and members that left, since then the job cannot start.
  Status hearAll() {
    for (auto guest = guests_.begin(); guest != guests_.end();) {
      Message message;
      FileDescriptor memfd;
      const Received received = receiveMessage(guest->connection, &message, &memfd);
      const bool hello = received == Received::kMessage && message.type == MessageType::kHello && memfd.isOpen() &&
                         message.token == environment_.token;
      if (received == Received::kNothingYet && monotonicMs() < guest->deadlineMs) {
        ++guest;
        continue;
      }
      FileDescriptor connection = std::move(guest->connection);
      guest = guests_.erase(guest);
      if (!hello) continue;
      if (Status status = admit(std::move(connection), helloOf(message, std::move(memfd))); !status.ok()) return status;
    }
    for (const Member& member : members_) {
      Message message;
      FileDescriptor passed;
      if (member.connection.isOpen() && receiveMessage(member.connection, &message, &passed) == Received::kClosed) {
        return {StatusCode::kPeerLost, describe(member.hello) + " left during the rendezvous"};
      }
    }
    return {};
  }

  Status admit(FileDescriptor connection, PeerHello hello) {
    const auto refuseOne = [&](std::string reason) {
      members_.push_back({std::move(connection), std::move(hello)});  // so that it hears the reason, too
      return dataError(std::move(reason));
    };
    if (hello.planHash != own_.planHash) {
      return refuseOne(describe(hello) + " and " + describe(own_) +
                       " run programs of different plans; start every rank from one compiled folder");
    }
    if (hello.worldSize != environment_.worldSize || hello.rank < 0 || hello.rank >= environment_.worldSize) {
      return refuseOne(describe(hello) + " of " + std::to_string(hello.worldSize) + " does not belong to a job of " +
                       std::to_string(environment_.worldSize) + " ranks, as " + describe(own_) + " does");
    }
    Member& place = members_[static_cast<size_t>(hello.rank)];
    if (hello.rank == 0 || place.connection.isOpen()) {
      return refuseOne(describe(hello) + " has the rank of " + describe(hello.rank == 0 ? own_ : place.hello) +
                       "; each rank may be started once");
    }
    place = {std::move(connection), std::move(hello)};
    ++present_;
    return {};
  }

  // Tells everyone who is there, then fails with the same.
  Status refuse(const Status& status) {
    Message message;
    message.type = MessageType::kRefused;
    message.code = status.exitCode();
    setText(&message, status.message());
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
      HYCRT_RETURN_IF_ERROR(
          sendMessage(to.connection, messageOf(MessageType::kPeer, own_, environment_.token), own_.memfd.get()));
      for (const Member& about : members_) {
        if (!about.connection.isOpen() || &about == &to) continue;
        const Message message = messageOf(MessageType::kPeer, about.hello, environment_.token);
        HYCRT_RETURN_IF_ERROR(sendMessage(to.connection, message, about.hello.memfd.get()));
      }
      HYCRT_RETURN_IF_ERROR(sendMessage(to.connection, messageOf(MessageType::kGo, own_, environment_.token), -1));
    }
    std::vector<PeerHello> peers;
    for (Member& member : members_) peers.push_back(std::move(member.hello));
    return peers;
  }

  const Environment& environment_;
  const PeerHello& own_;
  const int64_t deadlineMs_;
  FileDescriptor listener_;
  std::unique_ptr<Doorkeeper> doorkeeper_;
  std::list<Guest> guests_;
  std::vector<Member> members_;  // by rank; behind them, those to be refused
  int present_ = 0;
};

// Rank 0 may start later than this one: refused connections are tried again.
Result<FileDescriptor> reachHub(const Environment& environment, int64_t deadlineMs) {
  std::string name = environment.socketName;
  if (name.empty()) {
    Result<std::string> answer = askDoorkeeper(environment.port, environment.token, deadlineMs);
    if (!answer.ok()) return answer.status();
    name = *answer;
  }
  for (;;) {
    Result<FileDescriptor> connection = connectUnix(name);
    if (connection.ok() || monotonicMs() > deadlineMs) return connection;
    const timespec pause{0, 10 * 1000000};
    nanosleep(&pause, nullptr);
  }
}

Result<std::vector<PeerHello>> join(const Environment& environment, const PeerHello& own, int64_t deadlineMs) {
  Result<FileDescriptor> hub = reachHub(environment, deadlineMs);
  if (!hub.ok()) return unavailableError(hub.status().message());
  HYCRT_RETURN_IF_ERROR(sendMessage(*hub, messageOf(MessageType::kHello, own, environment.token), own.memfd.get()));
  std::vector<PeerHello> peers(static_cast<size_t>(environment.worldSize));
  while (pollUntil(*hub, POLLIN, deadlineMs + kGraceMs)) {
    Message message;
    FileDescriptor memfd;
    const Received received = receiveMessage(*hub, &message, &memfd);
    if (received == Received::kNothingYet) continue;
    if (received != Received::kMessage) return Status(StatusCode::kPeerLost, "rank 0 left during the rendezvous");
    if (message.type == MessageType::kGo) return peers;
    if (message.type == MessageType::kRefused) {
      return Status(static_cast<StatusCode>(message.code), std::string("refused by rank 0: ") + message.text);
    }
    if (message.rank < 0 || message.rank >= environment.worldSize || !memfd.isOpen()) continue;
    const size_t rank = static_cast<size_t>(message.rank);
    peers[rank] = helloOf(message, std::move(memfd));
  }
  return unavailableError("rank 0 did not gather all " + std::to_string(environment.worldSize) + " ranks in time");
}

}  // namespace

Result<std::vector<PeerHello>> rendezvous(const Environment& environment, const PeerHello& own, int64_t timeoutMs) {
  if (environment.worldSize == 1) return std::vector<PeerHello>(1);
  const int64_t deadlineMs = monotonicMs() + timeoutMs;
  if (environment.rank == 0) return Hub(environment, own, deadlineMs).run();
  return join(environment, own, deadlineMs);
}

}  // namespace hycrt
