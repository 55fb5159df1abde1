// A name that nobody else takes, for what is written aside. LLVM's makes a pattern of the whole path, and would change
// a percent sign of the user's, too.
#ifndef HYC_LIB_DRIVER_FOLDER_UNIQUENAME_H
#define HYC_LIB_DRIVER_FOLDER_UNIQUENAME_H

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"

#include <string>

namespace hyc {

inline std::string uniqueName(const std::string &prefix) {
  llvm::SmallString<16> random;
  llvm::sys::fs::createUniquePath("%%%%%%%%", random, /*MakeAbsolute=*/false);
  return prefix + std::string(random);
}

} // namespace hyc

#endif // HYC_LIB_DRIVER_FOLDER_UNIQUENAME_H
