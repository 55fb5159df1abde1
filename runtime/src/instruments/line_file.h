// LineFile: a file that only ever holds whole lines, for those who read it while a run goes on, and for the run that
// goes on with it. Nothing of it changes before its first line is written: a run that is refused leaves what was there.
#ifndef HYCRT_SRC_INSTRUMENTS_LINE_FILE_H_
#define HYCRT_SRC_INSTRUMENTS_LINE_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "base/file.h"
#include "hycrt/status.h"

namespace hycrt {

// On one thread.
class LineFile {
 public:
  // `kind` is what errors call it: "log file". A pipe or a device gets the lines and is never cut.
  static Result<LineFile> open(const std::string& path, const std::string& kind);

  bool isRegular() const { return isRegular_; }
  bool wasMade() const { return wasMade_; }
  const std::string& path() const { return path_; }

  // Up to `size` bytes from `offset` on; how many there were.
  Result<size_t> read(char* to, size_t size, int64_t offset) const;
  // Behind the last whole line: what an end in the middle of one has left does not count.
  Result<int64_t> endOfLines() const;
  // What lies behind `offset` goes, and lines follow there.
  Status cut(int64_t offset);
  // Lines with their ends. Where they do not go into the file whole, nothing of them stays in it.
  Status append(const char* lines, size_t size);

 private:
  LineFile(std::string path, std::string kind, FileDescriptor file)
      : path_(std::move(path)), kind_(std::move(kind)), file_(std::move(file)) {}
  Status cannot(const char* what, int error) const;

  std::string path_, kind_;
  FileDescriptor file_;
  bool isRegular_ = false, wasMade_ = false;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_INSTRUMENTS_LINE_FILE_H_
