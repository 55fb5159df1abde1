// ReachedHeaders: what sources depend on beside themselves, by their own #include "…" and those of what they include.
// So a header that changes makes anew what can see it, and nothing else.
#ifndef HYC_LIB_DRIVER_BUILD_REACHEDHEADERS_H
#define HYC_LIB_DRIVER_BUILD_REACHEDHEADERS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hyc {

class ReachedHeaders {
public:
  /// Files are looked for beside who includes them, then in `folders`, in this order. What is found nowhere is the
  /// system's, as what is included by <…>, and counts as nothing.
  explicit ReachedHeaders(std::vector<std::string> folders) : folders(std::move(folders)) {}

  /// The hash of all that files of the first folder reach, with the names; conditions around an #include are not looked
  /// at. Threads may ask at the same time.
  std::string hashOf(llvm::ArrayRef<std::string> sources);

private:
  using Place = std::pair<size_t, std::string>; ///< the number of a folder, and a path in it
  struct File {
    std::string text;
    std::vector<std::string> includes; ///< as they are spelled
  };

  const std::optional<File> &read(const Place &place);
  std::optional<Place> find(const Place &includer, llvm::StringRef spelled);
  void reach(const Place &place, std::set<Place> &reached);

  std::vector<std::string> folders;
  std::mutex mutex;
  std::map<Place, std::optional<File>> files; ///< what has been looked for; nothing: it is not there
};

} // namespace hyc

#endif // HYC_LIB_DRIVER_BUILD_REACHEDHEADERS_H
