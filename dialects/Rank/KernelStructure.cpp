// Which values come from combinations, and the loops of kernels.
#include "dialects/Rank/KernelStructure.h"

using namespace mlir;
using namespace hyc::rank;

/// As many as kernels/reduce/op.h has (kReduceLanes), which no dialect may include.
static constexpr int64_t kLanes = 32;

llvm::DenseSet<Value> hyc::rank::combinedValues(Block &body) {
  llvm::DenseSet<Value> combined;
  for (Operation &op : body.without_terminator())
    if (isa<CombineOp>(op) || llvm::any_of(op.getOperands(), [&](Value value) { return combined.contains(value); }))
      combined.insert(op.result_begin(), op.result_end());
  return combined;
}

ReductionLoops hyc::rank::reductionLoops(KernelOp kernel) {
  ArrayRef<int64_t> space = kernel.getSpace(), reduced = kernel.getReduced();
  ReductionLoops loops;
  // Dimensions of size 1 change nothing: whether they were left out must not tell rows from columns.
  std::optional<unsigned> lastKept, lastReduced;
  for (unsigned dim = 0; dim < space.size(); ++dim) {
    bool isReduced = llvm::is_contained(reduced, static_cast<int64_t>(dim));
    (isReduced ? loops.steps : loops.outer).push_back(dim);
    std::optional<unsigned> &last = isReduced ? lastReduced : lastKept;
    if (space[dim] != 1 || (isReduced && !last))
      last = dim;
  }
  bool endsReduced = lastReduced && (!lastKept || *lastReduced > *lastKept);
  loops.isRows = !lastKept || (endsReduced && space[*lastReduced] >= kLanes);
  loops.inner = loops.isRows ? lastReduced.value_or(0) : *lastKept;
  llvm::erase(loops.isRows ? loops.steps : loops.outer, loops.inner);
  for (unsigned dim : loops.outer)
    loops.outerCount *= space[dim];
  for (unsigned dim : loops.steps)
    loops.stepCount *= space[dim];
  loops.innerCount = space.empty() ? 1 : space[loops.inner];
  return loops;
}

SmallVector<int64_t> hyc::rank::keptSpace(KernelOp kernel) {
  SmallVector<int64_t> space(kernel.getSpace());
  for (int64_t dim : kernel.getReduced())
    space[dim] = 1;
  return space;
}
