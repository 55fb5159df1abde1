// Realises lifetimes: executes in backward again what the plan does not save, and saves in parts what it saves in
// parts.
//
// Every backward op is visited in order. Where it needs a forward value that is not saved, the ops that make it are
// cloned in front of it, back to what is saved; a value is computed again at most once. Clones therefore come as late
// as they can, and those of one layer are alive during that layer's backward only, which is what makes the peak fall.
// The surprise: a stage never computes again what an earlier stage computed. Such a value has come over a channel, and
// stays.
#include "Exchanges.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/Repetition.h"
#include "hyc/Transforms/Local/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace hyc {
#define GEN_PASS_DEF_RECOMPUTEACTIVATIONS
#include "hyc/Transforms/Local/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;
using dist::LifetimeAttr;

namespace {

class Recomputer {
public:
  Recomputer(FuncOp func, dist::MeshOp mesh) : func(func), mesh(mesh), context(func.getContext()), repetition(func) {}

  void run();

  int64_t clonedOps = 0, splitValues = 0;

private:
  static bool isForward(Operation *op) { return op && !isBackward(op) && op->getNumResults() > 0; }
  static bool isKeptInParts(Operation *op) {
    return isForward(op) && !isFree(op) && !LifetimeAttr::of(op).getOver().empty();
  }
  /// -1 for ops that stand wherever they are used.
  static int64_t stageOf(Operation *op) {
    auto stage = op->getAttrOfType<IntegerAttr>(dist::kStage);
    return stage && !(isFree(op) && op->getNumOperands() == 0) ? stage.getInt() : -1;
  }

  /// Whether backward executes the op that makes `value` again for a user on `stage`.
  bool isRepeated(Value value, int64_t stage);
  bool decideRepetition(Operation *op);
  void collect(Value value, int64_t stage, llvm::SetVector<Operation *> &needed);
  void clone(Operation *op, Operation *before);
  /// Gives `user`, a backward op, what it needs of forward.
  void connect(Operation *user);
  /// `value`, which forward saves in parts, whole again before `user`.
  Value join(Value value, ArrayRef<StringAttr> axes, Operation *user);
  /// The dimension that `parts` ranks share the elements of; -1 where there is none.
  static int64_t dimensionToSplit(RankedTensorType type, int64_t parts);

  FuncOp func;
  dist::MeshOp mesh;
  MLIRContext *context;
  Repetition repetition;
  llvm::DenseMap<Operation *, unsigned> order;
  llvm::DenseMap<Operation *, bool> repeated;
  llvm::DenseMap<Value, Value> again;                      // forward value -> its clone in backward
  llvm::DenseMap<std::pair<Value, int64_t>, Value> joined; // by forward value and stage
};

bool Recomputer::isRepeated(Value value, int64_t stage) {
  Operation *op = value.getDefiningOp();
  if (!isForward(op) || stageOf(op) < stage)
    return false;
  auto known = repeated.find(op);
  if (known != repeated.end())
    return known->second;
  bool result = decideRepetition(op);
  repeated[op] = result;
  return result;
}

/// Whether `op` is a step of giving a parameter another distribution: an op of this dialect on what has been read.
static bool redistributesParameter(Operation *op) {
  if (!isa<dist::DistDialect>(op->getDialect()))
    return false;
  while (op && op->getNumOperands() > 0 && (isa<ReshapeOp>(op) || isa<dist::DistDialect>(op->getDialect())))
    op = op->getOperand(0).getDefiningOp();
  return isa_and_nonnull<ReadOp>(op);
}

bool Recomputer::decideRepetition(Operation *op) {
  if (!repetition.isExact(op))
    return false;
  // Cutting stages repeats free ops by itself, but only from the forward values that it finds.
  if (isFree(op))
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      return isRepeated(operand, stageOf(op)) || isKeptInParts(operand.getDefiningOp());
    });
  // A parameter's shards are joined again, whoever uses it: it is no activation, and no record keeps it.
  return LifetimeAttr::of(op).isRecompute() || redistributesParameter(op);
}

void Recomputer::collect(Value value, int64_t stage, llvm::SetVector<Operation *> &needed) {
  SmallVector<std::pair<Value, int64_t>> work{{value, stage}};
  while (!work.empty()) {
    auto [wanted, user] = work.pop_back_val();
    if (again.contains(wanted) || !isRepeated(wanted, user))
      continue;
    Operation *op = wanted.getDefiningOp();
    if (needed.insert(op))
      for (Value operand : op->getOperands())
        work.push_back({operand, stageOf(op)});
  }
}

void Recomputer::clone(Operation *op, Operation *before) {
  OpBuilder builder(before);
  Operation *copy = builder.clone(*op);
  copy->setAttr(kBackward, builder.getUnitAttr());
  if (StringRef id = getId(op); !id.empty())
    setId(copy, id + ".again");
  for (auto [original, repeatedResult] : llvm::zip_equal(op->getResults(), copy->getResults()))
    again[original] = repeatedResult;
  ++clonedOps;
}

int64_t Recomputer::dimensionToSplit(RankedTensorType type, int64_t parts) {
  for (auto [dim, size] : llvm::enumerate(type.getShape()))
    if (size % parts == 0)
      return static_cast<int64_t>(dim);
  return -1;
}

Value Recomputer::join(Value value, ArrayRef<StringAttr> axes, Operation *user) {
  Operation *op = value.getDefiningOp();
  auto type = cast<RankedTensorType>(value.getType());
  auto axisList = dist::AxisListAttr::get(context, axes);
  int64_t parts = mesh.getSize(axisList), dim = dimensionToSplit(type, parts);
  if (parts == 1 || dim < 0)
    return value;
  // Kept by the stage that needs it, or, where that comes earlier, by the one that has it.
  int64_t stage = std::max(stageOf(op), stageOf(user));
  Value &whole = joined[{value, stage}];
  if (whole)
    return whole;
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] /= parts;
  auto stageAttr = IntegerAttr::get(IntegerType::get(context, 64), stage);
  OpBuilder afterValue(context), beforeUser(user);
  afterValue.setInsertionPointAfter(op);
  auto part = dist::SliceOp::create(afterValue, op->getLoc(), RankedTensorType::get(shape, type.getElementType()),
                                    value, afterValue.getI64IntegerAttr(dim), axisList);
  part->setAttr(dist::kStage, stageAttr);
  if (StringRef id = getId(op); !id.empty())
    setId(part, id + ".part");
  if (LifetimeAttr::of(op).isOffload())
    part->setAttr(dist::kLifetime, LifetimeAttr::get(context, dist::LifetimeKind::offload));
  whole = local::allGather({beforeUser, beforeUser, op->getLoc()}, part, dim, type.getDimSize(dim),
                           local::groupOf(context, axes), {getId(op), "saved in parts over its ranks"});
  for (Operation *added : {whole.getDefiningOp(), whole.getDefiningOp()->getOperand(0).getDefiningOp()}) {
    added->setAttr(dist::kStage, stageAttr);
    added->setAttr(kBackward, UnitAttr::get(context));
  }
  ++splitValues;
  return whole;
}

void Recomputer::connect(Operation *user) {
  llvm::SetVector<Operation *> needed;
  for (Value operand : user->getOperands())
    collect(operand, stageOf(user), needed);
  SmallVector<Operation *> inOrder(needed.getArrayRef());
  llvm::sort(inOrder, [&](Operation *a, Operation *b) { return order[a] < order[b]; });
  for (Operation *op : inOrder)
    clone(op, user);
  // Clones read what they need like any other backward op, once all of them exist.
  auto supply = [&](Operation *reader) {
    for (OpOperand &operand : reader->getOpOperands()) {
      Value value = operand.get();
      if (isRepeated(value, stageOf(reader)))
        operand.set(again.lookup(value));
      else if (Operation *op = value.getDefiningOp(); isKeptInParts(op))
        operand.set(join(value, LifetimeAttr::of(op).getOver().getAxes(), reader));
    }
  };
  for (Operation *op : inOrder)
    supply(again.lookup(op->getResult(0)).getDefiningOp());
  supply(user);
}

void Recomputer::run() {
  SmallVector<Operation *> backward;
  for (auto [position, op] : llvm::enumerate(func.getBody().front())) {
    order[&op] = position;
    if (isBackward(&op))
      backward.push_back(&op);
  }
  for (Operation *op : backward)
    connect(op);
}

struct RecomputeActivations : hyc::impl::RecomputeActivationsBase<RecomputeActivations> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto func = module.lookupSymbol<FuncOp>(kMicrobatch);
    dist::MeshOp mesh = dist::MeshOp::find(module);
    if (!func || !mesh) {
      module.emitError("has no ") << (func ? "dist.mesh" : "@microbatch") << " to recompute in";
      return signalPassFailure();
    }
    Recomputer recomputer(func, mesh);
    recomputer.run();
    clonedOps += recomputer.clonedOps;
    splitValues += recomputer.splitValues;
    // Realised, but for what hyc-offload-activations does: from here on the program itself says what is saved.
    for (Operation &op : func.getBody().front())
      if (op.hasAttr(dist::kLifetime) && (!LifetimeAttr::of(&op).isOffload() || isBackward(&op)))
        op.removeAttr(dist::kLifetime);
  }
};
} // namespace
