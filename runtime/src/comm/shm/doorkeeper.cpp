// Serving strangers on rank 0's port without waiting for any of them, and asking there.
#include "comm/shm/doorkeeper.h"

#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/limits.h"
#include "base/log_level.h"

namespace hycrt {
namespace {

constexpr char kFrameMagic[] = {'H', 'Y', 'C', 'R'};
constexpr size_t kFrameHeaderBytes = 8;
constexpr size_t kChunkBytes = kFrameHeaderBytes + kMaxFrameBytes;
constexpr int64_t kPatienceMs = 5000;
constexpr size_t kMaxStrangers = 256;
constexpr int64_t kRetryMs = 20;
constexpr int64_t kWarnings = 5;

void sleepMs(int64_t milliseconds) {
  timespec pause{milliseconds / 1000, milliseconds % 1000 * 1000000};
  nanosleep(&pause, nullptr);
}

bool sendFrame(const FileDescriptor& connection, const std::string& payload, int flags) {
  const std::string frame = encodeFrame(payload);
  return send(connection.get(), frame.data(), frame.size(), MSG_NOSIGNAL | flags) == static_cast<ssize_t>(frame.size());
}

uint32_t lengthOf(const std::string& frame) {
  uint32_t length = 0;
  for (size_t i = 8; i > 4; --i) length = length << 8 | static_cast<unsigned char>(frame[i - 1]);
  return length;
}

}  // namespace

std::string encodeFrame(const std::string& payload) {
  std::string frame(kFrameMagic, sizeof kFrameMagic);
  for (int shift = 0; shift < 32; shift += 8) frame.push_back(static_cast<char>(payload.size() >> shift & 0xFF));
  return frame + payload;
}

FrameState takeFrame(std::string* bytes, std::string* payload) {
  const size_t magicBytes = std::min(bytes->size(), sizeof kFrameMagic);
  if (std::memcmp(bytes->data(), kFrameMagic, magicBytes) != 0) return FrameState::kInvalid;
  if (bytes->size() < kFrameHeaderBytes) return FrameState::kIncomplete;
  const uint32_t length = lengthOf(*bytes);
  if (length > kMaxFrameBytes) return FrameState::kInvalid;
  if (bytes->size() < kFrameHeaderBytes + length) return FrameState::kIncomplete;
  *payload = bytes->substr(kFrameHeaderBytes, length);
  bytes->erase(0, kFrameHeaderBytes + length);
  return FrameState::kComplete;
}

DropLog::~DropLog() {
  if (count_ <= kWarnings || !logs(LogLevel::kWarning)) return;
  std::fprintf(stderr, "warning: dropped %lld more connections to the rendezvous port\n",
               static_cast<long long>(count_ - kWarnings));
}

void DropLog::dropped(const std::string& why) {
  if (++count_ <= kWarnings && logs(LogLevel::kWarning)) {
    std::fprintf(stderr, "warning: dropped a connection to the rendezvous port: %s\n", why.c_str());
  }
}

Doorkeeper::Doorkeeper(FileDescriptor listener, std::string token, const Claim& own, std::string socketName)
    : listener_(std::move(listener)), token_(std::move(token)), own_(own), socketName_(std::move(socketName)) {}

void Doorkeeper::addPolled(std::vector<pollfd>* polled) const {
  polled->push_back({listener_.get(), POLLIN, 0});
  for (const Stranger& stranger : strangers_) polled->push_back({stranger.connection.get(), POLLIN, 0});
}

void Doorkeeper::serve() {
  acceptAll();
  strangers_.remove_if([this](Stranger& stranger) { return serveOne(stranger); });
}

bool Doorkeeper::dropOldest() {
  if (strangers_.empty()) return false;
  log_.dropped("too many at once; the oldest goes first");
  strangers_.pop_front();
  return true;
}

// A quarter of the descriptors at most: ranks need some, too.
void Doorkeeper::acceptAll() {
  const size_t most = std::min<size_t>(kMaxStrangers, static_cast<size_t>(descriptorCount()) / 4);
  for (;;) {
    FileDescriptor connection = acceptFrom(listener_);
    if (!connection.isOpen()) {
      if ((errno == EMFILE || errno == ENFILE) && dropOldest()) continue;
      return;
    }
    if (strangers_.size() >= most) dropOldest();
    strangers_.push_back({std::move(connection), HubHandshake(token_, own_), {}, monotonicMs() + kPatienceMs});
  }
}

bool Doorkeeper::serveOne(Stranger& stranger) {
  char chunk[kChunkBytes];
  const size_t room = sizeof chunk - std::min(sizeof chunk, stranger.bytes.size());
  const ssize_t count = recv(stranger.connection.get(), chunk, room, MSG_DONTWAIT);
  if (count > 0) stranger.bytes.append(chunk, static_cast<size_t>(count));
  const bool closed = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
  std::string payload;
  switch (takeFrame(&stranger.bytes, &payload)) {
    case FrameState::kInvalid:
      log_.dropped("what it sent is no frame of this protocol");
      return true;
    case FrameState::kIncomplete:
      if (closed) return true;
      if (monotonicMs() < stranger.deadlineMs) return false;
      log_.dropped("it did not send a whole frame within " + std::to_string(kPatienceMs / 1000) + " s");
      return true;
    case FrameState::kComplete:
      return answer(stranger, payload);
  }
  return true;
}

// What is sent is small enough for any socket buffer: a rank that does not get it asks again.
bool Doorkeeper::answer(Stranger& stranger, const std::string& payload) {
  Result<std::string> reply =
      stranger.hasOpened ? stranger.handshake.accept(payload, socketName_) : stranger.handshake.challenge(payload);
  if (!reply.ok()) {
    log_.dropped(reply.status().message());
    return true;
  }
  const bool sent = sendFrame(stranger.connection, *reply, MSG_DONTWAIT);
  if (!sent) return true;
  if (!stranger.hasOpened) {
    stranger.hasOpened = true;
    return false;
  }
  if (keeps_ && stranger.bytes.empty()) {
    admitted_.push_back({std::move(stranger.connection), stranger.handshake.caller()});
  }
  return true;
}

namespace {

// One frame and nothing of what follows; empty where the other side closes, sends something else or takes too long.
std::string receiveFrame(const FileDescriptor& connection, int64_t deadlineMs) {
  std::string bytes, payload;
  for (;;) {
    const size_t wanted = bytes.size() < kFrameHeaderBytes ? kFrameHeaderBytes : kFrameHeaderBytes + lengthOf(bytes);
    if (bytes.size() == wanted || bytes.size() < kFrameHeaderBytes) {
      const FrameState state = takeFrame(&bytes, &payload);
      if (state != FrameState::kIncomplete) return state == FrameState::kComplete ? payload : "";
    }
    if (wanted > kChunkBytes || !pollUntil(connection, POLLIN, deadlineMs)) return "";
    char chunk[kChunkBytes];
    const size_t missing = bytes.size() < kFrameHeaderBytes ? kFrameHeaderBytes - bytes.size() : wanted - bytes.size();
    const ssize_t count = recv(connection.get(), chunk, missing, MSG_DONTWAIT);
    if (count <= 0) return "";
    bytes.append(chunk, static_cast<size_t>(count));
  }
}

// One attempt. An error says what came of it.
Result<std::string> askOnce(int port, const std::string& token, const Claim& own, int64_t deadlineMs) {
  Result<FileDescriptor> connection = connectLoopback(port);
  if (!connection.ok()) return connection.status();
  return proveOver(*connection, token, own, deadlineMs);
}

}  // namespace

Result<std::string> proveOver(const FileDescriptor& connection, const std::string& token, const Claim& own,
                              int64_t deadlineMs) {
  CallerHandshake handshake(token, own);
  if (!pollUntil(connection, POLLOUT, deadlineMs) || !sendFrame(connection, handshake.opening(), 0)) {
    return unavailableError("nobody listens there");
  }
  const std::string claim = receiveFrame(connection, deadlineMs);
  if (claim.empty()) return unavailableError("who listens there does not answer as one of this job would");
  Result<std::string> proof = handshake.prove(claim);
  if (!proof.ok()) return proof.status();
  if (!sendFrame(connection, *proof, 0)) return unavailableError("who listens there has hung up");
  const std::string answer = receiveFrame(connection, deadlineMs);
  if (answer.empty()) return unavailableError("who listens there does not take this rank's token");
  Result<std::string> said = handshake.accept(answer);
  if (!said.ok()) return unavailableError("who listens there does not know this job's token");
  return said;
}

std::string hintsOfMissingHub(int rank, bool hasToken) {
  return std::string("; is it running") +
         (hasToken ? std::string(", and does it have the same ") + kTokenVariable + "? Or" : ", or") +
         " has it begun with another rank " + std::to_string(rank) + ", left from an earlier start?";
}

Result<std::string> askDoorkeeper(int port, const std::string& token, const Claim& own, int64_t deadlineMs) {
  std::string last = "nobody listens there";
  while (monotonicMs() < deadlineMs) {
    Result<std::string> name = askOnce(port, token, own, std::min(deadlineMs, monotonicMs() + kPatienceMs));
    if (name.ok()) return name;
    last = name.status().message();
    sleepMs(kRetryMs);
  }
  return unavailableError("rank 0 did not answer at 127.0.0.1:" + std::to_string(port) + " (MASTER_PORT): " + last +
                          hintsOfMissingHub(own.rank, true));
}

}  // namespace hycrt
