// Decides which forward values are saved, and checks what a plan file has decided.
#include "LifetimeChoice.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/OpSharding.h"
#include "hyc/Analysis/Repetition.h"
#include "hyc/Transforms/Plan/Passes.h"

namespace hyc {
#define GEN_PASS_DEF_ASSIGNLIFETIMES
#include "hyc/Transforms/Plan/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;
using dist::LifetimeAttr;
using dist::LifetimeKind;

namespace {

struct AssignLifetimes : hyc::impl::AssignLifetimesBase<AssignLifetimes> {
  using AssignLifetimesBase::AssignLifetimesBase;

  void runOnOperation() override {
    module = getOperation();
    func = module.lookupSymbol<FuncOp>(kMicrobatch);
    mesh = dist::MeshOp::find(module);
    if (!func || !mesh) {
      module.emitError("has no ") << (func ? "dist.mesh" : "@microbatch") << " to plan for";
      return signalPassFailure();
    }
    Repetition repetition(func);
    if (failed(decide(repetition)))
      return signalPassFailure();
    if (offload)
      offloadWhatIsSaved(repetition);
    if (failed(check(repetition)))
      signalPassFailure();
  }

private:
  LogicalResult decide(const Repetition &repetition) {
    if (mode == "planned") {
      repeatWithoutInputs(repetition);
      return success();
    }
    // Before the choices below, which then see what they cost.
    repeatWithoutInputs(repetition);
    repeatMasks();
    if (mode == "none")
      return success();
    findCandidates(repetition);
    if (mode == "layer") {
      for (Operation *op : inOrder)
        repeat(op);
      if (partitionActivations)
        saveBoundariesInParts();
      return success();
    }
    if (mode == "selective") {
      for (Operation *op : plan::findCheapExpansions(func, mesh, candidates))
        repeat(op);
      return success();
    }
    if (mode == "auto")
      return decideWithinBudget();
    return module.emitError("recomputation mode is \"")
           << mode << "\", expected none, layer, selective, auto or planned";
  }

  /// All that the mode leaves to be saved, but for what the last layer's backward needs at once.
  void offloadWhatIsSaved(const Repetition &repetition) {
    if (layers.empty())
      findCandidates(repetition);
    for (ArrayRef<Operation *> ops : {ArrayRef(boundaries), ArrayRef(inOrder)})
      for (Operation *op : ops)
        if (LifetimeAttr lifetime = LifetimeAttr::of(op); !lifetime.isRecompute())
          op->setAttr(dist::kLifetime, LifetimeAttr::get(&getContext(), LifetimeKind::offload, lifetime.getOver()));
  }

  void repeat(Operation *op) {
    op->setAttr(dist::kLifetime, LifetimeAttr::get(&getContext(), LifetimeKind::recompute));
    ++repeatedOps;
  }

  /// Masks are drawn again, in whatever order of dimensions they are used.
  void repeatMasks() {
    for (Operation &op : func.getBody().front()) {
      Operation *drawn = &op;
      while (drawn && isa<TransposeOp, ReshapeOp>(drawn))
        drawn = drawn->getOperand(0).getDefiningOp();
      if (isa_and_nonnull<DropoutMaskOp>(drawn) && !isBackward(&op) && !isFree(&op) && !op.hasAttr(dist::kLifetime))
        repeat(&op);
    }
  }

  /// What is computed from constants alone, such as a causal mask, is never worth a place in memory.
  void repeatWithoutInputs(const Repetition &repetition) {
    llvm::DenseSet<Operation *> constant;
    for (Operation &op : func.getBody().front()) {
      bool isConstant =
          !isa<ReadOp>(op) && op.getNumResults() > 0 && repetition.isExact(&op) &&
          llvm::all_of(op.getOperands(), [&](Value operand) { return constant.contains(operand.getDefiningOp()); });
      if (!isConstant)
        continue;
      constant.insert(&op);
      if (!isBackward(&op) && !isFree(&op) && !op.hasAttr(dist::kLifetime))
        repeat(&op);
    }
  }

  int64_t stageOf(Operation *op) { return mesh.getStageOf(dist::chunkOf(op).value_or(0)); }

  /// How many micro-batches' values a stage holds at once, those of each of its chunks counted.
  int64_t slotsOf(int64_t stage) {
    for (auto schedule : module.getOps<dist::ScheduleOp>())
      if (static_cast<int64_t>(schedule.getStage()) == stage)
        return schedule.getSlots();
    return 1;
  }

  /// What backward may compute again: what has no effect, crosses to no other layer, and is not followed by its own
  /// backward at once, since nothing would be freed in between.
  void findCandidates(const Repetition &repetition) {
    layers = findLayers(func);
    llvm::DenseMap<Operation *, size_t> layerOf;
    size_t last = 0; // that computes something: adding up the loss is no layer to keep values for
    for (auto [index, layer] : llvm::enumerate(layers))
      for (Operation *op : layer)
        if (op->getNumResults() > 0)
          layerOf[op] = last = index;
    auto crosses = [&](Operation *op, size_t layer) {
      return llvm::any_of(op->getUsers(), [&](Operation *user) {
        auto entry = layerOf.find(user);
        return entry != layerOf.end() && entry->second != layer;
      });
    };
    for (Operation &op : func.getBody().front()) {
      if (isBackward(&op) || op.getNumResults() == 0 || isFree(&op) || !repetition.isExact(&op))
        continue;
      auto layer = layerOf.find(&op);
      if (layer != layerOf.end() && crosses(&op, layer->second)) {
        boundaries.push_back(&op);
        continue;
      }
      if (layer != layerOf.end() && layer->second == last && slotsOf(stageOf(&op)) == 1)
        continue;
      candidates.insert(&op);
      inOrder.push_back(&op);
    }
  }

  /// What crosses between layers is saved without being told. Here also in parts, where every rank of the tensor axes
  /// has the same.
  void saveBoundariesInParts() {
    dist::AxisListAttr tensor = mesh.getTensorAxes();
    if (tensor.empty())
      return;
    auto inParts = LifetimeAttr::get(&getContext(), LifetimeKind::save, tensor);
    for (Operation *op : boundaries) {
      bool split = llvm::any_of(op->getResults(), [&](Value result) {
        dist::ShardingAttr sharding = recordedSharding(result);
        return !sharding || llvm::any_of(tensor.getAxes(), [&](StringAttr axis) { return sharding.splits(axis); });
      });
      if (!split)
        op->setAttr(dist::kLifetime, inParts);
    }
  }

  LogicalResult decideWithinBudget() {
    if (budgets.empty())
      return module.emitError("recomputation mode is \"auto\", which needs budgets");
    for (int64_t chunk = 0; chunk < mesh.getChunks(); ++chunk) {
      int64_t stage = mesh.getStageOf(chunk);
      // Chunks share slots: each may fill one.
      int64_t budget = budgets[std::min<size_t>(stage, budgets.size() - 1)] / std::max<int64_t>(slotsOf(stage), 1);
      for (Operation *op : plan::chooseWithinBudget(func, mesh, chunk, candidates, layers, budget))
        repeat(op);
    }
    return success();
  }

  LogicalResult check(const Repetition &repetition) {
    for (Operation &op : func.getBody().front())
      if (op.hasAttr(dist::kLifetime) && failed(check(&op, repetition)))
        return failure();
    return success();
  }

  LogicalResult check(Operation *op, const Repetition &repetition) {
    LifetimeAttr lifetime = LifetimeAttr::of(op);
    if (isBackward(op))
      return op->emitError("[lifetime.forward] backward op \"")
             << getId(op) << "\" has the lifetime " << lifetime << ", expected it on forward ops only";
    if (lifetime.isRecompute() && !repetition.isExact(op))
      return op->emitError("[lifetime.exact] \"")
             << getId(op) << "\" has effects, so that it cannot be computed again; save it";
    for (StringAttr axis : lifetime.getOver().getAxes()) {
      if (!llvm::is_contained(mesh.getAxes(), axis))
        return op->emitError("[lifetime.whole] \"")
               << getId(op) << "\" is saved over axis \"" << axis.getValue() << "\", which the mesh does not have";
      for (Value result : op->getResults())
        if (dist::ShardingAttr sharding = recordedSharding(result); sharding && sharding.splits(axis))
          return op->emitError("[lifetime.whole] \"") << getId(op) << "\" is saved over axis \"" << axis.getValue()
                                                      << "\", which splits it already: " << sharding;
    }
    return success();
  }

  ModuleOp module;
  FuncOp func;
  dist::MeshOp mesh;
  SmallVector<Layer> layers;
  plan::Candidates candidates;
  SmallVector<Operation *> inOrder; // the candidates
  SmallVector<Operation *> boundaries;
};
} // namespace
