// One rank.program a stage in place of its functions over tensors.
//
// The order matters: forward before backward, since it says where saved values lie; and of the chunks of a stage those
// before that run before, since the first contribution to a gradient overwrites it. The functions of modules inside,
// which evaluate or train further sizes, come last: numbers and names of training are those it has without them.
#include "FunctionLowering.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Analysis/NamedSymbols.h"
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
  int64_t entry = 0; ///< 0: the stage's schedule; else one more than the place among the modules inside
};

/// A module inside, and what its functions become.
struct InnerEntry {
  ModuleOp module;
  StringRef name;
  std::optional<ModelSize> size; ///< none: it evaluates
};

struct LowerToRank : hyc::impl::LowerToRankBase<LowerToRank> {
  void runOnOperation() override {
    auto mesh = dist::MeshOp::find(getOperation());
    if (!mesh) {
      getOperation().emitError("has no dist.mesh; expected a partitioned module (phase 4)");
      return signalPassFailure();
    }
    findEntries();
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
  void findEntries();
  LogicalResult findInside(size_t index, int64_t stage, dist::MeshOp mesh, const ModuleSymbols &declared,
                           SmallVectorImpl<Lowered> &functions);
  LogicalResult verifySharedUpdate(InnerEntry entry, int64_t stage, const ModuleSymbols &declared);
  LogicalResult beginEntry(int64_t entry, int64_t stage, ProgramTables &tables);
  void noteSize(rank::ProgramOp program);
  static dist::ScheduleOp scheduleOf(ModuleOp module, int64_t stage);
  void eraseTensors();

  SmallVector<InnerEntry> inside;
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
      visitNamedSymbols(op, [&](FlatSymbolRefAttr symbol) { used.insert(symbol.getValue()); });
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
    function.source = declared.lookupFunction(name, /*entry=*/"");
    if (!function.source)
      return getOperation().emitError("has no function @")
             << name << ", expected forward, backward, reduce and apply of each stage";
  }
  for (size_t index = 0; index < inside.size(); ++index)
    if (failed(findInside(index, stage, mesh, declared, functions)))
      return failure();
  return functions;
}

void LowerToRank::findEntries() {
  inside.clear();
  if (ModuleOp evaluation = evaluationOf(getOperation()))
    inside.push_back({evaluation, kEvaluate, std::nullopt});
  for (ModuleOp size : sizesInside(getOperation()))
    inside.push_back({size, *size.getSymName(), sizeOf(size)});
}

/// Behind those of training, the functions of a module inside: forward and reduce of one that evaluates, forward and
/// backward of a further size, which reduces and applies as the largest does.
LogicalResult LowerToRank::findInside(size_t index, int64_t stage, dist::MeshOp mesh, const ModuleSymbols &declared,
                                      SmallVectorImpl<Lowered> &functions) {
  using dist::InstructionKind;
  InnerEntry entry = inside[index];
  auto add = [&](InstructionKind kind, int64_t virtualStage) -> LogicalResult {
    std::string name = dist::functionName(kind, mesh.getChunk(stage, virtualStage));
    FuncOp source = declared.lookupFunction(name, entry.name);
    functions.push_back({kind, virtualStage, source, {}, static_cast<int64_t>(index) + 1});
    return source ? success()
                  : entry.module.emitError("has no function @")
                        << name << ", expected " << (entry.size ? "forward, backward" : "forward")
                        << ", reduce and apply of each stage";
  };
  int64_t virtualStages = mesh.getVirtualStages();
  for (int64_t k = 0; k < virtualStages; ++k)
    if (failed(add(InstructionKind::forward, k)))
      return failure();
  if (!entry.size)
    return add(InstructionKind::reduce, 0);
  for (int64_t k = virtualStages; k-- > 0;)
    if (failed(add(InstructionKind::backward, k)))
      return failure();
  return verifySharedUpdate(entry, stage, declared);
}

/// Gradients have the shapes of parameters, so what becomes of them is the same whatever the size.
LogicalResult LowerToRank::verifySharedUpdate(InnerEntry entry, int64_t stage, const ModuleSymbols &declared) {
  using dist::InstructionKind;
  for (InstructionKind kind : {InstructionKind::reduce, InstructionKind::apply}) {
    std::string name = dist::functionName(kind, stage);
    FuncOp own = declared.lookupFunction(name, entry.name), largest = declared.lookupFunction(name, "");
    if (own && OperationEquivalence::isEquivalentTo(own, largest, OperationEquivalence::IgnoreLocations))
      continue;
    return entry.module.emitError("its @") << name << " is not that of the largest size, which both would run; compile "
                                           << entry.size->dim << " with one size, the largest";
  }
  return success();
}

/// What is lowered from here on is the entry's.
LogicalResult LowerToRank::beginEntry(int64_t entry, int64_t stage, ProgramTables &tables) {
  InnerEntry begun = inside[entry - 1];
  dist::ScheduleOp schedule = scheduleOf(begun.module, stage);
  if (!schedule)
    return begun.module.emitError("has no dist.schedule of stage ") << stage << ", expected one for each stage";
  tables.beginEntry(begun.name, schedule.getInstructions(), begun.size);
  return success();
}

/// Whether a forward function changes tensors of the model: it then computes as the model trains, and not as it is
/// evaluated.
bool writesBuffer(FuncOp forward) {
  auto module = forward->getParentOfType<ModuleOp>();
  return llvm::any_of(forward.getBody().front().getOps<WriteOp>(),
                      [&](WriteOp write) { return module.lookupSymbol<ParamOp>(write.getTargetAttr()) != nullptr; });
}

/// Of which size the stage's schedule is, where entries are of others.
void LowerToRank::noteSize(rank::ProgramOp program) {
  std::optional<ModelSize> size = sizeOf(getOperation());
  if (!size || sizesInside(getOperation()).empty())
    return;
  program.setDim(size->dim);
  program.setSize(size->size);
}

/// A program without contents.
static rank::ProgramOp createProgram(OpBuilder &builder, Location loc, dist::ScheduleOp schedule, dist::MeshOp mesh) {
  const IntegerAttr later; // placement tells
  auto program = rank::ProgramOp::create(builder, loc, ("stage" + Twine(schedule.getStage())).str(),
                                         schedule.getStage(), schedule.getSlots(), mesh.getVirtualStages(),
                                         /*threads=*/later, /*fixed_bytes=*/later, /*snapshot_bytes=*/later,
                                         /*checkpoint_writer_bytes=*/later, /*dim=*/StringAttr(), /*size=*/later);
  program.getBody().emplaceBlock();
  return program;
}

LogicalResult LowerToRank::lowerStage(int64_t stage, dist::MeshOp mesh, const ModuleSymbols &declared,
                                      KernelTable &kernels, ExchangeNumbers &collectives, ExchangeNumbers &tags) {
  ModuleOp module = getOperation();
  dist::ScheduleOp schedule = scheduleOf(module, stage);
  if (!schedule)
    return module.emitError("has no dist.schedule of stage ")
           << stage << ", expected one for each of " << mesh.getStages() << " stages";
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  rank::ProgramOp program = createProgram(builder, module.getLoc(), schedule, mesh);
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
        return function.kind == dist::InstructionKind::forward && function.entry == 0 && writesBuffer(function.source);
      }))
    program.setWritesBuffers(true);
  noteSize(program);
  auto abandon = [&] {
    for (Lowered &made : *functions)
      if (made.target)
        made.target->destroy();
    return failure();
  };
  int64_t current = 0;
  for (Lowered &function : *functions) {
    if (&function == functions->begin() || function.kind != (&function - 1)->kind)
      tables.accumulated.clear();
    if (function.entry != current && failed(beginEntry(current = function.entry, stage, tables)))
      return abandon();
    // Made apart, since the tables still grow at the end of the program.
    StringRef entry = current > 0 ? inside[current - 1].name : StringRef();
    std::string name = rank::functionName(function.kind, function.virtualStage, entry);
    function.target = rank::FuncOp::create(builder, FuncOp(function.source).getLoc(), name);
    function.target.getBody().emplaceBlock();
    function.target->remove();
    if (failed(FunctionLowering(tables, function.source, function.target, function.kind, function.virtualStage).run()))
      return abandon();
  }
  llvm::stable_sort(*functions, [](const Lowered &a, const Lowered &b) {
    return std::tuple(a.entry, a.kind, a.virtualStage) < std::tuple(b.entry, b.kind, b.virtualStage);
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
