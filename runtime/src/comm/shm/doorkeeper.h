// Doorkeeper: rank 0's TCP port, as long as ranks are still expected. Whoever sends the job's token in one small frame
// is told the name of the Unix socket; everything else (HTTP, TLS, a frame of 2^31 bytes, a wrong token, a client that
// says nothing) is dropped with a warning, and never holds up the ranks.
//
//   frame: 4 bytes "HYCR", u32 length (little-endian, at most kMaxTokenBytes), then the bytes; both ways the same
#ifndef HYCRT_SRC_COMM_SHM_DOORKEEPER_H_
#define HYCRT_SRC_COMM_SHM_DOORKEEPER_H_

#include <poll.h>

#include <list>
#include <string>
#include <vector>

#include "comm/shm/sockets.h"

namespace hycrt {

std::string encodeFrame(const std::string& payload);

enum class FrameState { kIncomplete, kComplete, kInvalid };

// Of the bytes received so far; the payload is set where the frame is complete.
FrameState decodeFrame(const std::string& bytes, std::string* payload);

class Doorkeeper {
 public:
  Doorkeeper(FileDescriptor listener, std::string token, std::string socketName);

  // What to poll for; the caller polls these with its own descriptors and then calls serve().
  void addPolled(std::vector<pollfd>* polled) const;

  // Handles whatever can be handled without waiting.
  void serve();

 private:
  struct Stranger {
    FileDescriptor connection;
    std::string bytes;
    int64_t deadlineMs;
  };

  void acceptAll();
  // Whether the stranger is done with, for better or worse.
  bool serveOne(Stranger& stranger);

  FileDescriptor listener_;
  std::string token_;
  std::string socketName_;
  std::list<Stranger> strangers_;
};

// The other side: asks the doorkeeper at `port` until the deadline. kUnavailable where nobody answers properly.
Result<std::string> askDoorkeeper(int port, const std::string& token, int64_t deadlineMs);

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_SHM_DOORKEEPER_H_
