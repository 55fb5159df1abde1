// Starts copies towards the device, and to the host's updates, before the uses that they are for, and awaits those back
// after the work that follows.
//
// A use is what several fetches are for at once: their waits stand together, with nothing computed between them. A
// fetch starts in front of the waits of the use `distance` earlier, so that it is under way while those uses compute;
// as many evictions are under way while what follows them computes.
//
// The surprise: nothing but the order of starts and waits tells how much memory this takes. A copy is there from its
// start on, and what is evicted until its wait, which is what placement counts.
#include "Moves.h"
#include "dialects/Dist/Placement.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/Repetition.h"
#include "hyc/Plan/Policies.h"
#include "hyc/Transforms/Local/Passes.h"

namespace hyc {
#define GEN_PASS_DEF_OVERLAPMOVES
#include "hyc/Transforms/Local/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;
using local::startOfMove;
using local::touchesState;

namespace {

/// One move from its start to its wait.
struct Move {
  Operation *start, *wait;

  /// The state that moves; null for a value.
  FlatSymbolRefAttr state() const { return start->getAttrOfType<FlatSymbolRefAttr>("state"); }
  bool isFetch() const {
    if (auto copy = dyn_cast<dist::CopyStartOp>(start))
      return copy.getTo() == dist::kOnDevice;
    return isa<dist::FetchStartOp>(start);
  }
  /// Whether it serves an update, which runs on the host.
  bool isForUpdate() const {
    if (auto fetch = dyn_cast<dist::FetchStartOp>(start))
      return fetch.getTo() == dist::kOnHost;
    auto evict = dyn_cast<dist::EvictStartOp>(start);
    return evict && evict.getFrom() == dist::kOnHost;
  }
};

/// Moves that one use needs, or that follow one computation.
using Use = SmallVector<Move, 4>;

bool isMove(Operation *op) {
  return isa<dist::FetchStartOp, dist::EvictStartOp, dist::CopyStartOp>(op) || startOfMove(op);
}

class MoveOverlapper {
public:
  MoveOverlapper(FuncOp func, const SymbolTable &symbols, int64_t distance)
      : block(func.getBody().front()), symbols(symbols), distance(distance) {}

  void run() {
    for (bool isForUpdate : {false, true}) {
      hoistFetches(collect(/*fetches=*/true, isForUpdate), isForUpdate);
      sinkWaits(collect(/*fetches=*/false, isForUpdate), isForUpdate);
    }
  }

  int64_t moved = 0;

private:
  /// Of groups of updates one is enough: each is as large as it may be.
  size_t reachOf(bool isForUpdate) const {
    return static_cast<size_t>(isForUpdate ? std::min<int64_t>(1, distance) : distance);
  }

  /// States on a disk stream by groups of updates: `hyc-move-states` has seen to that.
  bool streams(const Move &move) const {
    Operation *kept = move.state() ? symbols.lookup(move.state().getAttr()) : nullptr;
    return kept && dist::placementOf(kept) == dist::kOnDisk && move.isForUpdate();
  }

  /// Fetches belong together by their waits, evictions by their starts.
  SmallVector<Use> collect(bool fetches, bool isForUpdate) const {
    SmallVector<Use> uses;
    bool isNext = true; // something was computed since
    for (Operation &op : block) {
      if (!isMove(&op)) {
        isNext |= !isFree(&op);
        continue;
      }
      Operation *start = fetches ? startOfMove(&op) : &op;
      if (!start || (!fetches && startOfMove(&op)))
        continue;
      Move move{start, fetches ? &op : *start->getResult(0).user_begin()};
      if (move.isFetch() != fetches || move.isForUpdate() != isForUpdate || streams(move))
        continue;
      if (isNext)
        uses.emplace_back();
      uses.back().push_back(move);
      isNext = false;
    }
    return uses;
  }

  void hoistFetches(ArrayRef<Use> uses, bool isForUpdate) {
    for (size_t i = 1; i < uses.size(); ++i)
      for (const Move &fetch : uses[i])
        hoist(fetch, uses[i - std::min(i, reachOf(isForUpdate))].front().wait);
  }

  void hoist(const Move &fetch, Operation *before) {
    Operation *source = fetch.state() ? nullptr : fetch.start->getOperand(0).getDefiningOp();
    auto isInTheWay = [&](Operation *op) { return op == source || (fetch.state() && touchesState(op, fetch.state())); };
    Operation *place = fetch.start;
    while (place != before && place->getPrevNode() && !isInTheWay(place->getPrevNode()))
      place = place->getPrevNode();
    if (place == fetch.start || !before->isBeforeInBlock(fetch.start))
      return;
    fetch.start->moveBefore(place);
    ++moved;
  }

  void sinkWaits(ArrayRef<Use> uses, bool isForUpdate) {
    for (size_t i = 0; i < uses.size(); ++i) {
      size_t next = i + reachOf(isForUpdate);
      if (next == i)
        continue;
      for (const Move &evict : uses[i])
        sink(evict, next < uses.size() ? uses[next].front().start : block.getTerminator());
    }
  }

  void sink(const Move &evict, Operation *before) {
    auto isInTheWay = [&](Operation *op) {
      return evict.state() ? touchesState(op, evict.state()) : llvm::is_contained(evict.wait->getUsers(), op);
    };
    Operation *place = evict.wait->getNextNode();
    while (place != before && place != block.getTerminator() && !isInTheWay(place))
      place = place->getNextNode();
    if (place == evict.wait->getNextNode() || !evict.wait->isBeforeInBlock(before))
      return;
    evict.wait->moveBefore(place);
    ++moved;
  }

  Block &block;
  const SymbolTable &symbols;
  int64_t distance;
};

struct OverlapMoves : hyc::impl::OverlapMovesBase<OverlapMoves> {
  using OverlapMovesBase::OverlapMovesBase;

  void runOnOperation() override {
    FailureOr<int64_t> distance = policyOf<&Plan::offloadPrefetch>(getOperation());
    if (failed(distance))
      return signalPassFailure();
    if (*distance <= 0)
      return;
    for (auto func : getOperation().getOps<FuncOp>()) {
      MoveOverlapper overlapper(func, getAnalysis<SymbolTable>(), *distance);
      overlapper.run();
      movedOps += overlapper.moved;
    }
  }
};
} // namespace
