// StreamFile: a file that is written from its beginning to its end, summed on the way, and synced. And what may go
// wrong with writing a checkpoint on purpose (io/io_fault.h).
#ifndef HYCRT_SRC_CHECKPOINT_STREAM_FILE_H_
#define HYCRT_SRC_CHECKPOINT_STREAM_FILE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/secret.h"
#include "checkpoint/manifest.h"
#include "hycrt/status.h"
#include "io/io_fault.h"

namespace hycrt {

class StreamFile {
 public:
  // A file that was not there, in a folder that is no link.
  static Result<StreamFile> create(const std::string& path, IoFaults* faults);

  Status write(const void* from, int64_t bytes);
  // Where the next byte goes.
  int64_t position() const { return written_ + static_cast<int64_t>(buffer_.size()); }
  // `header`: what was written first, which says where tensors lie.
  Result<CheckpointFile> finish(const std::string& header);

 private:
  StreamFile(std::string path, FileDescriptor file, IoFaults* faults)
      : path_(std::move(path)), file_(std::move(file)), faults_(faults) {}
  Status flush();

  std::string path_;
  FileDescriptor file_;
  IoFaults* faults_;
  std::vector<std::byte> buffer_;  // of the chunk that is not written yet
  int64_t written_ = 0;
  CheckpointFile sums_;
  Sha256 sha_;
};

// fsync and rename, or what a test wants of them instead.
Status syncFile(const FileDescriptor& file, const std::string& path, IoFaults* faults);
Status syncFolder(const std::string& folder, IoFaults* faults);
Status faultOf(IoFaults* faults, IoOperation operation, const std::string& what);

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_STREAM_FILE_H_
