// Checks the invariant of phase 5.
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/Moves.h"
#include "hyc/Transforms/Rank/Passes.h"

namespace hyc {
#define GEN_PASS_DEF_VERIFYRANK
#include "hyc/Transforms/Rank/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

LogicalResult verifyTicket(Operation *start, Value ticket) {
  auto waits = ticket.getUsers();
  if (std::distance(waits.begin(), waits.end()) == 1)
    return success();
  return start->emitOpError("is waited for ") << std::distance(waits.begin(), waits.end()) << " times, expected once";
}

/// A file has no addresses: moves reach it, whole blocks at a time, and nothing else does.
LogicalResult verifyUseOfFile(rank::AtOp place) {
  if (!rank::isInFile(place.getResult()))
    return success();
  if (place.getOffset() % rank::kBlockBytes != 0)
    return place.emitOpError("is at byte ")
           << place.getOffset() << " of a file, expected a multiple of " << rank::kBlockBytes;
  for (Operation *user : place->getUsers())
    if (!isa<rank::MoveOp, rank::InvokeOp>(user))
      return user->emitOpError("uses what lies in the file @") << place.getArena() << ", which only moves reach";
  return success();
}

struct VerifyRank : hyc::impl::VerifyRankBase<VerifyRank> {
  void runOnOperation() override {
    WalkResult result = getOperation().walk([](Operation *op) -> WalkResult {
      if (isa<rank::AllocOp, rank::AddressOp, rank::TurnOp, rank::ViewOp>(op))
        return op->emitOpError("has no address yet; expected hyc-place-buffers to have run"), WalkResult::interrupt();
      if (isa_and_nonnull<HycDialect>(op->getDialect()) || isa<rank::ClusterOp, rank::LinearOp>(op))
        return op->emitOpError("computes on tensors; expected hyc-lower-to-rank to have run"), WalkResult::interrupt();
      if (auto start = dyn_cast<rank::StartOp>(op))
        return failed(verifyTicket(start, start.getTicket())) ? WalkResult::interrupt() : WalkResult::advance();
      if (auto move = dyn_cast<rank::MoveOp>(op))
        return failed(verifyTicket(move, move.getTicket())) ? WalkResult::interrupt() : WalkResult::advance();
      if (auto place = dyn_cast<rank::AtOp>(op))
        return failed(verifyUseOfFile(place)) ? WalkResult::interrupt() : WalkResult::advance();
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
