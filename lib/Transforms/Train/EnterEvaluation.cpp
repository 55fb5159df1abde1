// EnterEvaluation: the program tells how well the parameters do, and changes none.
#include "TrainingState.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Transforms/Train/Passes.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

namespace hyc {
#define GEN_PASS_DEF_ENTEREVALUATION
#include "hyc/Transforms/Train/Passes.h.inc"
} // namespace hyc

namespace {
struct EnterEvaluation : hyc::impl::EnterEvaluationBase<EnterEvaluation> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    module->setAttr(kEntryAttribute, StringAttr::get(&getContext(), kEvaluate));
    for (auto param : module.getOps<ParamOp>())
      param.setFrozen(true);
    // Buffers keep their values.
    for (auto function : module.getOps<FuncOp>())
      for (auto write : llvm::make_early_inc_range(function.getOps<WriteOp>()))
        write.erase();
  }
};
} // namespace
