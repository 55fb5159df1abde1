// MemoryFile: what a child prints, kept in memory. A file on the disk that a compiler has just filled would hold
// nothing of what it said about that.
#ifndef HYC_LIB_DRIVER_BUILD_MEMORYFILE_H
#define HYC_LIB_DRIVER_BUILD_MEMORYFILE_H

#include "llvm/Support/Error.h"

#include <cstddef>
#include <memory>
#include <string>

namespace hyc {

class MemoryFile {
public:
  /// Fails, saying why, where the system gives none or children could not open it.
  static llvm::Expected<std::unique_ptr<MemoryFile>> create();
  ~MemoryFile();
  MemoryFile(const MemoryFile &) = delete;
  MemoryFile &operator=(const MemoryFile &) = delete;

  /// What children of this process open it by.
  const std::string &getPath() const { return path; }
  /// Its beginning.
  std::string read(size_t most) const;

private:
  explicit MemoryFile(int descriptor);

  int descriptor;
  std::string path;
};

} // namespace hyc

#endif // HYC_LIB_DRIVER_BUILD_MEMORYFILE_H
