// The directory of a safetensors file: u64 little-endian header length, a JSON header padded with spaces, then the
// tensors' bytes. Only the header is read; values stay where they are, and rank programs fetch their parts of them.
//
// A file is foreign input: nothing is allocated before sizes are known to fit the file, and what the format promises
// (no hole, no overlap, sizes that match shapes) is checked before anything relies on it.
#ifndef HYC_SUPPORT_SAFETENSORS_H
#define HYC_SUPPORT_SAFETENSORS_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hyc {

/// The format's own limit.
inline constexpr uint64_t kMaxSafeTensorsHeader = 100000000;

struct SafeTensor {
  std::string name;
  std::string type; ///< as the format spells it: "F32", "BF16", …
  llvm::SmallVector<int64_t> shape;
  int64_t offset = 0; ///< of the first byte, in the file
  int64_t bytes = 0;
};

/// Bytes of one element of a type of the format; 0 for a type that the format does not have.
int64_t safeTensorBytes(llvm::StringRef type);

/// Reads the header of `path`; tensors come in the order of their bytes. Errors say `FILE: TENSOR: found, expected`. A
/// pickle, which torch.save writes, is refused by its first bytes and never read further.
llvm::Expected<std::vector<SafeTensor>> readSafeTensorsHeader(llvm::StringRef path);

} // namespace hyc

#endif // HYC_SUPPORT_SAFETENSORS_H
