// The deadlock check as a pass.
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/CommunicationCheck.h"
#include "hyc/Transforms/Local/Passes.h"

namespace hyc {
#define GEN_PASS_DEF_CHECKCOMMUNICATION
#include "hyc/Transforms/Local/Passes.h.inc"
} // namespace hyc

namespace {
struct CheckCommunication : hyc::impl::CheckCommunicationBase<CheckCommunication> {
  void runOnOperation() override {
    if (mlir::failed(hyc::checkCommunication(getOperation())))
      signalPassFailure();
  }
};
} // namespace
