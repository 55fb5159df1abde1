// RemoveDropout: the model as it is evaluated, without what it draws at random.
#include "TrainingState.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Transforms/Train/Passes.h"

using namespace mlir;
using namespace hyc;

namespace hyc {
#define GEN_PASS_DEF_REMOVEDROPOUT
#include "hyc/Transforms/Train/Passes.h.inc"
} // namespace hyc

namespace {
struct RemoveDropout : hyc::impl::RemoveDropoutBase<RemoveDropout> {
  void runOnOperation() override {
    walkFunctions(getOperation(), [&](Operation *op) {
      if (auto dropout = dyn_cast<DropoutOp>(op)) {
        dropout.getResult().replaceAllUsesWith(dropout.getX());
        dropout.erase();
        ++removed;
      } else if (auto attention = dyn_cast<AttentionOp>(op); attention && attention.getDropout()) {
        attention.removeDropoutAttr();
        ++removed;
      }
    });
  }
};
} // namespace
