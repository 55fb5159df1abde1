// One rank.program a stage in place of its functions over tensors.
//
// The order matters: forward before backward, since it says where saved values lie; and of the chunks of a stage those
// before that run before, since the first contribution to a gradient overwrites it. The functions of a module that
// evaluates, inside, come last: numbers and names of training are those it has without them.
#include "FunctionLowering.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Plan/Policies.h"
#include "hyc/Transforms/Rank/Passes.h"

namespace hyc {
#define GEN_PASS_DEF_LOWERTORANK
#include "hyc/Transforms/Rank/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

/// One function of a stage, before and after.
struct Lowered {
  dist::InstructionKind kind;
  int64_t virtualStage;
  FuncOp source;
  rank::FuncOp target;
  bool ofEvaluation = false;
};

struct LowerToRank : hyc::impl::LowerToRankBase<LowerToRank> {
  void runOnOperation() override {
    auto mesh = dist::MeshOp::find(getOperation());
    if (!mesh) {
      getOperation().emitError("has no dist.mesh; expected a partitioned module (phase 4)");
      return signalPassFailure();
    }
    KernelTable kernels(getOperation());
    ModuleSymbols declared(getOperation());
    ExchangeNumbers collectives, tags;
    for (int64_t stage = 0, stages = mesh.getStages(); stage < stages; ++stage)
      if (failed(lowerStage(stage, mesh, declared, kernels, collectives, tags)))
        return signalPassFailure();
    eraseTensors();
  }

  LogicalResult lowerStage(int64_t stage, dist::MeshOp mesh, const ModuleSymbols &declared, KernelTable &kernels,
                           ExchangeNumbers &collectives, ExchangeNumbers &tags);
  FailureOr<SmallVector<Lowered>> findFunctions(int64_t stage, dist::MeshOp mesh, const ModuleSymbols &declared);
  LogicalResult findEvaluation(int64_t stage, dist::MeshOp mesh, const ModuleSymbols &declared,
                               SmallVectorImpl<Lowered> &functions);
  static dist::ScheduleOp scheduleOf(ModuleOp module, int64_t stage);
  void eraseTensors();
};

dist::ScheduleOp LowerToRank::scheduleOf(ModuleOp module, int64_t stage) {
  for (auto schedule : module.getOps<dist::ScheduleOp>())
    if (static_cast<int64_t>(schedule.getStage()) == stage)
      return schedule;
  return {};
}

/// Parameters and their states in the order in which the module declares them: gradients then lie as parameters do.
void declareStates(ModuleOp module, ProgramTables &tables, ArrayRef<FuncOp> functions, bool keepsFrozenMasters) {
  llvm::StringSet<> used;
  for (FuncOp func : functions)
    func.walk([&](Operation *op) {
      for (NamedAttribute attribute : op->getAttrs())
        attribute.getValue().walk([&](FlatSymbolRefAttr symbol) { used.insert(symbol.getValue()); });
    });
  // A frozen parameter is saved as it was read, though only its copy in the compute type is used; or the copy is the
  // parameter. An evaluation saves none.
  for (auto state : module.getOps<StateOp>()) {
    if (isEvaluation(module) || !state.is(StateRole::compute) || !state.getParam() ||
        !used.contains(state.getSymName()))
      continue;
    if (keepsFrozenMasters || used.contains(*state.getParam()))
      used.insert(*state.getParam());
    else
      tables.replaceByCopy(*state.getParam());
  }
  for (Operation &op : module.getOps())
    if (isa<ParamOp, StateOp>(op) && used.contains(SymbolTable::getSymbolName(&op)))
      tables.getState(&op, SymbolTable::getSymbolName(&op).getValue());
  // What only an evaluation counts.
  if (ModuleOp evaluation = evaluationOf(module))
    for (auto state : evaluation.getOps<StateOp>())
      if (used.contains(state.getSymName()))
        tables.getState(state, state.getSymName());
}

/// In the order in which they first run in a step: backward begins with the last chunk.
FailureOr<SmallVector<Lowered>> LowerToRank::findFunctions(int64_t stage, dist::MeshOp mesh,
                                                           const ModuleSymbols &declared) {
  using dist::InstructionKind;
  SmallVector<Lowered> functions;
  int64_t virtualStages = mesh.getVirtualStages();
  for (int64_t k = 0; k < virtualStages; ++k)
    functions.push_back({InstructionKind::forward, k, {}, {}});
  for (int64_t k = virtualStages; k-- > 0;)
    functions.push_back({InstructionKind::backward, k, {}, {}});
  functions.push_back({InstructionKind::reduce, 0, {}, {}});
  functions.push_back({InstructionKind::apply, 0, {}, {}});
  for (Lowered &function : functions) {
    std::string name = dist::functionName(function.kind, mesh.getChunk(stage, function.virtualStage));
    function.source = declared.lookupFunction(name, /*ofEvaluation=*/false);
    if (!function.source)
      return getOperation().emitError("has no function @")
             << name << ", expected forward, backward, reduce and apply of each stage";
  }
  if (failed(findEvaluation(stage, mesh, declared, functions)))
    return failure();
  return functions;
}

/// Behind those of training, the forward and reduce functions of the module that evaluates, where there is one.
LogicalResult LowerToRank::findEvaluation(int64_t stage, dist::MeshOp mesh, const ModuleSymbols &declared,
                                          SmallVectorImpl<Lowered> &functions) {
  using dist::InstructionKind;
  ModuleOp evaluation = evaluationOf(getOperation());
  if (!evaluation)
    return success();
  auto add = [&](InstructionKind kind, int64_t virtualStage) -> LogicalResult {
    std::string name = dist::functionName(kind, mesh.getChunk(stage, virtualStage));
    FuncOp source = declared.lookupFunction(name, /*ofEvaluation=*/true);
    functions.push_back({kind, virtualStage, source, {}, /*ofEvaluation=*/true});
    return source ? success()
                  : evaluation.emitError("has no function @") << name << ", expected forward and reduce of each stage";
  };
  for (int64_t k = 0, count = mesh.getVirtualStages(); k < count; ++k)
    if (failed(add(InstructionKind::forward, k)))
      return failure();
  return add(InstructionKind::reduce, 0);
}

/// Whether a forward function changes tensors of the model: it then computes as the model trains, and not as it is
/// evaluated.
bool writesBuffer(FuncOp forward) {
  auto module = forward->getParentOfType<ModuleOp>();
  return llvm::any_of(forward.getBody().front().getOps<WriteOp>(),
                      [&](WriteOp write) { return module.lookupSymbol<ParamOp>(write.getTargetAttr()) != nullptr; });
}

LogicalResult LowerToRank::lowerStage(int64_t stage, dist::MeshOp mesh, const ModuleSymbols &declared,
                                      KernelTable &kernels, ExchangeNumbers &collectives, ExchangeNumbers &tags) {
  ModuleOp module = getOperation();
  dist::ScheduleOp schedule = scheduleOf(module, stage);
  ModuleOp evaluation = evaluationOf(module);
  dist::ScheduleOp evaluates = evaluation ? scheduleOf(evaluation, stage) : schedule;
  if (!schedule || !evaluates)
    return module.emitError("has no dist.schedule of stage ")
           << stage << ", expected one for each of " << mesh.getStages() << " stages";
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  auto program = rank::ProgramOp::create(builder, module.getLoc(), ("stage" + Twine(stage)).str(), stage,
                                         schedule.getSlots(), mesh.getVirtualStages());
  program.getBody().emplaceBlock();
  ProgramTables tables(program, mesh, declared, kernels, collectives, tags);

  FailureOr<SmallVector<Lowered>> functions = findFunctions(stage, mesh, declared);
  if (failed(functions))
    return failure();
  SmallVector<FuncOp> sources;
  for (const Lowered &function : *functions)
    sources.push_back(function.source);
  for (FuncOp source : sources)
    if (failed(tables.reserveArguments(source)))
      return failure();
  FailureOr<bool> keepsFrozenMasters = policyOf<&Plan::frozenMasters>(module);
  if (failed(keepsFrozenMasters))
    return failure();
  declareStates(module, tables, sources, *keepsFrozenMasters);
  if (llvm::any_of(*functions, [](const Lowered &function) {
        return function.kind == dist::InstructionKind::forward && !function.ofEvaluation &&
               writesBuffer(function.source);
      }))
    program->setAttr("writes_buffers", builder.getUnitAttr());
  for (Lowered &function : *functions) {
    if (&function == functions->begin() || function.kind != (&function - 1)->kind)
      tables.accumulated.clear();
    if (function.ofEvaluation && !tables.entry)
      tables.beginEntry(kEvaluate, evaluates.getInstructions());
    // Made apart, since the tables still grow at the end of the program.
    StringRef entry = function.ofEvaluation ? StringRef(kEvaluate) : StringRef();
    std::string name = rank::functionName(function.kind, function.virtualStage, entry);
    function.target = rank::FuncOp::create(builder, FuncOp(function.source).getLoc(), name);
    function.target.getBody().emplaceBlock();
    function.target->remove();
    if (failed(
            FunctionLowering(tables, function.source, function.target, function.kind, function.virtualStage).run())) {
      for (Lowered &made : *functions)
        if (made.target)
          made.target->destroy();
      return failure();
    }
  }
  llvm::stable_sort(*functions, [](const Lowered &a, const Lowered &b) {
    return std::tuple(a.ofEvaluation, a.kind, a.virtualStage) < std::tuple(b.ofEvaluation, b.kind, b.virtualStage);
  });
  for (Lowered &function : *functions)
    program.getBody().front().push_back(function.target);
  return success();
}

/// What the programs have taken the place of.
void LowerToRank::eraseTensors() {
  for (Operation &op : llvm::make_early_inc_range(getOperation().getOps()))
    if (isa<FuncOp, ParamOp, StateOp, ModuleOp>(op))
      op.erase();
}

} // namespace
