// FileLock: a file that one process holds, and that says which. It is gone with its holder's hold, and a holder that
// was killed holds nothing any more.
#ifndef HYCRT_SRC_BASE_FILE_LOCK_H_
#define HYCRT_SRC_BASE_FILE_LOCK_H_

#include <string>

#include "base/file.h"
#include "hycrt/status.h"

namespace hycrt {

class FileLock {
 public:
  FileLock() = default;
  FileLock(FileLock&&) = default;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock() { release(); }

  // Makes the file where it is missing; follows no link. On a file system without locks all it does. Does not wait:
  // kUnavailable names who holds it. `purpose` is what others are told of this process, beside its number: "saving
  // weights".
  static Result<FileLock> take(const std::string& path, const std::string& purpose);

  bool isHeld() const { return file_.isOpen(); }
  // Whether nobody else can hold it.
  bool isExclusive() const { return isExclusive_; }
  void release();

 private:
  FileDescriptor folder_;
  FileDescriptor file_;
  std::string name_;  // in the folder
  bool isExclusive_ = false;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_FILE_LOCK_H_
