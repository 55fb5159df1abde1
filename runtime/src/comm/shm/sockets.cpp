// Unix sockets that pass descriptors, and TCP on the loopback.
#include "comm/shm/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>

namespace hycrt {
namespace {

constexpr int kBacklog = 1024;
constexpr int64_t kSendMs = 10000;

bool isPath(const std::string& name) { return !name.empty() && name[0] == '/'; }

sockaddr_un unixAddress(const std::string& name, socklen_t* length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A leading NUL: an abstract name, which leaves nothing in the file system.
  const size_t begin = isPath(name) ? 0 : 1;
  const size_t bytes = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + begin, name.data(), bytes);
  *length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  return address;
}

std::string shown(const std::string& name) { return (isPath(name) ? "Unix socket '" : "Unix socket '@") + name + "'"; }

// That nobody else can have put anything into it.
Status checkFolder(const std::string& folder) {
  struct stat info;
  if (lstat(folder.c_str(), &info) != 0) return errnoError("cannot examine '" + folder + "'", errno);
  if (S_ISDIR(info.st_mode) && info.st_uid == geteuid() && (info.st_mode & 077) == 0) return {};
  return unavailableError("'" + folder + "', where the ranks of user " + std::to_string(geteuid()) +
                          " meet, is no folder that is this user's alone (it belongs to user " +
                          std::to_string(info.st_uid) +
                          "); remove it, set TMPDIR to another place, or give the ranks " + kTokenVariable);
}

sockaddr_in loopbackAddress(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// Whether both are one address and port of TCP.
bool isSamePlace(const sockaddr_storage& own, const sockaddr* other) {
  if (own.ss_family != other->sa_family) return false;
  if (own.ss_family == AF_INET) {
    const auto& a = reinterpret_cast<const sockaddr_in&>(own);
    const auto& b = *reinterpret_cast<const sockaddr_in*>(other);
    return a.sin_port == b.sin_port && a.sin_addr.s_addr == b.sin_addr.s_addr;
  }
  if (own.ss_family != AF_INET6) return false;
  const auto& a = reinterpret_cast<const sockaddr_in6&>(own);
  const auto& b = *reinterpret_cast<const sockaddr_in6*>(other);
  return a.sin6_port == b.sin6_port && std::memcmp(&a.sin6_addr, &b.sin6_addr, sizeof a.sin6_addr) == 0;
}

template <typename Address>
const sockaddr* generic(const Address& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

}  // namespace

UnixListener::~UnixListener() {
  if (lock_.isHeld()) unlink(path_.c_str());
}

Result<UnixListener> UnixListener::listen(const std::string& name) {
  UnixListener listener;
  if (isPath(name)) {
    const std::string folder = name.substr(0, name.rfind('/'));
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return errnoError("cannot make '" + folder + "'", errno);
    HYCRT_RETURN_IF_ERROR(checkFolder(folder));
    Result<FileLock> lock = FileLock::take(name + ".lock", "rank 0 of a job");
    if (!lock.ok()) {
      return unavailableError("rank 0 cannot listen on " + shown(name) + ": " + lock.status().message() +
                              "; give each job a MASTER_PORT of its own");
    }
    listener.lock_ = std::move(*lock);
    listener.path_ = name;
    unlink(name.c_str());  // of a job that was killed
  }
  listener.socket_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  socklen_t length = 0;
  const sockaddr_un address = unixAddress(name, &length);
  if (!listener.socket_.isOpen() || bind(listener.socket_.get(), generic(address), length) != 0 ||
      ::listen(listener.socket_.get(), kBacklog) != 0) {
    return unavailableError("rank 0 cannot listen on " + shown(name) + ": " + std::strerror(errno) +
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
    return errnoError("cannot reach rank 0 at " + shown(name), errno);
  }
  if (isPath(name)) HYCRT_RETURN_IF_ERROR(checkFolder(name.substr(0, name.rfind('/'))));
  if (isTrusted(connection)) return connection;
  return unavailableError("what listens at " + shown(name) + " is another user's process, and not rank 0 of this job");
}

Result<FileDescriptor> connectLoopback(int port) {
  FileDescriptor connection;
  const sockaddr_in address = loopbackAddress(port);
  const int error = callTo(generic(address), sizeof address, &connection);
  if (error == 0 || error == EINPROGRESS) return connection;
  return errnoError("cannot reach rank 0 at 127.0.0.1:" + std::to_string(port), error);
}

// A caller's port must not keep rank 0 from listening there, which it may be.
int callTo(const sockaddr* address, socklen_t length, FileDescriptor* connection) {
  connection->reset(socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (!connection->isOpen() || setsockopt(connection->get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
    return errno;
  }
  const int result = connect(connection->get(), address, length) == 0 ? 0 : errno;
  if (result != 0 && result != EINPROGRESS) return result;
  sockaddr_storage own{};
  socklen_t ownLength = sizeof own;
  if (getsockname(connection->get(), reinterpret_cast<sockaddr*>(&own), &ownLength) != 0) return errno;
  if (!isSamePlace(own, address)) return result;
  const linger atOnce{1, 0};  // without a rest of it that would hold the port
  setsockopt(connection->get(), SOL_SOCKET, SO_LINGER, &atOnce, sizeof atOnce);
  connection->reset(-1);
  return ECONNREFUSED;
}

FileDescriptor acceptFrom(const FileDescriptor& listener) {
  return FileDescriptor(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

bool isTrusted(const FileDescriptor& connection) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return false;
  return peer.uid == geteuid();
}

Status sendMessage(const FileDescriptor& connection, const Message& message, int passFd) {
  MessageHead head = message;
  head.textBytes = static_cast<uint32_t>(message.text.size());
  iovec parts[] = {{&head, sizeof head},
                   {const_cast<char*>(message.text.data()), message.text.size()},
                   {const_cast<char*>(message.agreement.data()), message.agreement.size()}};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = parts;
  header.msg_iovlen = std::size(parts);
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
    // More descriptors are under way than one process may have: they are taken as ranks get to it.
    if (errno == ETOOMANYREFS && monotonicMs() < deadline) {
      const timespec pause{0, 1000000};
      nanosleep(&pause, nullptr);
      continue;
    }
    return {StatusCode::kPeerLost, std::string("a rank left during the rendezvous: ") + std::strerror(errno)};
  }
  return {};
}

// Keeps the first descriptor of a message, and closes what else came.
static void takeDescriptors(msghdr* header, FileDescriptor* passed) {
  for (cmsghdr* item = CMSG_FIRSTHDR(header); item; item = CMSG_NXTHDR(header, item)) {
    if (item->cmsg_level != SOL_SOCKET || item->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (item->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(item) + i * sizeof fd, sizeof fd);
      FileDescriptor one(fd);
      if (!passed->isOpen()) *passed = std::move(one);
    }
  }
}

Received receiveMessage(const FileDescriptor& connection, Message* message, FileDescriptor* passed) {
  const std::unique_ptr<char[]> bytes(new char[kMaxMessageBytes]);
  iovec part{bytes.get(), kMaxMessageBytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (passed) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  const ssize_t count = recvmsg(connection.get(), &header, MSG_CMSG_CLOEXEC);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Received::kNothingYet;
  if (count <= 0) return Received::kClosed;
  if (passed) takeDescriptors(&header, passed);
  message->lostDescriptor = passed && !passed->isOpen() && (header.msg_flags & MSG_CTRUNC) != 0;
  const size_t size = static_cast<size_t>(count);
  if ((header.msg_flags & MSG_TRUNC) != 0 || size < sizeof(MessageHead)) return Received::kGarbage;
  MessageHead& head = *message;
  std::memcpy(&head, bytes.get(), sizeof head);
  if (head.magic != kMessageMagic || head.textBytes > size - sizeof head) return Received::kGarbage;
  const char* const text = bytes.get() + sizeof head;
  message->text.assign(text, head.textBytes);
  message->agreement.assign(text + head.textBytes, size - sizeof head - head.textBytes);
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
