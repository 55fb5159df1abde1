// The two kinds of sockets that ranks meet over: an abstract Unix socket, which carries whole messages and memfds, and
// a TCP port on the loopback, which only tells the Unix socket's name to whoever knows the job's token.
#ifndef HYCRT_SRC_COMM_SHM_SOCKETS_H_
#define HYCRT_SRC_COMM_SHM_SOCKETS_H_

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/environment.h"
#include "base/file.h"
#include "hycrt/status.h"

namespace hycrt {

inline constexpr uint64_t kMessageMagic = 0x31304D4352594821;  // changes with the layout below
inline constexpr size_t kMessageTextBytes = 512;

enum class MessageType : uint32_t {
  kHello,    // to rank 0: who this is; carries the rank's memfd
  kPeer,     // from rank 0: another rank's hello; carries that rank's memfd
  kGo,       // from rank 0: that was everyone
  kRefused,  // from rank 0: the job cannot start; `code` and `text` say why
};

struct Message {
  uint64_t magic = kMessageMagic;
  MessageType type = MessageType::kHello;
  int32_t rank = 0;
  int32_t worldSize = 0;
  int32_t processId = 0;
  int32_t code = 0;
  uint64_t planHash = 0;
  int64_t blockBytes = 0;
  char token[kMaxTokenBytes + 1] = {};
  char text[kMessageTextBytes] = {};  // the program's name, or the reason of a refusal
};

void setText(Message* message, const std::string& text);

// All non-blocking, and closed on exec.
Result<FileDescriptor> listenUnix(const std::string& name);
Result<FileDescriptor> listenLoopback(int port);
Result<FileDescriptor> connectUnix(const std::string& name);
Result<FileDescriptor> connectLoopback(int port);
FileDescriptor acceptFrom(const FileDescriptor& listener);  // not open where nobody waits

// Whether the process at the other end of a Unix socket belongs to this user (or to root).
bool isTrusted(const FileDescriptor& connection);

// passFd -1: none. A message is sent whole; a peer that does not read is given ten seconds.
Status sendMessage(const FileDescriptor& connection, const Message& message, int passFd);

enum class Received { kMessage, kNothingYet, kClosed, kGarbage };
Received receiveMessage(const FileDescriptor& connection, Message* message, FileDescriptor* passed);

// Whether `events` come up on the descriptor before the deadline.
bool pollUntil(const FileDescriptor& connection, short events, int64_t deadlineMs);

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_SHM_SOCKETS_H_
