// Questions and answers of the store.
#include "comm/launch/torch_store.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "comm/launch/board.h"
#include "comm/shm/sockets.h"
#include "comm/tcp/addresses.h"

namespace hycrt {
namespace {

enum Question : char { kValidate = 0, kSet = 1, kGet = 3, kWait = 6 };
constexpr uint32_t kMagic = 0x3C85F7CE;
constexpr char kIsThere = 0;

template <typename T>
std::string bytesOf(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string textOf(const std::string& text) { return bytesOf(static_cast<uint64_t>(text.size())) + text; }

}  // namespace

Result<TorchStore> TorchStore::open(const std::string& host, int port, int64_t deadlineMs) {
  Result<FileDescriptor> connection = reach(host, port, deadlineMs);
  if (!connection.ok()) return connection.status();
  TorchStore store(std::move(*connection));
  HYCRT_RETURN_IF_ERROR(store.send(std::string(1, kValidate) + bytesOf(kMagic)));
  return store;
}

Status TorchStore::set(const std::string& key, const std::string& value) {
  return send(std::string(1, kSet) + textOf(key) + textOf(value));
}

Result<std::string> TorchStore::get(const std::string& key, int64_t deadlineMs) {
  HYCRT_RETURN_IF_ERROR(send(std::string(1, kWait) + bytesOf(uint64_t{1}) + textOf(key)));
  char answer = 1;
  HYCRT_RETURN_IF_ERROR(receive(&answer, 1, deadlineMs));
  if (answer != kIsThere) return unavailableError("torch's store does not wait for a key");
  HYCRT_RETURN_IF_ERROR(send(std::string(1, kGet) + textOf(key)));
  uint64_t bytes = 0;
  HYCRT_RETURN_IF_ERROR(receive(&bytes, sizeof bytes, deadlineMs));
  if (bytes > kMostValueBytes) return unavailableError("torch's store gives more than was left there");
  std::string value(static_cast<size_t>(bytes), '\0');
  HYCRT_RETURN_IF_ERROR(receive(value.data(), value.size(), deadlineMs));
  return value;
}

std::string TorchStore::ownAddress() const { return hycrt::ownAddress(connection_); }

// A question is shorter than what a connection takes at once.
Status TorchStore::send(const std::string& bytes) {
  const ssize_t sent = ::send(connection_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return sent == static_cast<ssize_t>(bytes.size()) ? Status() : unavailableError("torch's store has hung up");
}

Status TorchStore::receive(void* to, size_t bytes, int64_t deadlineMs) {
  for (size_t got = 0; got < bytes;) {
    if (!pollUntil(connection_, POLLIN, deadlineMs)) return unavailableError("torch's store does not answer in time");
    const ssize_t count = recv(connection_.get(), static_cast<char*>(to) + got, bytes - got, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) return unavailableError("torch's store has hung up");
    got += static_cast<size_t>(count);
  }
  return {};
}

}  // namespace hycrt
