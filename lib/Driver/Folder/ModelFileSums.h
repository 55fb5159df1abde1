// What a model's file holds, for the manifest. Reading all of it again is saved where an earlier compilation did, and
// neither time, size nor inode of the file have changed since: the sums are kept in the cache of objects.
#ifndef HYC_LIB_DRIVER_FOLDER_MODELFILESUMS_H
#define HYC_LIB_DRIVER_FOLDER_MODELFILESUMS_H

#include "hycrt/file_sums.h"
#include "llvm/Support/Error.h"

namespace hyc {

llvm::Expected<hycrt::FileSums> measureModelFile(const std::string &path);

} // namespace hyc

#endif // HYC_LIB_DRIVER_FOLDER_MODELFILESUMS_H
