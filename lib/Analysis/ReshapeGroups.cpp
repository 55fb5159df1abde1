// The runs of dimensions of a reshape, found by walking both shapes at once.
#include "hyc/Analysis/ReshapeGroups.h"
#include "llvm/ADT/STLExtras.h"

using namespace hyc;
using llvm::ArrayRef;

/// Runs of agreeing products, which a dimension of size 1 can leave empty on one side.
static ReshapeGroups findRuns(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  ReshapeGroups runs;
  int64_t fromEnd = 0, toEnd = 0, fromRank = from.size(), toRank = to.size();
  while (fromEnd < fromRank || toEnd < toRank) {
    ReshapeGroup run{fromEnd, fromEnd, toEnd, toEnd};
    // Equal dimensions correspond, those of size 1 too: a batch of one sample is a batch.
    if (fromEnd < fromRank && toEnd < toRank && from[fromEnd] == to[toEnd]) {
      run.fromEnd = ++fromEnd, run.toEnd = ++toEnd;
      runs.push_back(run);
      continue;
    }
    int64_t fromSize = 1, toSize = 1;
    do {
      if ((fromSize <= toSize && fromEnd < fromRank) || toEnd == toRank)
        fromSize *= from[fromEnd++];
      else
        toSize *= to[toEnd++];
    } while (fromSize != toSize && (fromEnd < fromRank || toEnd < toRank));
    run.fromEnd = fromEnd, run.toEnd = toEnd;
    runs.push_back(run);
  }
  return runs;
}

ReshapeGroups hyc::groupReshape(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  ReshapeGroups groups;
  for (const ReshapeGroup &run : findRuns(from, to)) {
    bool incomplete = !groups.empty() && (groups.back().fromCount() == 0 || groups.back().toCount() == 0);
    if (!groups.empty() && (incomplete || run.fromCount() == 0 || run.toCount() == 0))
      groups.back().fromEnd = run.fromEnd, groups.back().toEnd = run.toEnd;
    else
      groups.push_back(run);
  }
  return groups;
}

bool hyc::isMerge(const ReshapeGroups &groups) {
  return llvm::all_of(groups, [](const ReshapeGroup &group) { return group.toCount() == 1; });
}

bool hyc::isSplit(const ReshapeGroups &groups) {
  return llvm::all_of(groups, [](const ReshapeGroup &group) { return group.fromCount() == 1; });
}
