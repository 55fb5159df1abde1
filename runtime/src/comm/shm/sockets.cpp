// Abstract Unix sockets that pass descriptors, and TCP on the loopback.
#include "comm/shm/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace hycrt {
namespace {

constexpr int kBacklog = 1024;
constexpr int64_t kSendMs = 10000;

sockaddr_un unixAddress(const std::string& name, socklen_t* length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A leading NUL: an abstract name, which leaves nothing in the file system.
  const size_t bytes = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), bytes);
  *length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  return address;
}

sockaddr_in loopbackAddress(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

template <typename Address>
const sockaddr* generic(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

}  // namespace

void setText(Message* message, const std::string& text) {
  std::memset(message->text, 0, sizeof message->text);
  std::memcpy(message->text, text.data(), std::min(text.size(), sizeof message->text - 1));
}

Result<FileDescriptor> listenUnix(const std::string& name) {
  FileDescriptor listener(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t length = 0;
  const sockaddr_un address = unixAddress(name, &length);
  if (!listener.isOpen() || bind(listener.get(), generic(address), length) != 0 ||
      listen(listener.get(), kBacklog) != 0) {
    return unavailableError("rank 0 cannot listen on Unix socket '@" + name + "': " + std::strerror(errno) +
                            (errno == EADDRINUSE ? "; another job (or another rank 0) uses it" : ""));
  }
  return listener;
}

Result<FileDescriptor> listenLoopback(int port) {
  FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  const sockaddr_in address = loopbackAddress(port);
  if (!listener.isOpen() || setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      bind(listener.get(), generic(address), sizeof address) != 0 || listen(listener.get(), kBacklog) != 0) {
    return unavailableError("rank 0 cannot listen on 127.0.0.1:" + std::to_string(port) + ": " + std::strerror(errno) +
                            "; set MASTER_PORT to a port that is free");
  }
  return listener;
}

Result<FileDescriptor> connectUnix(const std::string& name) {
  FileDescriptor connection(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t length = 0;
  const sockaddr_un address = unixAddress(name, &length);
  if (!connection.isOpen() || connect(connection.get(), generic(address), length) != 0) {
    return errnoError("cannot reach rank 0 at Unix socket '@" + name + "'", errno);
  }
  return connection;
}

Result<FileDescriptor> connectLoopback(int port) {
  FileDescriptor connection(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const sockaddr_in address = loopbackAddress(port);
  if (!connection.isOpen() ||
      (connect(connection.get(), generic(address), sizeof address) != 0 && errno != EINPROGRESS)) {
    return errnoError("cannot reach rank 0 at 127.0.0.1:" + std::to_string(port), errno);
  }
  return connection;
}

FileDescriptor acceptFrom(const FileDescriptor& listener) {
  return FileDescriptor(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

bool isTrusted(const FileDescriptor& connection) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return peer.uid == getuid() || peer.uid == 0;
}

Status sendMessage(const FileDescriptor& connection, const Message& message, int passFd) {
  iovec part{const_cast<Message*>(&message), sizeof message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (passFd >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* item = CMSG_FIRSTHDR(&header);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(item), &passFd, sizeof passFd);
  }
  const int64_t deadline = monotonicMs() + kSendMs;
  while (sendmsg(connection.get(), &header, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN && pollUntil(connection, POLLOUT, deadline)) continue;
    return {StatusCode::kPeerLost, std::string("a rank left during the rendezvous: ") + std::strerror(errno)};
  }
  return {};
}

Received receiveMessage(const FileDescriptor& connection, Message* message, FileDescriptor* passed) {
  iovec part{message, sizeof *message};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t bytes = recvmsg(connection.get(), &header, MSG_CMSG_CLOEXEC);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return Received::kNothingYet;
  if (bytes <= 0) return Received::kClosed;
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(item), sizeof fd);
    passed->reset(fd);
  }
  if (bytes != static_cast<ssize_t>(sizeof *message) || message->magic != kMessageMagic) return Received::kGarbage;
  message->token[sizeof message->token - 1] = '\0';
  message->text[sizeof message->text - 1] = '\0';
  return Received::kMessage;
}

bool pollUntil(const FileDescriptor& connection, short events, int64_t deadlineMs) {
  for (;;) {
    const int64_t left = deadlineMs - monotonicMs();
    if (left <= 0) return false;
    pollfd item{connection.get(), events, 0};
    const int ready = poll(&item, 1, static_cast<int>(std::min<int64_t>(left, 1000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

}  // namespace hycrt
