// Serving strangers on rank 0's port without waiting for any of them.
#include "comm/shm/doorkeeper.h"

#include <sys/socket.h>
#include <time.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace hycrt {
namespace {

constexpr char kFrameMagic[] = {'H', 'Y', 'C', 'R'};
constexpr size_t kFrameHeaderBytes = 8;
constexpr int64_t kPatienceMs = 5000;
constexpr size_t kMaxStrangers = 256;
constexpr int64_t kRetryMs = 20;

void warnDropped(const std::string& why) {
  std::fprintf(stderr, "warning: dropped a connection to the rendezvous port: %s\n", why.c_str());
}

// Where two words differ must not show in the time that comparing them takes.
bool equalInConstantTime(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return difference == 0;
}

void sleepMs(int64_t milliseconds) {
  timespec pause{milliseconds / 1000, milliseconds % 1000 * 1000000};
  nanosleep(&pause, nullptr);
}

}  // namespace

std::string encodeFrame(const std::string& payload) {
  std::string frame(kFrameMagic, sizeof kFrameMagic);
  for (int shift = 0; shift < 32; shift += 8) frame.push_back(static_cast<char>(payload.size() >> shift & 0xFF));
  return frame + payload;
}

FrameState decodeFrame(const std::string& bytes, std::string* payload) {
  const size_t magicBytes = std::min(bytes.size(), sizeof kFrameMagic);
  if (std::memcmp(bytes.data(), kFrameMagic, magicBytes) != 0) return FrameState::kInvalid;
  if (bytes.size() < kFrameHeaderBytes) return FrameState::kIncomplete;
  uint32_t length = 0;
  for (int i = 3; i >= 0; --i) length = length << 8 | static_cast<unsigned char>(bytes[4 + i]);
  if (length > kMaxTokenBytes) return FrameState::kInvalid;
  if (bytes.size() < kFrameHeaderBytes + length) return FrameState::kIncomplete;
  *payload = bytes.substr(kFrameHeaderBytes, length);
  return FrameState::kComplete;
}

Doorkeeper::Doorkeeper(FileDescriptor listener, std::string token, std::string socketName)
    : listener_(std::move(listener)), token_(std::move(token)), socketName_(std::move(socketName)) {}

void Doorkeeper::addPolled(std::vector<pollfd>* polled) const {
  polled->push_back({listener_.get(), POLLIN, 0});
  for (const Stranger& stranger : strangers_) polled->push_back({stranger.connection.get(), POLLIN, 0});
}

void Doorkeeper::serve() {
  acceptAll();
  strangers_.remove_if([this](Stranger& stranger) { return serveOne(stranger); });
}

void Doorkeeper::acceptAll() {
  for (;;) {
    FileDescriptor connection = acceptFrom(listener_);
    if (!connection.isOpen()) return;
    if (strangers_.size() >= kMaxStrangers) {
      warnDropped("too many at once; the oldest goes first");
      strangers_.pop_front();
    }
    strangers_.push_back({std::move(connection), {}, monotonicMs() + kPatienceMs});
  }
}

bool Doorkeeper::serveOne(Stranger& stranger) {
  char chunk[kFrameHeaderBytes + kMaxTokenBytes];
  const size_t room = sizeof chunk - stranger.bytes.size();
  const ssize_t count = recv(stranger.connection.get(), chunk, room, MSG_DONTWAIT);
  if (count > 0) stranger.bytes.append(chunk, static_cast<size_t>(count));
  const bool closed = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
  std::string payload;
  switch (decodeFrame(stranger.bytes, &payload)) {
    case FrameState::kInvalid:
      warnDropped("what it sent is no frame of this protocol");
      return true;
    case FrameState::kIncomplete:
      if (closed) return true;
      if (monotonicMs() < stranger.deadlineMs) return false;
      warnDropped("it did not send a whole frame within " + std::to_string(kPatienceMs / 1000) + " s");
      return true;
    case FrameState::kComplete:
      break;
  }
  if (!equalInConstantTime(payload, token_)) {
    warnDropped("its token is not this job's");
    return true;
  }
  const std::string answer = encodeFrame(socketName_);
  // Small enough for any socket buffer: a rank that does not get it asks again.
  send(stranger.connection.get(), answer.data(), answer.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return true;
}

Result<std::string> askDoorkeeper(int port, const std::string& token, int64_t deadlineMs) {
  const std::string question = encodeFrame(token);
  while (monotonicMs() < deadlineMs) {
    Result<FileDescriptor> connection = connectLoopback(port);
    const int64_t patience = std::min(deadlineMs, monotonicMs() + kPatienceMs);
    std::string bytes, name;
    if (connection.ok() && pollUntil(*connection, POLLOUT, patience) &&
        send(connection->get(), question.data(), question.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(question.size())) {
      while (decodeFrame(bytes, &name) == FrameState::kIncomplete && pollUntil(*connection, POLLIN, patience)) {
        char chunk[kFrameHeaderBytes + kMaxTokenBytes];
        const ssize_t count = recv(connection->get(), chunk, sizeof chunk, MSG_DONTWAIT);
        if (count <= 0) break;
        bytes.append(chunk, static_cast<size_t>(count));
      }
      if (decodeFrame(bytes, &name) == FrameState::kComplete) return name;
    }
    sleepMs(kRetryMs);
  }
  return unavailableError("rank 0 did not answer at 127.0.0.1:" + std::to_string(port) +
                          " (MASTER_PORT); is it running, and does it have the same " + kTokenVariable + "?");
}

}  // namespace hycrt
