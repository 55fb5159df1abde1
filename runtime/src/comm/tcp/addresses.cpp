// Names and addresses by getaddrinfo, interfaces by getifaddrs.
#include "comm/tcp/addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "comm/shm/sockets.h"

namespace hycrt {
namespace {

constexpr int kBacklog = 1024;
constexpr int64_t kAttemptMs = 5000;
constexpr int kRetryMs = 20;

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Result<AddressList> resolve(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) return unavailableError("cannot find the address of '" + host + "': " + gai_strerror(error));
  return AddressList(found, [](addrinfo* list) { freeaddrinfo(list); });
}

std::string textOf(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 2] = {};
  const socklen_t bytes = address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return getnameinfo(address, bytes, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text : "";
}

int portOf(const sockaddr_storage& address) {
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

// The address' bytes; empty where it is of another family.
std::string bytesOf(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return {reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr), 4};
  }
  if (address->sa_family != AF_INET6) return "";
  return {reinterpret_cast<const char*>(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr), 16};
}

struct Network {
  std::string bytes;
  int bits = 0;

  bool holds(const std::string& address) const {
    if (address.size() != bytes.size()) return false;
    for (int bit = 0; bit < bits; ++bit) {
      const int differs = address[static_cast<size_t>(bit / 8)] ^ bytes[static_cast<size_t>(bit / 8)];
      if (differs >> (7 - bit % 8) & 1) return false;
    }
    return true;
  }
};

// "10.0.0.0/8"; false where it is none.
bool parseNetwork(const std::string& text, Network* network) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return false;
  char address[16];
  const std::string head = text.substr(0, slash), tail = text.substr(slash + 1);
  const size_t bytes = inet_pton(AF_INET, head.c_str(), address) == 1    ? 4
                       : inet_pton(AF_INET6, head.c_str(), address) == 1 ? 16
                                                                         : 0;
  char* end = nullptr;
  const long bits = std::strtol(tail.c_str(), &end, 10);
  if (bytes == 0 || tail.empty() || tail[0] < '0' || tail[0] > '9' || *end != '\0') return false;
  if (bits < 0 || bits > static_cast<long>(bytes) * 8) return false;
  *network = {std::string(address, bytes), static_cast<int>(bits)};
  return true;
}

std::string addressAt(const FileDescriptor& connection, int (*name)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (name(connection.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return "";
  return textOf(reinterpret_cast<const sockaddr*>(&address));
}

// One attempt at one address; 0, or errno.
int tryAddress(const addrinfo& address, int64_t deadlineMs, FileDescriptor* connection) {
  const int called = callTo(address.ai_addr, address.ai_addrlen, connection);
  if (called != EINPROGRESS) return called;
  if (!pollUntil(*connection, POLLOUT, std::min(deadlineMs, monotonicMs() + kAttemptMs))) return ETIMEDOUT;
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(connection->get(), SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

}  // namespace

bool parsePorts(const std::string& text, int* low, int* high) {
  char* end = nullptr;
  const auto take = [&](const char* from, int* port) {
    const long value = std::strtol(from, &end, 10);
    *port = static_cast<int>(value);
    return *from >= '0' && *from <= '9' && value >= 1 && value <= 65535;
  };
  if (!take(text.c_str(), low)) return false;
  *high = *low;
  if (*end == '-' && !take(end + 1, high)) return false;
  return *end == '\0' && *low <= *high;
}

std::string shown(const HostAddress& address) {
  const bool isLong = address.text.find(':') != std::string::npos;
  return (isLong ? "[" + address.text + "]" : address.text) + ":" + std::to_string(address.port);
}

Result<std::string> localAddress(const NetworkOptions& options, const std::string& otherwise) {
  if (options.interface.empty()) return otherwise;
  Network network;
  const bool isNetwork = parseNetwork(options.interface, &network);
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return errnoError("cannot list this host's network interfaces", errno);
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, [](ifaddrs* list) { freeifaddrs(list); });
  std::string there, found;
  for (const ifaddrs* one = all; one; one = one->ifa_next) {
    if (!one->ifa_addr || !(one->ifa_flags & IFF_UP)) continue;
    const std::string bytes = bytesOf(one->ifa_addr);
    if (bytes.empty()) continue;
    const std::string text = textOf(one->ifa_addr);
    there += (there.empty() ? "" : ", ") + std::string(one->ifa_name) + " (" + text + ")";
    const bool fits = isNetwork ? network.holds(bytes) : options.interface == one->ifa_name;
    // Of an interface's addresses the first of IPv4, where it has one.
    if (fits && (found.empty() || (found.find(':') != std::string::npos && bytes.size() == 4))) found = text;
  }
  if (!found.empty()) return found;
  return usageError("--interface is '" + options.interface + "', which " +
                    (isNetwork ? "holds no address of this host" : "is no interface of this host that is up") +
                    "; there are: " + there);
}

std::vector<std::string> networkAddresses() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, [](ifaddrs* list) { freeifaddrs(list); });
  std::vector<std::string> found[2];
  for (const ifaddrs* one = all; one; one = one->ifa_next) {
    if (!one->ifa_addr || !one->ifa_netmask || !(one->ifa_flags & IFF_UP) || (one->ifa_flags & IFF_LOOPBACK)) continue;
    const std::string bytes = bytesOf(one->ifa_addr), mask = bytesOf(one->ifa_netmask), text = textOf(one->ifa_addr);
    if (bytes.empty() || text.compare(0, 8, "169.254.") == 0 || text.compare(0, 4, "fe80") == 0) continue;
    int bits = 0;
    for (unsigned char byte : mask) bits += __builtin_popcount(byte);
    found[bytes.size() == 4 ? 0 : 1].push_back(text + "/" + std::to_string(bits));
  }
  found[0].insert(found[0].end(), found[1].begin(), found[1].end());
  return found[0];
}

bool areOfOneNetwork(const std::string& a, const std::string& b) {
  Network network, other;
  if (!parseNetwork(a, &network)) return true;
  return parseNetwork(b.find('/') == std::string::npos ? b + "/0" : b, &other) && network.holds(other.bytes);
}

Result<FileDescriptor> listenOn(const std::string& address, int port, const NetworkOptions& options, int* taken) {
  Result<AddressList> resolved = resolve(address, 0, AI_PASSIVE);
  if (!resolved.ok()) return resolved.status();
  int low = port, high = port;
  if (port == 0) {
    low = options.lowPort;
    high = options.highPort;
  }
  int error = 0;
  for (const addrinfo* one = resolved->get(); one; one = one->ai_next) {
    for (int candidate = low; candidate <= high; ++candidate) {
      FileDescriptor listener(socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      const int on = 1;
      sockaddr_storage bound{};
      std::memcpy(&bound, one->ai_addr, one->ai_addrlen);
      (one->ai_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                  : reinterpret_cast<sockaddr_in&>(bound).sin_port) =
          htons(static_cast<uint16_t>(candidate));
      socklen_t length = one->ai_addrlen;
      if (listener.isOpen() && setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
          bind(listener.get(), reinterpret_cast<sockaddr*>(&bound), length) == 0 &&
          listen(listener.get(), kBacklog) == 0 &&
          getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &length) == 0) {
        *taken = portOf(bound);
        return listener;
      }
      error = errno;
    }
  }
  // hyc-run takes the port at which ranks meet from among those that it was given.
  const bool isOneOfRange = port == 0 || (options.lowPort > 0 && port >= options.lowPort && port <= options.highPort);
  const std::string ports = low == high ? std::to_string(low) : std::to_string(low) + " to " + std::to_string(high);
  return unavailableError("cannot listen on " + address + ", port " + ports + ": " + std::strerror(error) +
                          (!isOneOfRange ? "; set MASTER_PORT to a port that is free, and MASTER_ADDR to rank 0's host"
                                         : "; take other --ports"));
}

Result<FileDescriptor> reach(const std::string& host, int port, int64_t deadlineMs) {
  std::string last;
  do {
    Result<AddressList> resolved = resolve(host, port, 0);
    if (!resolved.ok()) {
      last = resolved.status().message();
    } else {
      for (const addrinfo* one = resolved->get(); one; one = one->ai_next) {
        FileDescriptor connection;
        const int error = tryAddress(*one, deadlineMs, &connection);
        if (error == 0) return connection;
        last = "cannot reach " + shown({textOf(one->ai_addr), port}) + ": " + std::strerror(error);
      }
    }
    const timespec pause{0, kRetryMs * 1000000L};
    nanosleep(&pause, nullptr);
  } while (monotonicMs() < deadlineMs);
  return unavailableError(last);
}

std::string ownAddress(const FileDescriptor& connection) { return addressAt(connection, getsockname); }
std::string peerAddress(const FileDescriptor& connection) { return addressAt(connection, getpeername); }

void prepareConnection(const FileDescriptor& connection, const NetworkOptions& options) {
  const int on = 1;
  setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (options.timeoutMs <= 0) return;
  const unsigned milliseconds = static_cast<unsigned>(std::min<int64_t>(options.timeoutMs, INT32_MAX));
  setsockopt(connection.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
}

bool isLoopback(const std::string& host) {
  return host == "localhost" || host.compare(0, 4, "127.") == 0 || host == "::1";
}

}  // namespace hycrt
