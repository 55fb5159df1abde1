// HTTP/1.1 as far as a scrape needs it: one request a connection.
#include "instruments/scrape_server.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/clock.h"

namespace hycrt {
namespace {

constexpr char kLoopback[] = "127.0.0.1";
constexpr char kContentType[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr size_t kMostRequest = 8192;
constexpr int64_t kPatienceMs = 1000;
constexpr int kBacklog = 16, kMostPort = 65535;

bool isPort(const std::string& text) {
  return !text.empty() && text.size() <= 5 && text.find_first_not_of("0123456789") == std::string::npos &&
         std::stoi(text) <= kMostPort;
}

Status cannotListen(const std::string& address, const std::string& why) {
  return unavailableError("cannot listen on " + address + " (--prometheus): " + why +
                          "; give an address of this host, and a port that is free (0: any)");
}

// Until the request's empty line, the limit, or the end of patience.
std::string readRequest(int client) {
  std::string request;
  const int64_t end = monotonicMs() + kPatienceMs;
  while (request.size() < kMostRequest && request.find("\r\n\r\n") == std::string::npos) {
    pollfd polled{client, POLLIN, 0};
    const int64_t left = end - monotonicMs();
    if (left <= 0 || poll(&polled, 1, static_cast<int>(left)) <= 0) break;
    char bytes[1024];
    const ssize_t count = recv(client, bytes, sizeof bytes, MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) break;
    request.append(bytes, static_cast<size_t>(count));
  }
  return request;
}

void send(int client, const std::string& answer) {
  const int64_t end = monotonicMs() + kPatienceMs;
  for (size_t sent = 0; sent < answer.size();) {
    const ssize_t count = ::send(client, answer.data() + sent, answer.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count > 0) sent += static_cast<size_t>(count);
    if (count > 0 || errno == EINTR) continue;
    pollfd polled{client, POLLOUT, 0};
    const int64_t left = end - monotonicMs();
    if (errno != EAGAIN || left <= 0 || poll(&polled, 1, static_cast<int>(left)) <= 0) return;
  }
}

std::string answerOf(const std::string& status, const std::string& body, const std::string& more = "") {
  return "HTTP/1.1 " + status + "\r\nContent-Type: " + kContentType +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n" + more + "\r\n" + body;
}

// As a URL has it.
std::string nameOf(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  const int flags = NI_NUMERICHOST | NI_NUMERICSERV;
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, port, sizeof port, flags) != 0)
    return "?";
  const bool isV6 = address.ss_family == AF_INET6;
  return (isV6 ? "[" : "") + std::string(host) + (isV6 ? "]:" : ":") + port;
}

Result<FileDescriptor> listenOn(const addrinfo& info, const std::string& address) {
  FileDescriptor listener(socket(info.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.isOpen()) return cannotListen(address, std::strerror(errno));
  const int yes = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const bool listens =
      bind(listener.get(), info.ai_addr, info.ai_addrlen) == 0 && listen(listener.get(), kBacklog) == 0;
  if (!listens) return cannotListen(address, std::strerror(errno));
  return listener;
}

}  // namespace

Result<ListenAddress> parseListenAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  std::string host = colon == std::string::npos ? kLoopback : text.substr(0, colon);
  const bool isBracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (isBracketed) host = host.substr(1, host.size() - 2);
  if (!isPort(port) || host.empty() || (!isBracketed && host.find_first_of("[]:") != std::string::npos)) {
    return usageError("--prometheus is '" + text +
                      "', expected a port from 0 to 65535, or an address and a port, as 127.0.0.1:9400 or [::1]:9400");
  }
  return ListenAddress{host, std::stoi(port)};
}

Result<ScrapeServer> ScrapeServer::open(const std::string& address) {
  const Result<ListenAddress> parsed = parseListenAddress(address);
  if (!parsed.ok()) return parsed.status();
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error = getaddrinfo(parsed->host.c_str(), std::to_string(parsed->port).c_str(), &hints, &found);
  if (error != 0) return cannotListen("'" + address + "'", gai_strerror(error));
  Result<FileDescriptor> listener = listenOn(*found, "'" + address + "'");
  freeaddrinfo(found);
  if (!listener.ok()) return listener.status();
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  getsockname(listener->get(), reinterpret_cast<sockaddr*>(&bound), &size);
  ScrapeServer server;
  server.listener_ = std::move(*listener);
  server.url_ = "http://" + nameOf(bound, size) + "/metrics";
  return server;
}

void ScrapeServer::answer(const std::function<std::string()>& text) const {
  const FileDescriptor client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!client.isOpen()) return;  // it has gone again
  send(client.get(), answerTo(readRequest(client.get()), text));
  shutdown(client.get(), SHUT_RDWR);
}

std::string answerTo(const std::string& request, const std::function<std::string()>& text) {
  const std::string line = request.substr(0, request.find("\r\n"));
  const size_t first = line.find(' '), last = line.rfind(' ');
  const bool isHttp = first != std::string::npos && last > first && line.compare(last, 6, " HTTP/") == 0;
  if (!isHttp) return answerOf("400 Bad Request", "expected a request by HTTP\n");
  const std::string method = line.substr(0, first), target = line.substr(first + 1, last - first - 1);
  if (method != "GET" && method != "HEAD") {
    return answerOf("405 Method Not Allowed", "expected GET\n", "Allow: GET, HEAD\r\n");
  }
  const bool isMetrics = target.substr(0, target.find('?')) == "/metrics";
  std::string answer = isMetrics ? answerOf("200 OK", text()) : answerOf("404 Not Found", "expected /metrics\n");
  if (method == "HEAD") answer.resize(answer.find("\r\n\r\n") + 4);
  return answer;
}

}  // namespace hycrt
