// OutputFolder: the compiled folder, all or nothing. Files are written into a staging folder inside it, on the same
// file system, and renamed at the end, manifest last: a folder with a manifest is complete. What else lies in the
// folder (logs of earlier runs) is left alone.
#ifndef HYC_LIB_DRIVER_OUTPUTFOLDER_H
#define HYC_LIB_DRIVER_OUTPUTFOLDER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace hyc {

class OutputFolder {
public:
  /// Refuses, before anything is computed, a path that is a file, that cannot be written, or whose results would
  /// replace `input`.
  static llvm::Expected<OutputFolder> open(llvm::StringRef path, llvm::StringRef input);
  OutputFolder(OutputFolder &&other);
  ~OutputFolder();

  /// The final path.
  const std::string &path() const { return folder; }
  /// Where `relative` lies until commit.
  std::string staged(const llvm::Twine &relative) const;
  /// Creates parent folders as needed.
  llvm::Error write(llvm::StringRef relative, llvm::StringRef contents);
  /// Replaces what an earlier compilation left by what is staged.
  llvm::Error commit();

private:
  OutputFolder() = default;

  std::string folder, staging;
  std::vector<std::string> created; ///< folders that did not exist, outermost first
};

/// Writes `path` aside and renames it.
llvm::Error writeFileWhole(llvm::StringRef path, llvm::StringRef contents);

} // namespace hyc

#endif // HYC_LIB_DRIVER_OUTPUTFOLDER_H
