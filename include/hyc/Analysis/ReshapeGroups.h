// What a reshape does, dimension by dimension: the shortest runs of dimensions, on both sides, whose products agree.
//
// [2, 16, 96] -> [32, 3, 4, 8] is the merge of (2, 16) into 32 and the split of 96 into (3, 4, 8).
#ifndef HYC_ANALYSIS_RESHAPEGROUPS_H
#define HYC_ANALYSIS_RESHAPEGROUPS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include <cstdint>

namespace hyc {

/// Dimensions [fromBegin, fromEnd) become dimensions [toBegin, toEnd). Neither range is empty, unless that whole shape
/// is.
struct ReshapeGroup {
  int64_t fromBegin, fromEnd, toBegin, toEnd;
  int64_t fromCount() const { return fromEnd - fromBegin; }
  int64_t toCount() const { return toEnd - toBegin; }
};

using ReshapeGroups = llvm::SmallVector<ReshapeGroup, 4>;

/// The groups of a reshape, in order; both shapes have the same number of elements, which is not 0. Dimensions of size
/// 1 belong to the group before them, or the first one.
ReshapeGroups groupReshape(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

/// Every result dimension is a product of dimensions of the operand.
bool isMerge(const ReshapeGroups &groups);
/// Every operand dimension is a product of dimensions of the result.
bool isSplit(const ReshapeGroups &groups);

} // namespace hyc

#endif // HYC_ANALYSIS_RESHAPEGROUPS_H
