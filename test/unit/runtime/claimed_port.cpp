// A port is claimed by a name in the abstract namespace, which goes with the process.
#include "claimed_port.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>

#include "comm/shm/sockets.h"

namespace {

constexpr int kFirst = 12000, kPorts = 20000;  // below what Linux gives to connections

// Kept open: whoever has bound the name has the port.
bool claim(int port) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const int length = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "hyc-test-port-%d", port);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const socklen_t size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<size_t>(length));
  if (fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&address), size) == 0) return true;
  if (fd >= 0) close(fd);
  return false;
}

}  // namespace

int claimPort() {
  static int next = static_cast<int>(getpid()) * 7 % kPorts;
  for (int tried = 0; tried < kPorts; ++tried) {
    const int port = kFirst + next;
    next = (next + 1) % kPorts;
    if (claim(port) && hycrt::listenLoopback(port).ok()) return port;
  }
  return 0;
}
