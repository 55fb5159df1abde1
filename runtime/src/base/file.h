// Files: a descriptor that closes itself, reads and writes that are complete or say why not.
#ifndef HYCRT_SRC_BASE_FILE_H_
#define HYCRT_SRC_BASE_FILE_H_

#include <cstdint>
#include <string>

#include "hycrt/status.h"

namespace hycrt {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~FileDescriptor() { reset(-1); }

  int get() const { return fd_; }
  bool isOpen() const { return fd_ >= 0; }
  int release();
  void reset(int fd);

 private:
  int fd_ = -1;
};

// Regular files only (a directory or a FIFO is refused).
Result<FileDescriptor> openForReading(const std::string& path);
Result<int64_t> fileSize(const FileDescriptor& file, const std::string& path);

// Exactly `bytes` at `offset`; a file that ends before is a data error that says where.
Status readAt(const FileDescriptor& file, const std::string& path, void* to, int64_t bytes, int64_t offset);
Status writeAt(const FileDescriptor& file, const std::string& path, const void* from, int64_t bytes, int64_t offset);

// Data error past maxBytes.
Result<std::string> readWholeFile(const std::string& path, int64_t maxBytes);
Result<std::string> readWholeFile(const FileDescriptor& file, const std::string& path, int64_t maxBytes);

// The folder that `path` lies in, for openat and its kin. Of a folder that this user's process has made itself, its own
// name is no link either.
enum class FolderLink { kFollow, kRefuse };
Result<FileDescriptor> openFolderOf(const std::string& path, FolderLink link = FolderLink::kFollow);

// A file that was not there before; nothing that another process has put in its place is opened or overwritten.
Result<FileDescriptor> createNew(const std::string& path, FolderLink link = FolderLink::kFollow);
// What another process of this user's has made in that way, to be written to.
Result<FileDescriptor> openMade(const std::string& path, FolderLink link = FolderLink::kFollow);

// The name under which a run makes what is to be called `path` when it is whole. `run` is the run's own.
std::string partialName(const std::string& path, const std::string& run);
// Gives `partial`, which is whole and synced, the name `path`, whatever file had it. A link there is refused.
Status publishFile(const std::string& partial, const std::string& path);
// A whole file of `text`: written to `partial`, then published; on failure nothing of it stays.
Status publishText(const std::string& partial, const std::string& path, const std::string& text);

// Makes a rename in the folder of `path` durable.
Status syncFolderOf(const std::string& path);

// A folder that was not there before.
Status createFolder(const std::string& path);
// The folder, with those that it is in, where they are not there yet.
Status makeFolders(const std::string& path);

// Whether two names mean one file; where one of them does not exist yet, whether they are spelled alike.
bool isSameFile(const std::string& a, const std::string& b);

// Whether the folder of `path` exists and may be written to.
Status checkFolderWritable(const std::string& path);

// Whether `path` is no link.
Status checkNoLink(const std::string& path);

// Whether a file can be made at `path`: it is no link, its folder exists and may be written to, and `path` is no folder
// itself.
Status checkWritable(const std::string& path);

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_FILE_H_
