// Opening a file that the user names: once, and only what ends and can be mapped. A FIFO would be waited for, a device
// or a file of /proc read for ever.
#ifndef HYC_SUPPORT_INPUTFILE_H
#define HYC_SUPPORT_INPUTFILE_H

#include "hyc/Support/DriverError.h"
#include "llvm/Support/MemoryBuffer.h"

namespace hyc {

/// Of a model that holds its values; nothing else may be as large.
constexpr uint64_t kMaxModelBytes = uint64_t(1) << 42;
/// Of a text that is parsed whole.
constexpr uint64_t kMaxTextBytes = uint64_t(1) << 30;

/// What the file holds. Fails with 74 where it cannot be opened, and with 65 where it is no regular file or has more
/// than `most` bytes; the message does not name the file.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> openInputFile(llvm::StringRef path, uint64_t most,
                                                                  bool endsWithNul = false);

} // namespace hyc

#endif // HYC_SUPPORT_INPUTFILE_H
