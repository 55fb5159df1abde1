// What follows from a kernel's body and space alone: which values come from combinations, and in which order elements
// are combined. The printer and the interpreter both read it here, so that they add in the same order.
#ifndef HYC_DIALECTS_RANK_KERNELSTRUCTURE_H
#define HYC_DIALECTS_RANK_KERNELSTRUCTURE_H

#include "dialects/Rank/RankDialect.h"

#include "llvm/ADT/DenseSet.h"

namespace hyc::rank {

/// What rank.combine gives in this body, and what is computed from it: one element an index of the kept dimensions.
llvm::DenseSet<mlir::Value> combinedValues(mlir::Block &body);

/// The loops of a kernel that combines: all of `outer`, in each all of `steps`, in each `inner`.
///
/// Where the last dimension is reduced it is `inner`, and its elements go to lanes (kernels/reduce/op.h: rows). Where
/// it is shorter than the lanes are many, as a line of a small image, the reduced ones right before it are counted
/// through with it, as many as make it long enough. Else `inner` is the last kept dimension, every column of which is
/// combined by itself (columns); so it is too where no such row is long enough, since most lanes would have nothing to
/// add. Dimensions of size 1 do not count.
struct ReductionLoops {
  llvm::SmallVector<unsigned> outer; ///< kept dimensions, but `inner`
  llvm::SmallVector<unsigned> steps; ///< reduced dimensions, but `inner`
  llvm::SmallVector<unsigned> inner; ///< several only of rows
  bool isRows = false;
  int64_t outerCount = 1, stepCount = 1, innerCount = 1; ///< how many indices
};
ReductionLoops reductionLoops(llvm::ArrayRef<int64_t> space, llvm::ArrayRef<int64_t> reduced);
ReductionLoops reductionLoops(KernelOp kernel);

/// The space with size 1 where it is reduced: that of what comes from combinations.
llvm::SmallVector<int64_t> keptSpace(KernelOp kernel);

} // namespace hyc::rank

#endif // HYC_DIALECTS_RANK_KERNELSTRUCTURE_H
