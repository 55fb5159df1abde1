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

/// The reduced dimensions at the end of the space that make a row, in order; none where there is no row.
static SmallVector<unsigned> rowOf(ArrayRef<int64_t> space, ArrayRef<int64_t> reduced) {
  // Dimensions of size 1 change nothing: whether they were left out must not tell rows from columns.
  const bool isAll = llvm::all_of(llvm::enumerate(space), [&](auto dim) {
    return dim.value() == 1 || llvm::is_contained(reduced, static_cast<int64_t>(dim.index()));
  });
  SmallVector<unsigned> row;
  int64_t length = 1;
  for (unsigned dim = space.size(); dim-- > 0 && (row.empty() || length < kLanes);) {
    if (space[dim] == 1)
      continue;
    if (!llvm::is_contained(reduced, static_cast<int64_t>(dim)))
      break;
    row.insert(row.begin(), dim);
    length *= space[dim];
  }
  // One result has no columns.
  if (row.empty() && isAll)
    row.push_back(reduced.front());
  return length >= kLanes || isAll ? row : SmallVector<unsigned>();
}

ReductionLoops hyc::rank::reductionLoops(ArrayRef<int64_t> space, ArrayRef<int64_t> reduced) {
  ReductionLoops loops;
  loops.inner = rowOf(space, reduced);
  loops.isRows = !loops.inner.empty();
  unsigned lastKept = 0;
  for (unsigned dim = 0; dim < space.size(); ++dim) {
    bool isReduced = llvm::is_contained(reduced, static_cast<int64_t>(dim));
    if (!isReduced && space[dim] != 1)
      lastKept = dim;
    if (!llvm::is_contained(loops.inner, dim))
      (isReduced ? loops.steps : loops.outer).push_back(dim);
  }
  if (!loops.isRows) {
    loops.inner = {lastKept};
    llvm::erase(loops.outer, lastKept);
  }
  auto countOf = [&](ArrayRef<unsigned> dims) {
    int64_t count = 1;
    for (unsigned dim : dims)
      count *= space[dim];
    return count;
  };
  loops.outerCount = countOf(loops.outer), loops.stepCount = countOf(loops.steps);
  loops.innerCount = countOf(loops.inner);
  return loops;
}

ReductionLoops hyc::rank::reductionLoops(KernelOp kernel) {
  return reductionLoops(kernel.getSpace(), kernel.getReduced());
}

SmallVector<int64_t> hyc::rank::keptSpace(KernelOp kernel) {
  SmallVector<int64_t> space(kernel.getSpace());
  for (int64_t dim : kernel.getReduced())
    space[dim] = 1;
  return space;
}
