// Lets reductions of gradients go on while backward computes.
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/NamedSymbols.h"
#include "hyc/Plan/Policies.h"
#include "hyc/Transforms/Local/Passes.h"

namespace hyc {
#define GEN_PASS_DEF_DELAYWAITS
#include "hyc/Transforms/Local/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

/// A reduction of which nothing but an accumulation needs the sum.
struct Reduction {
  Operation *start;
  dist::WaitOp wait;
  AccumulateOp accumulate;
};

struct DelayWaits : hyc::impl::DelayWaitsBase<DelayWaits> {
  using DelayWaitsBase::DelayWaitsBase;

  void runOnOperation() override {
    FailureOr<int64_t> inFlight = policyOf<&Plan::reductionsInFlight>(getOperation());
    if (failed(inFlight))
      return signalPassFailure();
    if (*inFlight > 0)
      for (auto func : getOperation().getOps<FuncOp>())
        runOnFunction(func, static_cast<size_t>(*inFlight));
  }

private:
  static SmallVector<Reduction> findReductions(FuncOp func) {
    SmallVector<Reduction> reductions;
    for (Operation &op : func.getBody().front()) {
      auto exchange = dyn_cast<dist::ExchangeOpInterface>(op);
      if (!exchange || !exchange.getReduction() || !op.getResult(0).hasOneUse())
        continue;
      auto wait = dyn_cast<dist::WaitOp>(*op.getResult(0).user_begin());
      if (!wait || !wait.getResult().hasOneUse())
        continue;
      if (auto accumulate = dyn_cast<AccumulateOp>(*wait.getResult().user_begin()))
        reductions.push_back({&op, wait, accumulate});
    }
    return reductions;
  }

  void runOnFunction(FuncOp func, size_t inFlight) {
    SmallVector<Reduction> reductions = findReductions(func);
    for (size_t i = 0; i < reductions.size(); ++i) {
      Reduction &reduction = reductions[i];
      size_t next = i + inFlight;
      Operation *before = next < reductions.size() ? reductions[next].start : func.getBody().front().getTerminator();
      // Contributions to one state are added in the order of the program.
      FlatSymbolRefAttr state = reduction.accumulate.getTargetAttr();
      for (Operation *op = reduction.accumulate->getNextNode(); op != before && op; op = op->getNextNode())
        if (namesSymbol(op, state)) { // reads or changes it
          before = op;
          break;
        }
      if (!reduction.accumulate->isBeforeInBlock(before))
        continue;
      reduction.wait->moveBefore(before);
      reduction.accumulate->moveBefore(before);
      ++delayedWaits;
    }
  }
};
} // namespace
