// The messages of a meeting: u32 length, u8 type, then what the type has.
#ifndef HYCRT_SRC_COMM_TCP_MEETING_MESSAGES_H_
#define HYCRT_SRC_COMM_TCP_MEETING_MESSAGES_H_

#include <cstdint>
#include <string>

#include "comm/tcp/meeting.h"
#include "comm/tcp/secure_stream.h"

namespace hycrt {

enum class MeetingType : uint8_t {
  kHello,    // to rank 0: who this is
  kFailed,   // to rank 0, in place of a hello: this rank has failed, and why
  kPeer,     // from rank 0: another rank's hello
  kGo,       // from rank 0: that was everyone; the meeting's name
  kRefused,  // from rank 0: the job cannot start; a status
};

struct MeetingMessage {
  MeetingType type = MeetingType::kHello;
  std::string bytes;
};

enum class Heard { kMessage, kNothingYet, kClosed, kGarbage };

class MeetingStream {
 public:
  MeetingStream() = default;
  explicit MeetingStream(SecureStream stream) : stream_(std::move(stream)) {}

  SecureStream& stream() { return stream_; }
  const FileDescriptor& connection() const { return stream_.connection(); }
  bool isOpen() const { return stream_.connection().isOpen(); }

  // Whole; a peer that does not read is given ten seconds.
  Status send(MeetingType type, const std::string& bytes);
  Heard hear(MeetingMessage* message);

 private:
  SecureStream stream_;
  std::string pending_;
};

std::string encodeHello(const HostHello& hello, bool withAgreement);
bool decodeHello(const std::string& bytes, HostHello* hello);
std::string encodeStatus(const Status& status);
// What another process says is a code only where it is one of an error.
Status decodeStatus(const std::string& bytes);
std::string encodeFailure(const HostHello& hello, const std::string& why);
bool decodeFailure(const std::string& bytes, HostHello* hello, std::string* why);

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_TCP_MEETING_MESSAGES_H_
