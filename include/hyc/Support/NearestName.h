// The known name that an unknown one was probably meant to be.
#ifndef HYC_SUPPORT_NEARESTNAME_H
#define HYC_SUPPORT_NEARESTNAME_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace hyc {

/// Insertions, deletions and substitutions between two names. Work is bounded: of a longer name only the first 100
/// characters count.
unsigned nameDistance(llvm::StringRef a, llvm::StringRef b);

/// The first of those with the least distance to `name`; empty if there is none to choose from.
llvm::StringRef nearestName(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> known);

} // namespace hyc

#endif // HYC_SUPPORT_NEARESTNAME_H
