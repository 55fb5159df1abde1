// StreamFile: a file that is written from its beginning to its end, summed on the way, and synced. And what may go
// wrong with writing a checkpoint on purpose (io/io_fault.h).
#ifndef HYCRT_SRC_CHECKPOINT_STREAM_FILE_H_
#define HYCRT_SRC_CHECKPOINT_STREAM_FILE_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

#include "base/file.h"
#include "base/secret.h"
#include "checkpoint/manifest.h"
#include "checkpoint/write_behind.h"
#include "hycrt/status.h"
#include "io/io_fault.h"

namespace hycrt {

class StreamFile {
 public:
  // A file that was not there, in a folder that is no link. Where `givesUp` is given and becomes true, the next chunk
  // is an error.
  static Result<StreamFile> create(const std::string& path, IoFaults* faults,
                                   const std::atomic<bool>* givesUp = nullptr);

  // What was made elsewhere and is empty; `path` is what errors call it. Only memory: it is not synced, and has no
  // SHA-256.
  static StreamFile over(FileDescriptor memory, const std::string& path, const std::atomic<bool>* givesUp);

  Status write(const void* from, int64_t bytes);
  // Where the next byte goes.
  int64_t position() const { return written_ + filled_; }
  // `header`: what was written first, which says where tensors lie.
  Result<CheckpointFile> finish(const std::string& header);

 private:
  StreamFile(std::string path, FileDescriptor file, IoFaults* faults, const std::atomic<bool>* givesUp);
  Status flush();

  std::string path_;
  std::unique_ptr<FileDescriptor> file_;  // has its place while it is written
  IoFaults* faults_;
  const std::atomic<bool>* givesUp_;
  std::unique_ptr<WriteBehind> chunks_;
  int64_t filled_ = 0;  // of the chunk that is not written yet
  int64_t written_ = 0;
  bool isMemory_ = false;
  CheckpointFile sums_;
  Sha256 sha_;
};

// A whole file of `text`, synced; its name was free.
Status writeTextFile(const std::string& path, const std::string& text, IoFaults* faults = nullptr);

// fsync and rename, or what a test wants of them instead.
Status syncFile(const FileDescriptor& file, const std::string& path, IoFaults* faults);
Status syncFolder(const std::string& folder, IoFaults* faults);
Status faultOf(IoFaults* faults, IoOperation operation, const std::string& what);

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_STREAM_FILE_H_
