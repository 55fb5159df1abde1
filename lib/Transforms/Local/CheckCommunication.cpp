// What is checked of schedules and exchanges as passes.
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/CommunicationCheck.h"
#include "hyc/Analysis/ScheduleCheck.h"
#include "hyc/Transforms/Local/Passes.h"

namespace hyc {
#define GEN_PASS_DEF_CHECKCOMMUNICATION
#define GEN_PASS_DEF_CHECKSCHEDULES
#include "hyc/Transforms/Local/Passes.h.inc"
} // namespace hyc

namespace {
struct CheckSchedules : hyc::impl::CheckSchedulesBase<CheckSchedules> {
  void runOnOperation() override {
    if (mlir::failed(hyc::checkSchedules(getOperation())))
      signalPassFailure();
  }
};

struct CheckCommunication : hyc::impl::CheckCommunicationBase<CheckCommunication> {
  void runOnOperation() override {
    if (mlir::failed(hyc::checkCommunication(getOperation())))
      signalPassFailure();
  }
};
} // namespace
