// One rank.program a stage in place of its functions over tensors.
//
// The order matters: forward before backward, since it says where saved values lie.
#include "FunctionLowering.h"
#include "hyc/Transforms/Rank/Passes.h"

namespace hyc {
#define GEN_PASS_DEF_LOWERTORANK
#include "hyc/Transforms/Rank/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

constexpr llvm::StringLiteral kFunctions[] = {"forward", "backward", "reduce", "apply"};

struct LowerToRank : hyc::impl::LowerToRankBase<LowerToRank> {
  void runOnOperation() override {
    auto mesh = dist::MeshOp::find(getOperation());
    if (!mesh) {
      getOperation().emitError("has no dist.mesh; expected a partitioned module (phase 4)");
      return signalPassFailure();
    }
    KernelTable kernels(getOperation());
    ExchangeNumbers collectives, tags;
    for (int64_t stage = 0, stages = mesh.getStages(); stage < stages; ++stage)
      if (failed(lowerStage(stage, stages, kernels, collectives, tags)))
        return signalPassFailure();
    eraseTensors();
  }

  LogicalResult lowerStage(int64_t stage, int64_t stages, KernelTable &kernels, ExchangeNumbers &collectives,
                           ExchangeNumbers &tags);
  dist::ScheduleOp scheduleOf(int64_t stage);
  void eraseTensors();
};

dist::ScheduleOp LowerToRank::scheduleOf(int64_t stage) {
  for (auto schedule : getOperation().getOps<dist::ScheduleOp>())
    if (static_cast<int64_t>(schedule.getStage()) == stage)
      return schedule;
  return {};
}

/// Parameters and their states in the order in which the module declares them: gradients then lie as parameters do.
void declareStates(ModuleOp module, ProgramTables &tables, ArrayRef<FuncOp> functions) {
  llvm::StringSet<> used;
  for (FuncOp func : functions)
    func.walk([&](Operation *op) {
      for (NamedAttribute attribute : op->getAttrs())
        attribute.getValue().walk([&](FlatSymbolRefAttr symbol) { used.insert(symbol.getValue()); });
    });
  // A frozen parameter is saved as it was read, though only its copy in the compute type is used.
  for (auto state : module.getOps<StateOp>())
    if (state.getRole() == "compute" && state.getParam() && used.contains(state.getSymName()))
      used.insert(*state.getParam());
  for (Operation &op : module.getOps())
    if (isa<ParamOp, StateOp>(op) && used.contains(SymbolTable::getSymbolName(&op)))
      tables.getState(&op, SymbolTable::getSymbolName(&op).getValue());
}

LogicalResult LowerToRank::lowerStage(int64_t stage, int64_t stages, KernelTable &kernels, ExchangeNumbers &collectives,
                                      ExchangeNumbers &tags) {
  ModuleOp module = getOperation();
  dist::ScheduleOp schedule = scheduleOf(stage);
  if (!schedule)
    return module.emitError("has no dist.schedule of stage ")
           << stage << ", expected one for each of " << stages << " stages";
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto program =
      rank::ProgramOp::create(builder, module.getLoc(), ("stage" + Twine(stage)).str(), stage, schedule.getSlots());
  program.getBody().emplaceBlock();
  ProgramTables tables(program, stage, stages, kernels, collectives, tags);

  SmallVector<FuncOp> sources;
  for (StringRef name : kFunctions) {
    auto source = module.lookupSymbol<FuncOp>((name + "." + Twine(stage)).str());
    if (!source)
      return module.emitError("has no function @")
             << name << "." << stage << ", expected forward, backward, reduce and apply of each stage";
    sources.push_back(source);
  }
  declareStates(module, tables, sources);
  SmallVector<rank::FuncOp> targets;
  for (auto [name, source] : llvm::zip_equal(kFunctions, sources)) {
    // Made apart, since the tables still grow at the end of the program.
    auto target = rank::FuncOp::create(builder, source.getLoc(), name);
    target.getBody().emplaceBlock();
    target->remove();
    targets.push_back(target);
    if (failed(FunctionLowering(tables, source, target, name).run())) {
      for (rank::FuncOp made : targets)
        made->destroy();
      return failure();
    }
  }
  for (rank::FuncOp target : targets)
    program.getBody().front().push_back(target);
  return success();
}

/// What the programs have taken the place of.
void LowerToRank::eraseTensors() {
  for (Operation &op : llvm::make_early_inc_range(getOperation().getOps()))
    if (isa<FuncOp, ParamOp, StateOp>(op))
      op.erase();
}

} // namespace
