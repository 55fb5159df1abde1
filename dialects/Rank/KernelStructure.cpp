// Which values come from combinations, and the loops of kernels.
#include "dialects/Rank/KernelStructure.h"

using namespace mlir;
using namespace hyc::rank;

/// As many as kernels/reduce/op.h has (kLanes), which no dialect may include.
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
  SmallVector<unsigned> kept, combined;
  for (unsigned dim = 0; dim < space.size(); ++dim)
    (llvm::is_contained(reduced, dim) ? combined : kept).push_back(dim);
  bool endsReduced = !combined.empty() && combined.back() + 1 == space.size();
  loops.isRows = kept.empty() || (endsReduced && space.back() >= kLanes);
  SmallVector<unsigned> &side = loops.isRows ? combined : kept;
  loops.inner = side.empty() ? 0 : side.pop_back_val();
  loops.outer = kept;
  loops.steps = combined;
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
