// ShareParameters: what a module that evaluates reads is what the one around it trains.
#include "TrainingState.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Transforms/Train/Passes.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

namespace hyc {
#define GEN_PASS_DEF_SHAREPARAMETERS
#include "hyc/Transforms/Train/Passes.h.inc"
} // namespace hyc

namespace {
struct ShareParameters : hyc::impl::ShareParametersBase<ShareParameters> {
  void runOnOperation() override {
    ModuleOp module = getOperation(), evaluation = evaluationOf(module);
    if (!evaluation)
      return markAllAnalysesPreserved();
    SymbolTable trained(module);
    llvm::DenseSet<StringAttr> copied;
    for (auto state : module.getOps<StateOp>())
      if (state.is(StateRole::compute) && state.getParamAttr())
        copied.insert(state.getParamAttr().getAttr());
    for (auto param : evaluation.getOps<ParamOp>()) {
      if (failed(verifySame(param, trained.lookup<ParamOp>(param.getSymName()))))
        return signalPassFailure();
      if (!copied.contains(param.getSymNameAttr()))
        param->setAttr(kUncopied, UnitAttr::get(&getContext()));
    }
    // Its step ends with the sums.
    OpBuilder builder = OpBuilder::atBlockEnd(evaluation.getBody());
    auto apply = FuncOp::create(builder, evaluation.getLoc(), kApply, builder.getFunctionType({}, {}));
    OpBuilder body = OpBuilder::atBlockEnd(&apply.getBody().front());
    ReturnOp::create(body, evaluation.getLoc(), ValueRange());
  }

private:
  static LogicalResult verifySame(ParamOp evaluated, ParamOp trained) {
    if (trained && trained.getTensorType() == evaluated.getTensorType())
      return success();
    InFlightDiagnostic error = evaluated.emitError("the model as it is evaluated has parameter @")
                               << evaluated.getSymName() << " of type " << evaluated.getTensorType();
    if (trained)
      error << ", the one that is trained has it as " << trained.getTensorType();
    else
      error << ", the one that is trained has none of that name";
    return error << "; compile them apart, with --entry train and with --entry evaluate --weights SAVED";
  }
};
} // namespace
