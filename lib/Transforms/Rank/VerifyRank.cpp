// Checks the invariant of phase 5.
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Transforms/Rank/Passes.h"

namespace hyc {
#define GEN_PASS_DEF_VERIFYRANK
#include "hyc/Transforms/Rank/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

LogicalResult verifyStart(rank::StartOp start) {
  auto waits = start.getTicket().getUsers();
  if (std::distance(waits.begin(), waits.end()) == 1)
    return success();
  return start.emitOpError("is waited for ") << std::distance(waits.begin(), waits.end()) << " times, expected once";
}

struct VerifyRank : hyc::impl::VerifyRankBase<VerifyRank> {
  void runOnOperation() override {
    WalkResult result = getOperation().walk([](Operation *op) -> WalkResult {
      if (isa<rank::AllocOp, rank::AddressOp, rank::ViewOp>(op))
        return op->emitOpError("has no address yet; expected hyc-place-buffers to have run"), WalkResult::interrupt();
      if (isa_and_nonnull<HycDialect>(op->getDialect()) || isa<rank::ClusterOp, rank::LinearOp>(op))
        return op->emitOpError("computes on tensors; expected hyc-lower-to-rank to have run"), WalkResult::interrupt();
      if (auto start = dyn_cast<rank::StartOp>(op))
        return failed(verifyStart(start)) ? WalkResult::interrupt() : WalkResult::advance();
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
