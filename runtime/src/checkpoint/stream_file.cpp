// A chunk at a time: collected, summed, written while the next ones are.
#include "checkpoint/stream_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/crc32c.h"

namespace hycrt {

Status faultOf(IoFaults* faults, IoOperation operation, const std::string& what) {
  const IoFault fault = faults ? faults->next(operation, 0) : IoFault();
  if (fault.delayMs > 0) std::this_thread::sleep_for(std::chrono::milliseconds(fault.delayMs));
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

StreamFile::StreamFile(std::string path, FileDescriptor file, IoFaults* faults, const std::atomic<bool>* givesUp)
    : path_(std::move(path)),
      file_(std::make_unique<FileDescriptor>(std::move(file))),
      faults_(faults),
      givesUp_(givesUp),
      chunks_(std::make_unique<WriteBehind>(*file_, path_)) {}

Result<StreamFile> StreamFile::create(const std::string& path, IoFaults* faults, const std::atomic<bool>* givesUp) {
  Result<FileDescriptor> file = createNew(path, FolderLink::kRefuse);
  if (!file.ok()) return file.status();
  return StreamFile(path, std::move(*file), faults, givesUp);
}

StreamFile StreamFile::over(FileDescriptor memory, const std::string& path, const std::atomic<bool>* givesUp) {
  StreamFile file(path, std::move(memory), nullptr, givesUp);
  file.isMemory_ = true;
  return file;
}

Status StreamFile::write(const void* from, int64_t bytes) {
  const auto* next = static_cast<const std::byte*>(from);
  while (bytes > 0) {
    const int64_t some = std::min(bytes, kChunkBytes - filled_);
    std::memcpy(chunks_->chunk() + filled_, next, static_cast<size_t>(some));
    next += some;
    bytes -= some;
    filled_ += some;
    if (filled_ == kChunkBytes) HYCRT_RETURN_IF_ERROR(flush());
  }
  return {};
}

Status StreamFile::flush() {
  if (filled_ == 0) return {};
  if (givesUp_ && *givesUp_) return ioError("'" + path_ + "' was given up: the run ends");
  const std::byte* const chunk = chunks_->chunk();
  sums_.sums.chunks.push_back(crc32c(0, chunk, static_cast<size_t>(filled_)));
  if (!isMemory_) sha_.add(chunk, static_cast<size_t>(filled_));
  HYCRT_RETURN_IF_ERROR(faultOf(faults_, IoOperation::kWrite, "cannot write '" + path_ + "'"));
  HYCRT_RETURN_IF_ERROR(chunks_->write(filled_));
  written_ += filled_;
  filled_ = 0;
  return {};
}

Result<CheckpointFile> StreamFile::finish(const std::string& header) {
  HYCRT_RETURN_IF_ERROR(flush());
  HYCRT_RETURN_IF_ERROR(chunks_->finish());
  if (!isMemory_) HYCRT_RETURN_IF_ERROR(syncFile(*file_, path_, faults_));
  sums_.sums.bytes = written_;
  sums_.sums.headerBytes = static_cast<int64_t>(header.size());
  sums_.sums.header = crc32c(0, header.data(), header.size());
  if (!isMemory_) sums_.sha256 = sha_.finish();
  return std::move(sums_);
}

Status writeTextFile(const std::string& path, const std::string& text, IoFaults* faults) {
  Result<StreamFile> file = StreamFile::create(path, faults);
  if (!file.ok()) return file.status();
  HYCRT_RETURN_IF_ERROR(file->write(text.data(), static_cast<int64_t>(text.size())));
  return file->finish("").status();
}

}  // namespace hycrt
