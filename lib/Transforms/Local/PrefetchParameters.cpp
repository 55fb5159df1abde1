// Moves the starts of parameter gathers before earlier uses.
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Plan/Policies.h"
#include "hyc/Transforms/Local/Passes.h"

namespace hyc {
#define GEN_PASS_DEF_PREFETCHPARAMETERS
#include "hyc/Transforms/Local/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

/// One gather: from its start to the last use of what it brings.
struct Gather {
  dist::AllGatherStartOp start;
  dist::WaitOp wait;
  Operation *lastUse;
  int64_t elements;
};

struct PrefetchParameters : hyc::impl::PrefetchParametersBase<PrefetchParameters> {
  using PrefetchParametersBase::PrefetchParametersBase;

  void runOnOperation() override {
    FailureOr<int64_t> live = policyOf<&Plan::maxLiveParameters>(getOperation()),
                       ahead = policyOf<&Plan::prefetchBucket>(getOperation());
    if (failed(live) || failed(ahead))
      return signalPassFailure();
    mostLive = *live;
    mostAhead = *ahead;
    for (auto func : getOperation().getOps<FuncOp>())
      runOnFunction(func);
  }

private:
  int64_t mostLive = 0, mostAhead = 0; ///< elements at one moment: gathered, and gathered before their use

  static SmallVector<Gather> findGathers(FuncOp func) {
    SmallVector<Gather> gathers;
    for (auto start : func.getBody().front().getOps<dist::AllGatherStartOp>()) {
      if (!start.getFlat() || !start.getPending().hasOneUse())
        continue;
      auto wait = cast<dist::WaitOp>(*start.getPending().user_begin());
      Operation *last = wait;
      for (Operation *user : wait.getResult().getUsers())
        if (last->isBeforeInBlock(user))
          last = user;
      gathers.push_back({start, wait, last, start.getPending().getType().getTensor().getNumElements()});
    }
    return gathers;
  }

  /// Gathers are moved in their order; what has been placed already counts from where it is now.
  void runOnFunction(FuncOp func) {
    SmallVector<Gather> gathers = findGathers(func);
    for (size_t i = 0; i < gathers.size(); ++i) {
      auto depth = gathers[i].start->getAttrOfType<IntegerAttr>(dist::kPrefetch);
      if (!depth)
        continue;
      size_t first = i - std::min<size_t>(i, static_cast<size_t>(std::max<int64_t>(0, depth.getInt())));
      // The earliest wait before which the limits still hold all that is then alive: starting earlier only adds
      // moments.
      size_t earliest = i;
      while (earliest > first && fits(gathers, i, earliest - 1))
        --earliest;
      if (earliest < i)
        hoist(gathers[i].start, gathers[earliest].wait);
    }
  }

  /// Whether the moment of the wait of `at` stays within both limits, with gather `moved` begun by then: all that is
  /// alive, and what is there before its use.
  bool fits(ArrayRef<Gather> gathers, size_t moved, size_t at) {
    Operation *moment = gathers[at].wait;
    int64_t live = gathers[moved].elements, ahead = gathers[moved].elements;
    for (size_t other = 0; other < gathers.size(); ++other) {
      dist::AllGatherStartOp start = gathers[other].start;
      if (other == moved || !start->isBeforeInBlock(moment) || gathers[other].lastUse->isBeforeInBlock(moment))
        continue;
      live += gathers[other].elements;
      if (moment->isBeforeInBlock(gathers[other].wait))
        ahead += gathers[other].elements;
    }
    return live <= mostLive && ahead <= mostAhead;
  }

  /// The start and the read that it gathers.
  static void hoist(dist::AllGatherStartOp start, Operation *before) {
    Operation *read = start.getOperand().getDefiningOp();
    if (!isa_and_nonnull<ReadOp>(read))
      return;
    if (read->getBlock() == before->getBlock() && before->isBeforeInBlock(read))
      read->moveBefore(before);
    start->moveBefore(before);
  }
};
} // namespace
