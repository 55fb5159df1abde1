// MakeForwardProgram: a model's outputs, computed by one rank. What training adds to a step is there, and empty.
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Transforms/Local/Passes.h"

#include "mlir/IR/Builders.h"

namespace hyc {
#define GEN_PASS_DEF_MAKEFORWARDPROGRAM
#include "hyc/Transforms/Local/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {
struct MakeForwardProgram : hyc::impl::MakeForwardProgramBase<MakeForwardProgram> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto entry = module.lookupSymbol<FuncOp>(kTrain);
    if (!entry || dist::MeshOp::find(module)) {
      module.emitError(entry ? "has a mesh already" : "has no @train") << ", expected a model of phase 1";
      return signalPassFailure();
    }
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    dist::MeshOp::create(builder, module.getLoc(), "mesh", builder.getStrArrayAttr({}), ArrayRef<int64_t>{},
                         /*parents=*/ArrayAttr(), /*stages=*/uint64_t(1), /*virtualStages=*/uint64_t(1),
                         /*batch=*/dist::AxisListAttr(), /*tensor=*/dist::AxisListAttr());
    keepOutputs(entry);
    entry.setSymName(dist::functionName(dist::InstructionKind::forward, 0));
    entry->setAttr(dist::kStage, builder.getI64IntegerAttr(0));
    builder.setInsertionPointToEnd(module.getBody());
    for (auto kind : {dist::InstructionKind::backward, dist::InstructionKind::reduce, dist::InstructionKind::apply})
      addEmptyFunction(builder, kind);
    auto step = [&](dist::InstructionKind kind) {
      return dist::InstructionAttr::get(&getContext(), kind, /*virtualStage=*/0, /*microBatch=*/0, /*slot=*/0, {});
    };
    SmallVector<Attribute> steps{step(dist::InstructionKind::begin_step), step(dist::InstructionKind::forward)};
    dist::ScheduleOp::create(builder, module.getLoc(), /*stage=*/0, /*slots=*/1, builder.getArrayAttr(steps));
  }

private:
  /// Each output into a state of its name; a name that is taken gets a number.
  void keepOutputs(FuncOp entry) {
    ModuleOp module = getOperation();
    SymbolTable symbols(module);
    ReturnOp terminator = entry.getReturn();
    OpBuilder builder(terminator);
    auto zero = FillAttr::get(&getContext(), builder.getF64FloatAttr(0.0));
    for (auto [index, value] : llvm::enumerate(terminator.getOperands())) {
      auto name = entry.getResultAttrOfType<StringAttr>(index, kOutput);
      OpBuilder before(entry);
      auto state =
          StateOp::create(before, entry.getLoc(), name ? name : builder.getStringAttr("output"), FlatSymbolRefAttr(),
                          builder.getStringAttr("output"), TypeAttr::get(value.getType()), zero, TypeAttr());
      state->remove();
      symbols.insert(state, Block::iterator(entry.getOperation()));
      auto write = WriteOp::create(builder, entry.getLoc(), value, FlatSymbolRefAttr::get(state.getSymNameAttr()));
      setId(write, state.getSymName() + ".write");
    }
    terminator.getOperandsMutable().clear();
    entry.setFunctionType(builder.getFunctionType(entry.getArgumentTypes(), {}));
    entry.removeResAttrsAttr();
  }

  void addEmptyFunction(OpBuilder &builder, dist::InstructionKind kind) {
    auto function =
        FuncOp::create(builder, getOperation().getLoc(), dist::functionName(kind, 0), builder.getFunctionType({}, {}));
    function->setAttr(dist::kStage, builder.getI64IntegerAttr(0));
    OpBuilder body = OpBuilder::atBlockEnd(&function.getBody().front());
    ReturnOp::create(body, getOperation().getLoc(), ValueRange());
  }
};
} // namespace
