// CopyStore: what a keeper holds: files of checkpoints by copy and name, each a sealed piece of anonymous memory that
// nobody can change any more. Of copies there are two at most: that which is being put and that which its ranks know to
// be whole; whatever else there was goes when a newer one begins. Thread-safe.
#ifndef HYCRT_SRC_COPIES_COPY_STORE_H_
#define HYCRT_SRC_COPIES_COPY_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "hycrt/copies.h"
#include "hycrt/status.h"

namespace hycrt {

// A file in memory; several may hold it.
struct CopyFile {
  std::shared_ptr<const FileDescriptor> memory;
  int64_t bytes = 0;
};

// Anonymous memory that can be sealed.
Result<FileDescriptor> makeCopyMemory();
// From here on it stays as it is, whoever has it.
Status sealCopy(const FileDescriptor& memory);
// What another process has given: an error where it could still change, or is no such memory.
Result<CopyFile> takeSealed(FileDescriptor memory, int64_t bytes);

// Names of what lies beside the files of a checkpoint's parts: what a rank has written (checkpoint/manifest.h:
// encodeCheckpointParts), and the manifest without parts, of rank 0.
std::string copyTableName(int rank);
inline constexpr const char* kCopyHead = "checkpoint.json";

class CopyStore {
 public:
  // Of a copy that is newer than any other, or the newest: others than it and `base` go. kUnavailable: it is older.
  Status put(const CopyKey& key, const CopyKey& base, const std::string& name, CopyFile file);
  // What another keeper has given of a copy that is read; it goes when a newer copy begins.
  void keep(const CopyKey& key, const std::string& name, CopyFile file);
  std::optional<CopyFile> find(const CopyKey& key, const std::string& name) const;

  // Reads every byte of what it has, and leaves out what is not as it was written. `looksOn` is called after each
  // chunk.
  std::vector<CopyHolding> holdings(const std::function<void()>& looksOn = {}) const;
  int64_t bytes() const;
  int64_t mostBytes() const;

 private:
  void count();

  mutable std::mutex mutex_;
  std::map<CopyKey, std::map<std::string, CopyFile>> copies_, fetched_;
  CopyKey newest_;
  int64_t bytes_ = 0, mostBytes_ = 0;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COPIES_COPY_STORE_H_
