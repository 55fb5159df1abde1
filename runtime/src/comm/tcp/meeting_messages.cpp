// Sending and taking a meeting's messages.
#include "comm/tcp/meeting_messages.h"

#include <poll.h>

#include "base/clock.h"
#include "comm/shm/sockets.h"
#include "comm/tcp/wire.h"

namespace hycrt {
namespace {

constexpr int64_t kSendMs = 10000;
constexpr size_t kHeadBytes = 5;
constexpr size_t kMaxWordsBytes = size_t{16} << 10;

}  // namespace

Status MeetingStream::send(MeetingType type, const std::string& bytes) {
  WireWriter writer;
  writer.number(static_cast<uint32_t>(bytes.size()));
  writer.number(type);
  const std::string message = writer.take() + bytes;
  const int64_t deadline = monotonicMs() + kSendMs;
  for (size_t sent = 0; sent < message.size() || !stream_.hasFlushed();) {
    const int64_t left = static_cast<int64_t>(message.size() - sent);
    const int64_t count = left > 0 ? stream_.write(message.data() + sent, left) : stream_.flush() ? 0 : -1;
    if (count > 0) sent += static_cast<size_t>(count);
    const bool waits = count == 0 && (left > 0 || !stream_.hasFlushed());
    if (count < 0 || (waits && !pollUntil(connection(), POLLOUT, deadline))) {
      return {StatusCode::kPeerLost, "a rank left during the rendezvous: " + stream_.failure()};
    }
  }
  return {};
}

Heard MeetingStream::hear(MeetingMessage* message) {
  for (;;) {
    if (pending_.size() >= kHeadBytes) {
      WireReader reader(pending_);
      const uint32_t bytes = reader.number<uint32_t>();
      message->type = reader.number<MeetingType>();
      if (bytes > kMaxMessageBytes) return Heard::kGarbage;
      if (pending_.size() >= kHeadBytes + bytes) {
        message->bytes = pending_.substr(kHeadBytes, bytes);
        pending_.erase(0, kHeadBytes + bytes);
        return Heard::kMessage;
      }
    }
    char chunk[4096];
    const int64_t count = stream_.read(chunk, sizeof chunk);
    if (count == 0) return Heard::kNothingYet;
    if (count < 0) return Heard::kClosed;
    pending_.append(chunk, static_cast<size_t>(count));
  }
}

std::string encodeHello(const HostHello& hello, bool withAgreement) {
  WireWriter writer;
  writer.number(static_cast<int32_t>(hello.rank));
  writer.number(static_cast<int32_t>(hello.processId));
  writer.number(static_cast<int32_t>(hello.worldSize));
  writer.number(hello.planHash);
  writer.number(static_cast<int32_t>(hello.address.port));
  for (const std::string& text : {hello.program, hello.host, hello.machine, hello.address.text}) writer.text(text);
  writer.text(withAgreement ? hello.agreement : "");
  return writer.take();
}

bool decodeHello(const std::string& bytes, HostHello* hello) {
  WireReader reader(bytes);
  hello->rank = reader.number<int32_t>();
  hello->processId = reader.number<int32_t>();
  hello->worldSize = reader.number<int32_t>();
  hello->planHash = reader.number<uint64_t>();
  hello->address.port = reader.number<int32_t>();
  for (std::string* text : {&hello->program, &hello->host, &hello->machine, &hello->address.text}) {
    *text = reader.text();
  }
  hello->agreement = reader.text();
  return reader.isWhole() && reader.left() == 0;
}

std::string encodeStatus(const Status& status) {
  WireWriter writer;
  writer.number(static_cast<int32_t>(status.exitCode()));
  writer.text(status.message().substr(0, kMaxWordsBytes));
  return writer.take();
}

Status decodeStatus(const std::string& bytes) {
  WireReader reader(bytes);
  const int32_t found = reader.number<int32_t>();
  StatusCode code = StatusCode::kUnavailable;
  for (StatusCode known : {StatusCode::kUsage, StatusCode::kData, StatusCode::kUnavailable, StatusCode::kInternal,
                           StatusCode::kIo, StatusCode::kPeerLost}) {
    if (found == static_cast<int32_t>(known)) code = known;
  }
  return {code, "refused by rank 0: " + reader.text()};
}

std::string encodeFailure(const HostHello& hello, const std::string& why) {
  WireWriter writer;
  writer.text(encodeHello(hello, false));
  writer.text(why.substr(0, kMaxWordsBytes));
  return writer.take();
}

bool decodeFailure(const std::string& bytes, HostHello* hello, std::string* why) {
  WireReader reader(bytes);
  const std::string who = reader.text();
  *why = reader.text();
  return reader.isWhole() && decodeHello(who, hello);
}

}  // namespace hycrt
