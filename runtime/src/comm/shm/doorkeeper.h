// Doorkeeper: rank 0's TCP port, as long as ranks are still expected. Whoever proves to know the job's token
// (handshake.h) is told the name of the Unix socket, with rank 0's own proof; everything else (HTTP, TLS, a frame of
// 2^31 bytes, another token, a client that says nothing) is dropped with a warning, and never holds up the ranks.
//
//   frame: 4 bytes "HYCR", u32 length (little-endian, at most kMaxFrameBytes), then the bytes; both ways the same
#ifndef HYCRT_SRC_COMM_SHM_DOORKEEPER_H_
#define HYCRT_SRC_COMM_SHM_DOORKEEPER_H_

#include <poll.h>

#include <list>
#include <string>
#include <utility>
#include <vector>

#include "comm/shm/handshake.h"
#include "comm/shm/sockets.h"

namespace hycrt {

inline constexpr size_t kMaxFrameBytes = 256;

std::string encodeFrame(const std::string& payload);

enum class FrameState { kIncomplete, kComplete, kInvalid };

// Takes the first frame from the bytes received so far, and sets the payload to its own.
FrameState takeFrame(std::string* bytes, std::string* payload);

// Where a job says what came to it, a line each: the first few, then how many more there were, once they are over.
class DropLog {
 public:
  ~DropLog();
  void dropped(const std::string& why);

 private:
  int64_t count_ = 0;
};

class Doorkeeper {
 public:
  Doorkeeper(FileDescriptor listener, std::string token, const Claim& own, std::string socketName);

  // What to poll for; the caller polls these with its own descriptors and then calls serve().
  void addPolled(std::vector<pollfd>* polled) const;

  // Where descriptors run out. False: nobody is there who could go.
  bool dropOldest();

  // Handles whatever can be handled without waiting.
  void serve();

  // Where connections go on after the proofs: those that have proved to know the token since they were last asked for.
  struct Admitted {
    FileDescriptor connection;
    Claim claim;
  };
  void keepAdmitted() { keeps_ = true; }
  std::vector<Admitted> takeAdmitted() { return std::exchange(admitted_, {}); }

  // For who serves that port next, of whom those who call already are heard.
  FileDescriptor takeListener() { return std::move(listener_); }

 private:
  struct Stranger {
    FileDescriptor connection;
    HubHandshake handshake;
    std::string bytes;
    int64_t deadlineMs;
    bool hasOpened = false;
  };

  void acceptAll();
  // Whether the stranger is done with, for better or worse.
  bool serveOne(Stranger& stranger);
  bool answer(Stranger& stranger, const std::string& payload);

  FileDescriptor listener_;
  std::string token_;
  Claim own_;
  std::string socketName_;
  std::list<Stranger> strangers_;
  bool keeps_ = false;
  std::vector<Admitted> admitted_;
  DropLog log_;
};

// The other side, over a connection that may still be in the making: what is said to this rank once both have proved to
// know the token. Of what comes after that no byte is taken.
Result<std::string> proveOver(const FileDescriptor& connection, const std::string& token, const Claim& own,
                              int64_t deadlineMs);

// What a rank that finds no rank 0 had better look at: a rank 0 has begun with whoever came first as that rank.
std::string hintsOfMissingHub(int rank, bool hasToken);

// The same over the loopback: asks the doorkeeper at `port` until the deadline. kUnavailable where nobody proves to be
// rank 0.
Result<std::string> askDoorkeeper(int port, const std::string& token, const Claim& own, int64_t deadlineMs);

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_SHM_DOORKEEPER_H_
