// ObjectCache: object files, and what else takes long to make, by the hash of what they were made from. Entries are
// written aside and renamed, so that two compilations may share the cache; a cache that cannot be read or written is as
// good as none. An entry ends with the hash of its contents and of its key: one that was cut off, changed or renamed is
// removed, and made again.
#ifndef HYC_LIB_DRIVER_BUILD_OBJECTCACHE_H
#define HYC_LIB_DRIVER_BUILD_OBJECTCACHE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>

namespace hyc {

class ObjectCache {
public:
  /// The cache of this user, maybe none.
  static ObjectCache ofUser();

  /// Copies the entry to `object` if there is one.
  bool fetch(llvm::StringRef key, llvm::StringRef object) const;
  void store(llvm::StringRef key, llvm::StringRef object) const;
  /// The same of contents in memory.
  std::optional<std::string> read(llvm::StringRef key) const;
  void write(llvm::StringRef key, llvm::StringRef contents) const;
  /// Removes the entries that were not used for longest until all take at most `maxBytes`.
  void prune(uint64_t maxBytes) const;

private:
  std::string pathOf(llvm::StringRef key) const;
  std::string folder; ///< empty: no cache
};

/// SHA-256 in hexadecimal of parts, each with its length, so that no two lists of parts look alike.
std::string hashParts(llvm::ArrayRef<llvm::StringRef> parts);

} // namespace hyc

#endif // HYC_LIB_DRIVER_BUILD_OBJECTCACHE_H
