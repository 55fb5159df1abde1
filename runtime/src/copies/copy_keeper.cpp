// A keeper: a thread for what hyc-run and strangers say, one for each rank and each other keeper that is connected.
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/limits.h"
#include "comm/shm/doorkeeper.h"
#include "comm/shm/sockets.h"
#include "comm/tcp/addresses.h"
#include "comm/tcp/meeting.h"
#include "copies/copy_lines.h"
#include "copies/copy_peer.h"
#include "hycrt/token.h"

namespace hycrt {
namespace {

constexpr int kPollMs = 200;
constexpr int64_t kSignMs = 1000;  // from one sign of life to the next while all is looked through
constexpr size_t kMostLineBytes = size_t{1} << 20;

using Kind = CopyMessage::Kind;

// Where others reach this host: where --interface says, or by the address at which hyc-run has.
Result<std::string> addressHere(const NetworkOptions& network) {
  const char* const connection = std::getenv("SSH_CONNECTION");  // client address, its port, server address, its port
  const std::string words = connection ? connection : "";
  size_t begin = 0;
  for (int word = 0; word < 2 && begin != std::string::npos; ++word) begin = words.find(' ', begin ? begin + 1 : 0);
  const std::string server = begin == std::string::npos || words.empty()
                                 ? ""
                                 : words.substr(begin + 1, words.find(' ', begin + 1) - begin - 1);
  return localAddress(network, server.empty() || isLoopback(server) ? machineName() : server);
}

class Keeper {
 public:
  explicit Keeper(KeeperTask task) : task_(std::move(task)) {}

  Result<KeeperAddress> open() {
    NetworkOptions network;
    network.plaintext = task_.plaintext;
    network.interface = task_.interface;
    if (!task_.ports.empty()) (void)parsePorts(task_.ports, &network.lowPort, &network.highPort);
    if (!task_.plaintext && !canEncrypt()) {
      return unavailableError("this runtime was built without OpenSSL; build it where libssl-dev is installed");
    }
    const Result<std::string> address = addressHere(network);
    if (!address.ok()) return address.status();
    KeeperAddress own{task_.number, "", 0, "hyc-copies-" + makeName()};
    Result<FileDescriptor> door = listenOn(*address, 0, network, &own.port);
    if (!door.ok()) return door.status();
    own.host = ownAddress(*door);
    Result<UnixListener> ranks = UnixListener::listen(own.socket);
    if (!ranks.ok()) return ranks.status();
    ranks_ = std::move(*ranks);
    doorkeeper_ =
        std::make_unique<Doorkeeper>(std::move(*door), task_.token, copyClaim(task_, task_.number), std::string());
    doorkeeper_->keepAdmitted();
    return own;
  }

  // Until the input ends.
  void run(int input, std::string pending, FILE* output) {
    for (;;) {
      while (takeLine(&pending, output)) {
      }
      std::vector<pollfd> polled{{input, POLLIN, 0}, {ranks_.socket().get(), POLLIN, 0}};
      doorkeeper_->addPolled(&polled);
      poll(polled.data(), polled.size(), kPollMs);
      doorkeeper_->serve();
      for (Doorkeeper::Admitted& admitted : doorkeeper_->takeAdmitted()) takePeer(std::move(admitted));
      takeRanks();
      if ((polled[0].revents & (POLLIN | POLLHUP | POLLERR)) == 0) continue;
      char chunk[4096];
      const ssize_t count = read(input, chunk, sizeof chunk);
      if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (count <= 0) return;
      pending.append(chunk, static_cast<size_t>(count));
      if (pending.size() > kMostLineBytes) return;
    }
  }

 private:
  bool takeLine(std::string* pending, FILE* output) {
    const size_t end = pending->find('\n');
    if (end == std::string::npos) return false;
    const std::string line = pending->substr(0, end);
    pending->erase(0, end + 1);
    const Result<nlohmann::json> said = parseJson(line, "a keeper's line");
    if (!said.ok() || !said->is_object()) return true;
    if (said->contains("list")) tellHoldings(output);
    if (said->contains("count")) tellBytes(output);
    if (said->contains("next")) {
      Result<KeeperRing> ring = parseRing(*said);
      const std::lock_guard<std::mutex> lock(ringMutex_);
      if (ring.ok()) ring_ = std::move(*ring);
    }
    return true;
  }

  void tellHoldings(FILE* output) const {
    int64_t signMs = monotonicMs();
    const std::vector<CopyHolding> holdings = store_.holdings([&] {
      if (monotonicMs() - signMs < kSignMs) return;
      signMs = monotonicMs();
      std::fputs(encodeLooking().c_str(), output);
      std::fflush(output);
    });
    for (const CopyHolding& holding : holdings) std::fputs(encodeHolding(holding).c_str(), output);
    tellBytes(output);
  }

  void tellBytes(FILE* output) const {
    std::fputs(encodeLastHolding(store_.bytes(), store_.mostBytes()).c_str(), output);
    std::fflush(output);
  }

  KeeperRing ring() const {
    const std::lock_guard<std::mutex> lock(ringMutex_);
    return ring_;
  }

  // Where no thread is to be had whoever has come is left, and comes again.
  static void inThread(std::function<void()> work) {
    std::thread thread;
    if (startThread("keeping copies", std::move(work), &thread).ok()) thread.detach();
  }

  void takePeer(Doorkeeper::Admitted admitted) {
    auto connection = std::make_shared<FileDescriptor>(std::move(admitted.connection));
    inThread([this, connection, caller = admitted.claim.rank] {
      Result<CopyPeer> peer = CopyPeer::answer(task_, std::move(*connection), caller);
      if (peer.ok()) peer->serve(store_);
    });
  }

  void takeRanks() {
    for (;;) {
      auto connection = std::make_shared<FileDescriptor>(acceptFrom(ranks_.socket()));
      if (!connection->isOpen()) return;
      if (!isTrusted(*connection)) continue;
      inThread([this, connection] { serveRank(*connection); });
    }
  }

  void serveRank(const FileDescriptor& connection) {
    std::unique_ptr<CopyPeer> next;  // of this rank
    for (;;) {
      if (!pollUntil(connection, POLLIN, monotonicMs() + task_.patienceMs)) continue;
      Message received;
      FileDescriptor passed;
      const Received what = receiveMessage(connection, &received, &passed);
      if (what == Received::kNothingYet) continue;
      CopyMessage asked;
      if (what != Received::kMessage || !decode(received.text, &asked)) return;
      std::optional<CopyFile> found;
      const CopyMessage answer = asked.kind == Kind::kPut ? put(asked, std::move(passed), &next) : get(asked, &found);
      Message sent;
      sent.type = MessageType::kCopies;
      sent.text = encode(answer);
      if (!sendMessage(connection, sent, found ? found->memory->get() : -1).ok()) return;
    }
  }

  CopyMessage put(const CopyMessage& asked, FileDescriptor memory, std::unique_ptr<CopyPeer>* next) {
    Status status = [&]() -> Status {
      Result<CopyFile> file = takeSealed(std::move(memory), asked.bytes);
      if (!file.ok()) return file.status();
      HYCRT_RETURN_IF_ERROR(store_.put(asked.key, asked.base, asked.name, *file));
      return putNext(asked, *file, next);
    }();
    return {status.ok() ? Kind::kDone : Kind::kFailed, asked.key, {}, asked.name, 0, status.message()};
  }

  // A connection that was made before may be over by now.
  Status putNext(const CopyMessage& asked, const CopyFile& file, std::unique_ptr<CopyPeer>* next) {
    if (*next && (*next)->put(asked.key, asked.base, asked.name, file).ok()) return {};
    next->reset();
    const KeeperRing ring = this->ring();
    for (const KeeperAddress& other : ring.others) {
      if (other.number != ring.next) continue;
      Result<CopyPeer> peer = CopyPeer::call(task_, other);
      if (!peer.ok()) return unavailableError("host " + other.host + " is not reached: " + peer.status().message());
      *next = std::make_unique<CopyPeer>(std::move(*peer));
      const Status kept = (*next)->put(asked.key, asked.base, asked.name, file);
      return kept.ok() ? kept : unavailableError("host " + other.host + " has not taken it: " + kept.message());
    }
    return unavailableError("there is no other host");
  }

  // From the others one after the other, so that two ranks do not have one file fetched twice.
  CopyMessage get(const CopyMessage& asked, std::optional<CopyFile>* found) {
    *found = store_.find(asked.key, asked.name);
    std::string why;
    if (!*found) {
      const std::lock_guard<std::mutex> lock(fetchMutex_);
      *found = store_.find(asked.key, asked.name);
      for (const KeeperAddress& other : ring().others) {
        if (*found) break;
        Result<CopyPeer> peer = CopyPeer::call(task_, other);
        Result<std::optional<CopyFile>> file =
            peer.ok() ? peer->get(asked.key, asked.name) : Result<std::optional<CopyFile>>(peer.status());
        if (!file.ok()) why += (why.empty() ? "" : "; ") + file.status().message();
        if (!file.ok() || !*file) continue;
        store_.keep(asked.key, asked.name, **file);
        *found = **file;
      }
    }
    return {*found ? Kind::kDone : Kind::kMissing, asked.key, {}, asked.name, *found ? (*found)->bytes : 0, why};
  }

  const KeeperTask task_;
  CopyStore store_;
  mutable std::mutex ringMutex_;
  KeeperRing ring_;
  std::mutex fetchMutex_;
  UnixListener ranks_;
  std::unique_ptr<Doorkeeper> doorkeeper_;
};

}  // namespace

Status keepCopies(int input, FILE* output) {
  // What asks the ranks for a checkpoint may be sent to all processes of a job. A keeper ends with its input.
  for (int signal : {SIGPIPE, SIGTERM, SIGUSR1, SIGUSR2}) std::signal(signal, SIG_IGN);
  std::string pending;
  size_t end = 0;
  for (char chunk[4096]; (end = pending.find('\n')) == std::string::npos;) {
    const ssize_t count = read(input, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0 || pending.size() > kMostLineBytes) return usageError("a keeper of copies is told nothing to do");
    pending.append(chunk, static_cast<size_t>(count));
  }
  Result<KeeperTask> task = parseKeeperTask(pending.substr(0, end));
  if (!task.ok()) return task.status();
  // Threads use it until the process is over.
  Keeper& keeper = *new Keeper(std::move(*task));
  const Result<KeeperAddress> own = keeper.open();
  if (!own.ok()) return own.status();
  std::fputs(encodeReady(*own).c_str(), output);
  std::fflush(output);
  keeper.run(input, pending.substr(end + 1), output);
  std::fflush(output);
  // Nothing of what is held outlives this, and nobody is waited for.
  _exit(0);
}

}  // namespace hycrt
