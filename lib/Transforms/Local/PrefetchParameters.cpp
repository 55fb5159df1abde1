// Moves the starts of parameter gathers before earlier uses.
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
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
    for (auto func : getOperation().getOps<FuncOp>())
      runOnFunction(func);
  }

private:
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
      // The earliest wait before which the window still holds all that is then alive.
      for (size_t j = first; j < i; ++j)
        if (fits(gathers, i, j)) {
          hoist(gathers[i].start, gathers[j].wait);
          break;
        }
    }
  }

  /// Whether gather `moved`, started before the wait of `early`, keeps every moment up to its own wait within the
  /// window.
  bool fits(ArrayRef<Gather> gathers, size_t moved, size_t early) {
    for (size_t at = early; at < moved; ++at) {
      Operation *moment = gathers[at].wait;
      int64_t live = gathers[moved].elements;
      for (size_t other = 0; other < gathers.size(); ++other) {
        dist::AllGatherStartOp start = gathers[other].start;
        bool begun = start->isBeforeInBlock(moment), over = gathers[other].lastUse->isBeforeInBlock(moment);
        if (other != moved && begun && !over)
          live += gathers[other].elements;
      }
      if (live > maxLive)
        return false;
    }
    return true;
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
