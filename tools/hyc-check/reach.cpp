// A word there, an answer back.
#include "reach.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>

#include "base/clock.h"
#include "base/limits.h"
#include "base/work_by_threads.h"
#include "comm/tcp/addresses.h"
#include "hycrt/token.h"

namespace hyccheck {
namespace {

using hycrt::FileDescriptor;
using hycrt::Result;

constexpr int kPollMs = 100;
constexpr int64_t kStrangerMs = 500;
constexpr char kAnswer[] = "hyc\n";
constexpr size_t kAnswerBytes = sizeof kAnswer - 1;

// The address that this host's packets to `host` come from; nothing is sent.
Result<std::string> addressTowards(const std::string &host) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  hints.ai_flags = AI_NUMERICSERV;
  // ssh's user@ is no part of a name.
  const std::string name = host.substr(host.rfind('@') + 1);
  const int error = getaddrinfo(name.c_str(), "9", &hints, &found);
  if (error != 0)
    return hycrt::unavailableError("cannot find the address of '" + name + "': " + gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo *)> owner(found, [](addrinfo *list) { freeaddrinfo(list); });
  int last = 0;
  for (const addrinfo *one = found; one; one = one->ai_next) {
    const FileDescriptor probe(socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (probe.isOpen() && connect(probe.get(), one->ai_addr, one->ai_addrlen) == 0)
      return hycrt::ownAddress(probe);
    last = errno;
  }
  return hycrt::unavailableError("no way leads to '" + name + "': " + std::strerror(last));
}

// As many bytes as are asked for, or less where time or the other's patience ends.
std::string readBytes(const FileDescriptor &connection, size_t bytes, int64_t deadlineMs) {
  std::string text(bytes, '\0');
  size_t filled = 0;
  while (filled < bytes) {
    pollfd polled{connection.get(), POLLIN, 0};
    const int64_t left = deadlineMs - hycrt::monotonicMs();
    if (left <= 0 || poll(&polled, 1, static_cast<int>(left)) <= 0)
      break;
    const ssize_t count = recv(connection.get(), &text[filled], bytes - filled, 0);
    if (count <= 0)
      break;
    filled += static_cast<size_t>(count);
  }
  text.resize(filled);
  return text;
}

bool sendBytes(const FileDescriptor &connection, const std::string &text) {
  return send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

Attempt tryOne(const Meeting &other, double seconds) {
  Attempt attempt{other.host, other.address, other.port, 0, ""};
  const auto begin = std::chrono::steady_clock::now();
  const int64_t deadline = hycrt::monotonicMs() + static_cast<int64_t>(seconds * 1000);
  const Result<FileDescriptor> connection = hycrt::reach(other.address, other.port, deadline);
  if (!connection.ok()) {
    attempt.error = connection.status().message();
    return attempt;
  }
  hycrt::prepareConnection(*connection, {});
  if (!sendBytes(*connection, other.word) || readBytes(*connection, kAnswerBytes, deadline) != kAnswer) {
    attempt.error = "whoever listens on " + hycrt::shown({other.address, other.port}) + " is not that host's hyc-check";
  }
  attempt.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return attempt;
}

} // namespace

Result<std::unique_ptr<Listener>> Listener::open(const std::string &master, const hycrt::NetworkOptions &options) {
  std::string towards;
  if (options.interface.empty()) {
    Result<std::string> found = addressTowards(master);
    if (!found.ok())
      return found.status();
    towards = *found;
  }
  Result<std::string> address = hycrt::localAddress(options, towards);
  if (!address.ok())
    return address.status();
  std::unique_ptr<Listener> listener(new Listener);
  Result<FileDescriptor> socket = hycrt::listenOn(*address, 0, options, &listener->where_.port);
  if (!socket.ok())
    return socket.status();
  listener->socket_ = std::move(*socket);
  listener->where_.address = *address;
  listener->where_.word = hycrt::makeName();
  if (hycrt::Status started = hycrt::startThread(
          "answering other hosts", [raw = listener.get()] { raw->serve(); }, &listener->thread_);
      !started.ok())
    return started;
  return listener;
}

Listener::~Listener() {
  ends_ = true;
  if (thread_.joinable())
    thread_.join();
}

void Listener::serve() {
  while (!ends_) {
    pollfd polled{socket_.get(), POLLIN, 0};
    if (poll(&polled, 1, kPollMs) <= 0)
      continue;
    const FileDescriptor connection(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection.isOpen())
      continue;
    const int64_t deadline = hycrt::monotonicMs() + kStrangerMs;
    if (readBytes(connection, where_.word.size(), deadline) == where_.word)
      sendBytes(connection, kAnswer);
  }
}

std::vector<Attempt> tryAll(const std::vector<Meeting> &others, double seconds) {
  constexpr size_t kAtOnce = 32;
  std::vector<Attempt> attempts(others.size());
  const auto tryPiece = [&](size_t i, std::vector<std::byte> *) {
    attempts[i] = tryOne(others[i], seconds);
    return hycrt::Status();
  };
  (void)hycrt::forEachPiece(others.size(), kAtOnce, "reaching other hosts", tryPiece); // an attempt tells of itself
  return attempts;
}

} // namespace hyccheck
