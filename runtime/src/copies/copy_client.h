// CopyClient: a rank's way to the keeper of its host, by a Unix socket; only another process of this user is trusted.
// One thread's at a time.
#ifndef HYCRT_SRC_COPIES_COPY_CLIENT_H_
#define HYCRT_SRC_COPIES_COPY_CLIENT_H_

#include <atomic>
#include <string>

#include "checkpoint/checkpoint_folder.h"
#include "copies/copy_message.h"

namespace hycrt {

class CopyClient {
 public:
  // `socket`: its name, as the keeper has told it.
  static Result<CopyClient> connect(const std::string& socket);

  // When this returns two hosts have it. `memory` is sealed; where `givesUp` becomes true it is not waited for.
  Status put(const CopyKey& key, const CopyKey& base, const std::string& name, const FileDescriptor& memory,
             const std::atomic<bool>& givesUp);
  // Of whichever keeper has it; where none does, an error.
  Result<FileDescriptor> get(const CopyKey& key, const std::string& name);

 private:
  explicit CopyClient(FileDescriptor connection) : connection_(std::move(connection)) {}
  Status ask(const CopyMessage& message, int passFd, const std::atomic<bool>* givesUp, CopyMessage* answer,
             FileDescriptor* passed);

  FileDescriptor connection_;
};

// The files of a copy, for a reader of checkpoints.
class CopyFiles : public CheckpointFiles {
 public:
  CopyFiles(std::string socket, const CopyKey& key) : socket_(std::move(socket)), key_(key) {}
  Result<FileDescriptor> open(const std::string& name) const override;

 private:
  const std::string socket_;
  const CopyKey key_;
};

// The whole of a copy: what rank 0 has said of it, and the parts of all ranks.
Result<Checkpoint> openCopy(const std::string& socket, const CopyKey& key);

}  // namespace hycrt

#endif  // HYCRT_SRC_COPIES_COPY_CLIENT_H_
