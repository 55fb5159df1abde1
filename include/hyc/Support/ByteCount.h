// Sizes of memory as people write them.
#ifndef HYC_SUPPORT_BYTECOUNT_H
#define HYC_SUPPORT_BYTECOUNT_H

#include "llvm/Support/Error.h"

namespace hyc {

/// "24GiB", "24 GB", "512MiB", "1048576": KiB, MiB, GiB, TiB are powers of 1,024, KB, MB, GB, TB of 1,000. Errors (64)
/// name the flag.
llvm::Expected<int64_t> parseByteCount(llvm::StringRef flag, llvm::StringRef text);

} // namespace hyc

#endif // HYC_SUPPORT_BYTECOUNT_H
