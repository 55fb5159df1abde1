// How a rank.call says that its indices have to be checked when they are used, since the model computes them.
#ifndef HYC_DIALECTS_RANK_INDEXCHECKS_H
#define HYC_DIALECTS_RANK_INDEXCHECKS_H

#include "llvm/ADT/StringRef.h"

namespace hyc::rank {

/// One more than the largest index that is allowed (i64).
inline constexpr llvm::StringLiteral kIndexBound = "index_bound";
/// The operand that holds the indices, by its name in the kernel's description.
inline constexpr llvm::StringLiteral kIndexOperand = "index_operand";

} // namespace hyc::rank

#endif // HYC_DIALECTS_RANK_INDEXCHECKS_H
