// OutputFolder: the compiled folder, all or nothing. Files are written into a staging folder inside it, on the same
// file system, and renamed at the end, manifest last: a folder with a manifest is complete.
//
// The folder may hold the user's files too (logs, saved weights). What an earlier compilation made, and nobody has
// changed since, is replaced or removed; everything else stays as it is, and where it is in the way the compilation is
// refused with its name, before anything is touched. An input of the same command is never replaced; a plan.json that
// is one is kept as plan.json.bak.
#ifndef HYC_LIB_DRIVER_FOLDER_OUTPUTFOLDER_H
#define HYC_LIB_DRIVER_FOLDER_OUTPUTFOLDER_H

#include "Folder/Caretaker.h"
#include "Folder/FileLedger.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace hyc {

/// A file or folder that the command reads, and the flag that names it; empty for the model itself.
struct InputPath {
  std::string flag, path;
};

class OutputFolder {
public:
  /// Refuses, before anything is computed, a path that is a file, that cannot be written, or in which a file that is
  /// not hyc's is surely in the way, or in which another compilation is at work. Removes what compilations that were
  /// killed have left.
  static llvm::Expected<OutputFolder> open(llvm::StringRef path, llvm::ArrayRef<InputPath> inputs);
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
  llvm::Error createFolders();
  llvm::Error lockFolder();
  llvm::Error createStaging();
  /// Whether `relative` is a plan that this compilation started from, and is kept beside the new one.
  bool isBackedUp(const std::string &relative) const;
  /// Refuses where `relative` of the folder is an input, or lies in one that is a folder.
  llvm::Error checkInputs(const std::string &relative) const;
  /// Refuses where something that is not hyc's, or an input, stands at `relative`.
  llvm::Error checkPlace(const std::string &relative) const;
  llvm::Error replace(const std::set<std::string> &made);
  void removeEmptyFolders() const;

  std::string folder, staging;
  std::vector<InputPath> inputs;
  FileLedger earlier;
  std::unique_ptr<Caretaker> caretaker; ///< of the staging folder, until it is committed
  int lock = -1;                        ///< held while the staging folder is somebody's
  int folderLock = -1;                  ///< held until this is gone
  std::vector<std::string> created;     ///< folders that did not exist, outermost first
};

/// Writes `path` aside and renames it; what is no plain file (/dev/null, a pipe) is written as it is. Refuses to
/// replace one of the inputs.
llvm::Error writeFileWhole(llvm::StringRef path, llvm::StringRef contents, llvm::ArrayRef<InputPath> inputs = {});

} // namespace hyc

#endif // HYC_LIB_DRIVER_FOLDER_OUTPUTFOLDER_H
