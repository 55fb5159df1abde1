// A chunk at a time: collected, summed, written.
#include "checkpoint/stream_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/crc32c.h"

namespace hycrt {

Status faultOf(IoFaults* faults, IoOperation operation, const std::string& what) {
  const IoFault fault = faults ? faults->next(operation, 0) : IoFault();
  return fault.error ? errnoError(what, fault.error) : Status();
}

Status syncFile(const FileDescriptor& file, const std::string& path, IoFaults* faults) {
  const std::string what = "cannot sync '" + path + "'";
  HYCRT_RETURN_IF_ERROR(faultOf(faults, IoOperation::kSync, what));
  return fsync(file.get()) == 0 ? Status() : errnoError(what, errno);
}

Status syncFolder(const std::string& folder, IoFaults* faults) {
  FileDescriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.isOpen()) return errnoError("cannot open the folder '" + folder + "'", errno);
  return syncFile(opened, folder, faults);
}

Result<StreamFile> StreamFile::create(const std::string& path, IoFaults* faults) {
  Result<FileDescriptor> file = createNew(path, FolderLink::kRefuse);
  if (!file.ok()) return file.status();
  return StreamFile(path, std::move(*file), faults);
}

Status StreamFile::write(const void* from, int64_t bytes) {
  const auto* next = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    if (buffer_.empty()) buffer_.reserve(static_cast<size_t>(kChunkBytes));
    const int64_t some = std::min(bytes, kChunkBytes - static_cast<int64_t>(buffer_.size()));
    buffer_.insert(buffer_.end(), next, next + some);
    next += some;
    bytes -= some;
    if (static_cast<int64_t>(buffer_.size()) == kChunkBytes) HYCRT_RETURN_IF_ERROR(flush());
  }
  return {};
}

Status StreamFile::flush() {
  if (buffer_.empty()) return {};
  sums_.sums.chunks.push_back(crc32c(0, buffer_.data(), buffer_.size()));
  sha_.add(buffer_.data(), buffer_.size());
  HYCRT_RETURN_IF_ERROR(faultOf(faults_, IoOperation::kWrite, "cannot write '" + path_ + "'"));
  HYCRT_RETURN_IF_ERROR(writeAt(file_, path_, buffer_.data(), static_cast<int64_t>(buffer_.size()), written_));
  written_ += static_cast<int64_t>(buffer_.size());
  buffer_.clear();
  return {};
}

Result<CheckpointFile> StreamFile::finish(const std::string& header) {
  HYCRT_RETURN_IF_ERROR(flush());
  HYCRT_RETURN_IF_ERROR(syncFile(file_, path_, faults_));
  sums_.sums.bytes = written_;
  sums_.sums.headerBytes = static_cast<int64_t>(header.size());
  sums_.sums.header = crc32c(0, header.data(), header.size());
  sums_.sha256 = sha_.finish();
  return std::move(sums_);
}

}  // namespace hycrt
