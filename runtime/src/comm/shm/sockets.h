// The sockets that ranks meet over: a Unix socket, which carries whole messages and memfds, and knows whose process is
// at its other end; and a TCP port on the loopback, which only tells the Unix socket's name to whoever knows the job's
// token.
#ifndef HYCRT_SRC_COMM_SHM_SOCKETS_H_
#define HYCRT_SRC_COMM_SHM_SOCKETS_H_

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/environment.h"
#include "base/file.h"
#include "base/file_lock.h"
#include "hycrt/status.h"

namespace hycrt {

inline constexpr uint64_t kMessageMagic = 0x32304D4352594821;  // changes with the layout below
inline constexpr size_t kMaxMessageBytes = size_t{64} << 10;

enum class MessageType : uint32_t {
  kOpening,  // to rank 0: the handshake's first bytes (handshake.h), where there is a token
  kClaim,    // from rank 0: its second
  kProof,    // to rank 0, then from it: its third and fourth
  kHello,    // to rank 0: who this is; carries the rank's memfd
  kPeer,     // from rank 0: another rank's hello; carries that rank's memfd
  kGo,       // from rank 0: that was everyone
  kRefused,  // from rank 0: the job cannot start; `code` and `text` say why
  kFailed,   // to rank 0, in place of a hello: this rank has failed; `code` and `text` say why
  kCopies,   // between a rank and its host's keeper: `text` is a CopyMessage (copies/copy_message.h)
};

struct MessageHead {
  uint64_t magic = kMessageMagic;
  MessageType type = MessageType::kHello;
  int32_t rank = 0;
  int32_t worldSize = 0;
  int32_t processId = 0;
  int32_t code = 0;
  uint32_t textBytes = 0;  // the rest of the message is `agreement`
  uint64_t planHash = 0;
  int64_t blockBytes = 0;
};

struct Message : MessageHead {
  std::string text;             // the program's name, the reason of a refusal, or the handshake's bytes
  std::string agreement;        // of a hello to rank 0
  bool lostDescriptor = false;  // one came with it for which this process has no room
};

// Where ranks connect to. A path's file lies in a folder that is made here, is this user's and open to nobody else; it
// is locked while it is listened to, and gone afterwards.
class UnixListener {
 public:
  UnixListener() = default;
  UnixListener(UnixListener&&) = default;
  UnixListener& operator=(UnixListener&&) = default;
  ~UnixListener();

  static Result<UnixListener> listen(const std::string& name);
  const FileDescriptor& socket() const { return socket_; }

 private:
  FileLock lock_;
  FileDescriptor socket_;
  std::string path_;
};

// All non-blocking, and closed on exec.
Result<FileDescriptor> listenLoopback(int port);
// kUnavailable: what listens there is not to be trusted.
Result<FileDescriptor> connectUnix(const std::string& name);
Result<FileDescriptor> connectLoopback(int port);
// Begins to call an address of TCP: 0, EINPROGRESS, or why it cannot be called. Where nobody listens at a port that the
// system gives to callers it may be given to this one, which then would have called itself: that is refused.
int callTo(const sockaddr* address, socklen_t length, FileDescriptor* connection);
FileDescriptor acceptFrom(const FileDescriptor& listener);  // not open where nobody waits

// Whether the process at the other end of a Unix socket belongs to this user. Of a listener it is the one that listens.
bool isTrusted(const FileDescriptor& connection);

// passFd -1: none. A message is sent whole; a peer that does not read is given ten seconds.
Status sendMessage(const FileDescriptor& connection, const Message& message, int passFd);

// `passed` null: no descriptor is taken.
enum class Received { kMessage, kNothingYet, kClosed, kGarbage };
Received receiveMessage(const FileDescriptor& connection, Message* message, FileDescriptor* passed);

// Whether `events` come up on the descriptor before the deadline.
bool pollUntil(const FileDescriptor& connection, short events, int64_t deadlineMs);

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_SHM_SOCKETS_H_
