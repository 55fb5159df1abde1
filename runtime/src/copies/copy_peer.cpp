// Files over a connection, a piece at a time.
#include "copies/copy_peer.h"

#include <poll.h>

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "comm/shm/doorkeeper.h"
#include "comm/shm/sockets.h"
#include "comm/tcp/addresses.h"

namespace hycrt {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;
constexpr int64_t kHandshakeMs = 5000;
constexpr char kPurpose[] = "copies";

NetworkOptions networkOf(const KeeperTask& task) {
  NetworkOptions network;
  network.plaintext = task.plaintext;
  network.timeoutMs = task.patienceMs;
  return network;
}

Result<SecureStream> streamOver(const KeeperTask& task, FileDescriptor connection, int caller, int listener) {
  prepareConnection(connection, networkOf(task));
  if (task.plaintext) return SecureStream::inTheClear(std::move(connection));
  const auto side = listener == task.number ? SecureStream::Side::kListener : SecureStream::Side::kCaller;
  SecureStream stream =
      SecureStream::encrypted(std::move(connection), side, task.token, {task.job, kPurpose, caller, listener, 0});
  HYCRT_RETURN_IF_ERROR(stream.shakeHands(monotonicMs() + kHandshakeMs));
  return stream;
}

}  // namespace

Claim copyClaim(const KeeperTask& task, int listener) {
  return {task.number, 0, sha256(task.job + "\n" + kPurpose + " of keeper " + std::to_string(listener)), sha256("")};
}

Result<CopyPeer> CopyPeer::call(const KeeperTask& task, const KeeperAddress& address) {
  Result<FileDescriptor> connection = reach(address.host, address.port, monotonicMs() + kHandshakeMs);
  if (!connection.ok()) return connection.status();
  const Result<std::string> proved =
      proveOver(*connection, task.token, copyClaim(task, address.number), monotonicMs() + kHandshakeMs);
  if (!proved.ok()) return proved.status();
  Result<SecureStream> stream = streamOver(task, std::move(*connection), task.number, address.number);
  if (!stream.ok()) return stream.status();
  return CopyPeer(std::move(*stream), task.patienceMs);
}

Result<CopyPeer> CopyPeer::answer(const KeeperTask& task, FileDescriptor connection, int caller) {
  Result<SecureStream> stream = streamOver(task, std::move(connection), caller, task.number);
  if (!stream.ok()) return stream.status();
  return CopyPeer(std::move(*stream), task.patienceMs);
}

Status CopyPeer::lost(const char* why) const {
  return unavailableError(stream_.failure().empty() ? why : stream_.failure());
}

Status CopyPeer::write(const void* from, int64_t bytes) {
  const char* next = static_cast<const char*>(from);
  while (bytes > 0 || !stream_.hasFlushed()) {
    const int64_t count = bytes > 0 ? stream_.write(next, bytes) : (stream_.flush() ? 0 : -1);
    if (count < 0) return lost("the other host's keeper has gone");
    next += count;
    bytes -= count;
    if (count > 0 || (bytes == 0 && stream_.hasFlushed())) continue;
    if (!pollUntil(stream_.connection(), POLLOUT, monotonicMs() + patienceMs_)) return lost("it takes nothing");
  }
  return {};
}

Status CopyPeer::read(void* to, int64_t bytes, bool waits) {
  char* next = static_cast<char*>(to);
  while (bytes > 0) {
    const int64_t count = stream_.read(next, bytes);
    if (count < 0) return lost("the other host's keeper has gone");
    next += count;
    bytes -= count;
    if (count > 0) waits = false;
    if (count > 0 || bytes == 0) continue;
    while (!pollUntil(stream_.connection(), POLLIN, monotonicMs() + patienceMs_)) {
      if (!waits) return lost("it gives nothing");
    }
  }
  return {};
}

Status CopyPeer::say(const CopyMessage& message) {
  const std::string bytes = encode(message);
  const uint32_t length = static_cast<uint32_t>(bytes.size());
  HYCRT_RETURN_IF_ERROR(write(&length, sizeof length));
  return write(bytes.data(), static_cast<int64_t>(bytes.size()));
}

Status CopyPeer::hear(CopyMessage* message, bool waits) {
  uint32_t length = 0;
  HYCRT_RETURN_IF_ERROR(read(&length, sizeof length, waits));
  if (length > kMostCopyMessageBytes) return dataError("a keeper says what is no message of this protocol");
  std::string bytes(length, '\0');
  HYCRT_RETURN_IF_ERROR(read(bytes.data(), length));
  return decode(bytes, message) ? Status() : dataError("a keeper says what is no message of this protocol");
}

Status CopyPeer::sendFile(const CopyFile& file) {
  std::vector<std::byte> piece(static_cast<size_t>(std::min(kPieceBytes, file.bytes)));
  for (int64_t at = 0; at < file.bytes; at += kPieceBytes) {
    const int64_t count = std::min(kPieceBytes, file.bytes - at);
    HYCRT_RETURN_IF_ERROR(readAt(*file.memory, "a copy of the states", piece.data(), count, at));
    HYCRT_RETURN_IF_ERROR(write(piece.data(), count));
  }
  return {};
}

Result<CopyFile> CopyPeer::receiveFile(int64_t bytes) {
  Result<FileDescriptor> memory = makeCopyMemory();
  if (!memory.ok()) return memory.status();
  std::vector<std::byte> piece(static_cast<size_t>(std::min(kPieceBytes, bytes)));
  for (int64_t at = 0; at < bytes; at += kPieceBytes) {
    const int64_t count = std::min(kPieceBytes, bytes - at);
    HYCRT_RETURN_IF_ERROR(read(piece.data(), count));
    HYCRT_RETURN_IF_ERROR(writeAt(*memory, "a copy of the states", piece.data(), count, at));
  }
  HYCRT_RETURN_IF_ERROR(sealCopy(*memory));
  return takeSealed(std::move(*memory), bytes);
}

Status CopyPeer::put(const CopyKey& key, const CopyKey& base, const std::string& name, const CopyFile& file) {
  HYCRT_RETURN_IF_ERROR(say({CopyMessage::Kind::kPut, key, base, name, file.bytes, ""}));
  HYCRT_RETURN_IF_ERROR(sendFile(file));
  CopyMessage answer;
  HYCRT_RETURN_IF_ERROR(hear(&answer));
  return answer.kind == CopyMessage::Kind::kDone ? Status() : unavailableError(answer.text);
}

Result<std::optional<CopyFile>> CopyPeer::get(const CopyKey& key, const std::string& name) {
  HYCRT_RETURN_IF_ERROR(say({CopyMessage::Kind::kGet, key, {}, name, 0, ""}));
  CopyMessage answer;
  HYCRT_RETURN_IF_ERROR(hear(&answer));
  if (answer.kind != CopyMessage::Kind::kDone) return std::optional<CopyFile>();
  Result<CopyFile> file = receiveFile(answer.bytes);
  if (!file.ok()) return file.status();
  return std::optional<CopyFile>(std::move(*file));
}

Status CopyPeer::answerOne(const CopyMessage& asked, CopyStore& store) {
  if (asked.kind == CopyMessage::Kind::kPut) {
    // Registered only when all of it has come.
    Result<CopyFile> file = receiveFile(asked.bytes);
    if (!file.ok()) return file.status();
    const Status kept = store.put(asked.key, asked.base, asked.name, std::move(*file));
    return say({kept.ok() ? CopyMessage::Kind::kDone : CopyMessage::Kind::kFailed,
                asked.key,
                {},
                asked.name,
                0,
                kept.message()});
  }
  const std::optional<CopyFile> file = store.find(asked.key, asked.name);
  if (!file) return say({CopyMessage::Kind::kMissing, asked.key, {}, asked.name, 0, ""});
  HYCRT_RETURN_IF_ERROR(say({CopyMessage::Kind::kDone, asked.key, {}, asked.name, file->bytes, ""}));
  return sendFile(*file);
}

void CopyPeer::serve(CopyStore& store) {
  for (CopyMessage asked; hear(&asked, /*waits=*/true).ok();) {
    if (asked.kind != CopyMessage::Kind::kPut && asked.kind != CopyMessage::Kind::kGet) return;
    if (!answerOne(asked, store).ok()) return;
  }
}

}  // namespace hycrt
