// CopyPeer: a connection between two keepers, by which one puts files into the other's memory, or gets some from there.
// Both have proved to know the job's token before a byte of a file is said; by TLS, unless all ranks talk in the clear.
// A peer that takes and gives nothing for the task's patience is lost. One thread's.
#ifndef HYCRT_SRC_COPIES_COPY_PEER_H_
#define HYCRT_SRC_COPIES_COPY_PEER_H_

#include <optional>
#include <string>

#include "comm/shm/handshake.h"
#include "comm/tcp/secure_stream.h"
#include "copies/copy_message.h"

namespace hycrt {

// What a keeper claims where `listener`, a keeper's number, is called.
Claim copyClaim(const KeeperTask& task, int listener);

class CopyPeer {
 public:
  static Result<CopyPeer> call(const KeeperTask& task, const KeeperAddress& address);
  // Of a connection whose caller has proved to know the token, as the keeper of that number.
  static Result<CopyPeer> answer(const KeeperTask& task, FileDescriptor connection, int caller);

  // When this returns the other has all of it.
  Status put(const CopyKey& key, const CopyKey& base, const std::string& name, const CopyFile& file);
  // Nothing: the other has it not.
  Result<std::optional<CopyFile>> get(const CopyKey& key, const std::string& name);
  // Does what the other side asks for, until it goes away.
  void serve(CopyStore& store);

 private:
  CopyPeer(SecureStream stream, int64_t patienceMs) : stream_(std::move(stream)), patienceMs_(patienceMs) {}

  Status write(const void* from, int64_t bytes);
  // `waits`: for the first byte as long as it takes.
  Status read(void* to, int64_t bytes, bool waits = false);
  Status say(const CopyMessage& message);
  Status hear(CopyMessage* message, bool waits = false);
  Status sendFile(const CopyFile& file);
  Result<CopyFile> receiveFile(int64_t bytes);
  Status lost(const char* why) const;
  Status answerOne(const CopyMessage& asked, CopyStore& store);

  SecureStream stream_;
  int64_t patienceMs_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COPIES_COPY_PEER_H_
