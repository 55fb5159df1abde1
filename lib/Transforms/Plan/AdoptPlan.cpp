// AdoptPlan: a module that evaluates follows the plan of the module around it, which trains.
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Analysis/Workspaces.h"
#include "hyc/Plan/Policies.h"
#include "hyc/Transforms/Plan/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/Pass/PassManager.h"

#include <numeric>

namespace hyc {
#define GEN_PASS_DEF_ADOPTPLAN
#include "hyc/Transforms/Plan/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

struct AdoptPlan : hyc::impl::AdoptPlanBase<AdoptPlan> {
  void getDependentDialects(DialectRegistry &registry) const override {
    hyc::impl::AdoptPlanBase<AdoptPlan>::getDependentDialects(registry);
    registry.insert<HycDialect, dist::DistDialect>();
  }

  void runOnOperation() override {
    training = getOperation();
    evaluation = evaluationOf(training);
    if (!evaluation)
      return markAllAnalysesPreserved();
    mesh = dist::MeshOp::find(training);
    from = training.lookupSymbol<FuncOp>(kMicrobatch);
    to = evaluation.lookupSymbol<FuncOp>(kMicrobatch);
    if (!mesh || !from || !to) {
      training.emitError("has no ") << (!mesh ? "dist.mesh" : "@microbatch") << " to adopt a plan from, or for";
      return signalPassFailure();
    }
    if (failed(adopt()))
      signalPassFailure();
  }

private:
  LogicalResult adopt() {
    OpBuilder builder = OpBuilder::atBlockBegin(evaluation.getBody());
    builder.clone(*mesh.getOperation());
    for (StringRef name : {StringRef(kPolicyAttribute), StringRef(kTargetAttribute)})
      if (Attribute value = training->getAttr(name))
        evaluation->setAttr(name, value);
    adoptSymbols();
    if (failed(adoptInputs()))
      return failure();
    if (failed(propagate()))
      return failure();
    // Again: propagation leaves what is flat to whoever decides it.
    adoptSymbols();
    if (failed(adoptStages()))
      return failure();
    OpPassManager schedules(ModuleOp::getOperationName());
    BuildScheduleOptions schedule;
    schedule.schedule = "forward";
    schedule.microBatches = countMicroBatches();
    schedules.addPass(createBuildSchedule(schedule));
    return runPipeline(schedules, evaluation);
  }

  LogicalResult propagate() {
    OpPassManager shardings(ModuleOp::getOperationName());
    shardings.addPass(createPropagateShardings());
    StateOp counted = countOfRight();
    if (!counted)
      return runPipeline(shardings, evaluation);
    // What is most likely cannot be found where training has padded the classes. The loss can.
    {
      ScopedDiagnosticHandler keeper(&getContext(), [](Diagnostic &) { return success(); });
      if (succeeded(runPipeline(shardings, evaluation)))
        return success();
    }
    forget(counted);
    to.emitRemark("between steps the loss is told, but not the accuracy: training pads the classes, and a padded one "
                  "could be taken for the best");
    return runPipeline(shardings, evaluation);
  }

  StateOp countOfRight() {
    for (auto state : evaluation.getOps<StateOp>())
      if (state.is(StateRole::correctCount))
        return state;
    return {};
  }

  /// Removes a sum, and what is computed for it alone.
  void forget(StateOp sum) {
    for (auto accumulate : llvm::make_early_inc_range(to.getBody().front().getOps<AccumulateOp>()))
      if (accumulate.getTargetAttr().getAttr() == sum.getSymNameAttr())
        accumulate.erase();
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(to.getBody().front())))
      if (op.getNumResults() > 0 && isMemoryEffectFree(&op) && op.use_empty())
        op.erase();
    sum.erase();
  }

  /// Where parameters and their copies lie, split over what, in which stages.
  void adoptSymbols() {
    SymbolTable trained(training);
    SmallVector<int64_t> everywhere(mesh.getStages());
    std::iota(everywhere.begin(), everywhere.end(), 0);
    for (Operation &symbol : evaluation.getOps()) {
      if (!isa<ParamOp, StateOp>(symbol))
        continue;
      Operation *known = trained.lookup(SymbolTable::getSymbolName(&symbol));
      if (!known) { // what only an evaluation counts
        symbol.setAttr(dist::kStages, Builder(&getContext()).getDenseI64ArrayAttr(everywhere));
        continue;
      }
      for (NamedAttribute attribute : known->getDiscardableAttrs())
        if (attribute.getName().strref().starts_with("dist."))
          symbol.setAttr(attribute.getName(), attribute.getValue());
    }
  }

  LogicalResult adoptInputs() {
    llvm::DenseMap<Attribute, Attribute> known;
    for (unsigned i = 0, e = from.getNumArguments(); i < e; ++i)
      known[from.getArgAttr(i, kInput)] = from.getArgAttr(i, dist::kSharding);
    for (unsigned i = 0, e = to.getNumArguments(); i < e; ++i) {
      Attribute name = to.getArgAttr(i, kInput), sharding = name ? known.lookup(name) : Attribute();
      if (!sharding)
        return to.emitError("argument ") << i << " is input " << (name ? name : Attribute(UnitAttr::get(&getContext())))
                                         << ", which training does not read";
      to.setArgAttr(i, dist::kSharding, sharding);
    }
    return success();
  }

  /// An op is in the chunk of training's op of its id, but never before what it reads. Those that training lacks and
  /// that read inputs or parameters alone stand with the first op that uses them: inputs are given to each stage, and
  /// what is made of them may be far larger (a label's place among all classes).
  LogicalResult adoptStages() {
    llvm::StringMap<int64_t> chunkOfId;
    for (Operation &op : from.getBody().front())
      if (!isBackward(&op) && !getId(&op).empty())
        if (std::optional<int64_t> chunk = dist::chunkOf(&op))
          chunkOfId[getId(&op)] = *chunk;
    llvm::DenseMap<Operation *, int64_t> chunks; ///< none: what uses it decides
    llvm::SmallPtrSet<Operation *, 8> ofInputs;  ///< of those without a chunk
    for (Operation &op : to.getBody().front().without_terminator()) {
      int64_t chunk = -1;
      bool readsInput = false;
      for (Value operand : op.getOperands()) {
        Operation *def = operand.getDefiningOp();
        chunk = std::max(chunk, lookupOr(chunks, def, -1));
        readsInput |= !def || ofInputs.contains(def);
      }
      if (auto known = chunkOfId.find(getId(&op)); known != chunkOfId.end() && (chunk >= 0 || readsInput))
        chunk = std::max(chunk, known->second);
      if (chunk >= 0)
        chunks[&op] = chunk;
      else if (readsInput)
        ofInputs.insert(&op);
    }
    for (Operation &op : llvm::reverse(to.getBody().front().without_terminator())) {
      if (!chunks.contains(&op)) {
        int64_t first = mesh.getChunks() - 1;
        for (Operation *user : op.getUsers())
          first = std::min(first, lookupOr(chunks, user, first));
        chunks[&op] = first;
      }
      op.setAttr(dist::kStage, Builder(&getContext()).getI64IntegerAttr(chunks[&op]));
    }
    return verifyHeld();
  }

  static int64_t lookupOr(const llvm::DenseMap<Operation *, int64_t> &chunks, Operation *op, int64_t otherwise) {
    auto found = chunks.find(op);
    return found == chunks.end() ? otherwise : found->second;
  }

  /// What a stage evaluates with is what it trains.
  LogicalResult verifyHeld() {
    SymbolTable symbols(evaluation);
    for (auto read : to.getBody().front().getOps<ReadOp>()) {
      auto held = symbols.lookup(read.getSource())->getAttrOfType<DenseI64ArrayAttr>(dist::kStages);
      for (Operation *user : read->getUsers())
        if (int64_t stage = mesh.getStageOf(dist::chunkOf(user).value_or(0));
            !held || !llvm::is_contained(held.asArrayRef(), stage))
          return read.emitOpError("is evaluated on stage ")
                 << stage << ", where training does not keep it; compile the model with --entry train";
    }
    return success();
  }

  int64_t countMicroBatches() {
    int64_t count = 0;
    for (auto instruction :
         (*training.getOps<dist::ScheduleOp>().begin()).getInstructions().getAsRange<dist::InstructionAttr>())
      count += instruction.getKind() == dist::InstructionKind::forward && instruction.getVirtualStage() == 0;
    return count;
  }

  ModuleOp training, evaluation;
  dist::MeshOp mesh;
  FuncOp from, to;
};
} // namespace
