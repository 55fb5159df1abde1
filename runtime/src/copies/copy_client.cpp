// Asking the keeper, and putting the parts of a copy together.
#include "copies/copy_client.h"

#include <poll.h>

#include "base/clock.h"
#include "comm/shm/sockets.h"

namespace hycrt {
namespace {

constexpr int64_t kMostTableBytes = int64_t{1} << 30;
constexpr int64_t kLookMs = 100;

Result<std::string> readText(CopyClient& client, const CopyKey& key, const std::string& name) {
  const Result<FileDescriptor> file = client.get(key, name);
  if (!file.ok()) return file.status();
  return readWholeFile(*file, describe(key) + "/" + name, kMostTableBytes);
}

}  // namespace

Result<CopyClient> CopyClient::connect(const std::string& socket) {
  Result<FileDescriptor> connection = connectUnix(socket);
  if (connection.ok()) return CopyClient(std::move(*connection));
  return unavailableError("the keeper of copies on this host, at '@" + socket +
                          "', does not answer: " + connection.status().message());
}

Status CopyClient::ask(const CopyMessage& message, int passFd, const std::atomic<bool>* givesUp, CopyMessage* answer,
                       FileDescriptor* passed) {
  const Status gone = unavailableError("the keeper of copies on this host has gone");
  Message sent;
  sent.type = MessageType::kCopies;
  sent.text = encode(message);
  if (!sendMessage(connection_, sent, passFd).ok()) return gone;
  for (;;) {
    if (givesUp && *givesUp) return unavailableError("the copy was given up: the run ends");
    if (!pollUntil(connection_, POLLIN, monotonicMs() + kLookMs)) continue;
    Message received;
    const Received what = receiveMessage(connection_, &received, passed);
    if (what == Received::kNothingYet) continue;
    if (what != Received::kMessage || !decode(received.text, answer)) return gone;
    if (received.lostDescriptor) return unavailableError("this rank has no room for another descriptor");
    return {};
  }
}

Status CopyClient::put(const CopyKey& key, const CopyKey& base, const std::string& name, const FileDescriptor& memory,
                       const std::atomic<bool>& givesUp) {
  const Result<int64_t> bytes = fileSize(memory, name);
  if (!bytes.ok()) return bytes.status();
  CopyMessage answer;
  HYCRT_RETURN_IF_ERROR(
      ask({CopyMessage::Kind::kPut, key, base, name, *bytes, ""}, memory.get(), &givesUp, &answer, nullptr));
  return answer.kind == CopyMessage::Kind::kDone ? Status() : unavailableError(answer.text);
}

Result<FileDescriptor> CopyClient::get(const CopyKey& key, const std::string& name) {
  CopyMessage answer;
  FileDescriptor passed;
  HYCRT_RETURN_IF_ERROR(ask({CopyMessage::Kind::kGet, key, {}, name, 0, ""}, -1, nullptr, &answer, &passed));
  if (answer.kind == CopyMessage::Kind::kDone && passed.isOpen()) return passed;
  return unavailableError("no host has '" + name + "' of " + describe(key) +
                          (answer.text.empty() ? "" : " (" + answer.text + ")"));
}

Result<FileDescriptor> CopyFiles::open(const std::string& name) const {
  Result<CopyClient> client = CopyClient::connect(socket_);
  if (!client.ok()) return client.status();
  return client->get(key_, name);
}

Result<Checkpoint> openCopy(const std::string& socket, const CopyKey& key) {
  Result<CopyClient> client = CopyClient::connect(socket);
  if (!client.ok()) return client.status();
  Checkpoint checkpoint;
  checkpoint.folder = describe(key);
  checkpoint.files = std::make_shared<CopyFiles>(socket, key);
  const Result<std::string> head = readText(*client, key, kCopyHead);
  if (!head.ok()) return head.status();
  Result<CheckpointManifest> told = parseCheckpointManifest(*head, "'" + checkpoint.folder + "'");
  if (!told.ok()) return told.status();
  checkpoint.manifest = std::move(*told);
  for (int rank = 0; rank < checkpoint.manifest.ranks; ++rank) {
    const std::string name = copyTableName(rank);
    const Result<std::string> text = readText(*client, key, name);
    if (!text.ok()) return text.status();
    Result<CheckpointParts> parts = parseCheckpointParts(*text, "'" + checkpoint.folder + "/" + name + "'");
    if (!parts.ok()) return parts.status();
    addParts(std::move(*parts), &checkpoint.manifest.parts);
  }
  return checkpoint;
}

}  // namespace hycrt
