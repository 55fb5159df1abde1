// Starts exchanges of what has been there for a while in front of the product before their use.
//
// Partitioning starts an exchange where somebody needs its result. What forward has saved as shards (sequence
// parallelism, layers' inputs) is there from the beginning of backward: its gather can go on while the product before
// its use computes, and what that product gives is then exchanged while the next one does.
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/Repetition.h"
#include "hyc/Plan/Policies.h"
#include "hyc/Transforms/Local/Passes.h"

namespace hyc {
#define GEN_PASS_DEF_ADVANCEGATHERS
#include "hyc/Transforms/Local/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

/// Whether it does more than an operation an element: what an exchange can hide behind.
bool isProduct(Operation *op) {
  auto cost = dyn_cast<CostOpInterface>(op);
  return cost && cost.getFlops() > elementwiseFlops(op);
}

struct AdvanceGathers : hyc::impl::AdvanceGathersBase<AdvanceGathers> {
  using AdvanceGathersBase::AdvanceGathersBase;

  void runOnOperation() override {
    FailureOr<int64_t> ahead = policyOf<&Plan::gathersAhead>(getOperation());
    if (failed(ahead))
      return signalPassFailure();
    for (auto func : getOperation().getOps<FuncOp>())
      for (auto start : llvm::make_early_inc_range(func.getBody().front().getOps<dist::AllGatherStartOp>()))
        if (!start.getFlat()) // those are for hyc-prefetch-parameters
          advance(start, *ahead);
  }

private:
  /// Upwards to the product that is `ahead` before the gather, no further than what it gathers is made. Ops that cost
  /// nothing between the two go along.
  void advance(dist::AllGatherStartOp start, int64_t ahead) {
    SmallVector<Operation *> chain = {start};
    Operation *source = start.getOperand().getDefiningOp();
    while (source && source->getBlock() == start->getBlock() && isFree(source) && source->getNumOperands() == 1 &&
           source->hasOneUse()) {
      chain.push_back(source);
      source = source->getOperand(0).getDefiningOp();
    }
    Operation *place = nullptr;
    int64_t passed = 0;
    for (Operation *op = start->getPrevNode(); op && op != source && passed < ahead; op = op->getPrevNode())
      if (isProduct(op))
        place = op, ++passed;
    if (!place)
      return;
    for (Operation *op : llvm::reverse(chain))
      if (place->isBeforeInBlock(op))
        op->moveBefore(place);
    ++advanced;
  }
};
} // namespace
