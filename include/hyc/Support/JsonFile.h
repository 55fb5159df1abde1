// Reading a JSON file that the user names, with the exit status for each way it can fail.
#ifndef HYC_SUPPORT_JSONFILE_H
#define HYC_SUPPORT_JSONFILE_H

#include "hyc/Support/LocatedJson.h"

namespace hyc {

/// The text of `path`, which `flag` names; 74 where it cannot be read, 65 where it has more than `most` bytes.
llvm::Expected<std::string> readTextFile(llvm::StringRef flag, const std::string &path, uint64_t most);

/// A located error as wrong data (65).
llvm::Error asDataError(llvm::Error error);

/// Has `read` take what it wants of the object that the file is; errors are those of readTextFile, and 65 with the
/// place.
llvm::Error readJsonFile(llvm::StringRef flag, const std::string &path, uint64_t most,
                         llvm::function_ref<llvm::Error(const JsonObjectReader &)> read);

} // namespace hyc

#endif // HYC_SUPPORT_JSONFILE_H
