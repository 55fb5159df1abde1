// Realises the lifetime `offload`: what forward saves lies in the host's memory until backward needs it.
//
// The surprise: a value is offloaded once for each stage whose backward needs it. What has crossed to a later stage is
// saved there, too, and a copy on the first stage's host is of no use to the second.
#include "dialects/Dist/Placement.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/Repetition.h"
#include "hyc/Transforms/Local/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace hyc {
#define GEN_PASS_DEF_OFFLOADACTIVATIONS
#include "hyc/Transforms/Local/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;
using dist::LifetimeAttr;

namespace {

/// An awaited value is known by the id of what was started.
std::string idOf(Value value) {
  for (Operation *def = value.getDefiningOp(); def; def = def->getOperand(0).getDefiningOp()) {
    if (StringRef id = getId(def); !id.empty())
      return id.str();
    if (def->getNumOperands() == 0)
      break;
  }
  return "value";
}

/// It is offloaded if what was started is.
bool isOffloaded(Value value) {
  for (Operation *def = value.getDefiningOp(); def; def = def->getOperand(0).getDefiningOp()) {
    if (def->hasAttr(dist::kLifetime))
      return LifetimeAttr::of(def).isOffload();
    if (!isa<dist::DistDialect>(def->getDialect()) || def->getNumOperands() == 0)
      return false;
  }
  return false;
}

class ActivationMover {
public:
  explicit ActivationMover(FuncOp func) : func(func) {}

  void run() {
    for (Operation &user : llvm::make_early_inc_range(func.getBody().front()))
      if (isBackward(&user) && !isFree(&user))
        for (OpOperand &operand : user.getOpOperands())
          operand.set(onDevice(operand.get(), &user));
  }

  int64_t copied = 0;

private:
  /// What `user`, a backward op, reads instead of `value`.
  Value onDevice(Value value, Operation *user) {
    Operation *def = value.getDefiningOp();
    auto stage = user->getAttrOfType<IntegerAttr>(dist::kStage);
    if (!def || !stage || (isBackward(def) && !isFree(def)))
      return value;
    auto key = std::pair(value, stage.getInt());
    if (Value known = found.lookup(key))
      return known;
    Value result = isFree(def)          ? repeated(cast<OpResult>(value), user)
                   : isOffloaded(value) ? moved(value, user)
                                        : value;
    return found[key] = result;
  }

  /// Ops that cost nothing stand wherever they are used; this one on what is on the device by then.
  Value repeated(OpResult value, Operation *user) {
    IRMapping mapping;
    for (Value operand : value.getOwner()->getOperands())
      if (Value other = onDevice(operand, user); other != operand)
        mapping.map(operand, other);
    if (mapping.getValueMap().empty())
      return value;
    Operation *clone = OpBuilder(user).clone(*value.getOwner(), mapping);
    clone->setAttr(kBackward, UnitAttr::get(user->getContext()));
    return clone->getResult(value.getResultNumber());
  }

  Value moved(Value value, Operation *user) {
    OpBuilder forward(user->getContext()), backward(user);
    forward.setInsertionPointAfterValue(value);
    ++copied;
    std::string id = idOf(value);
    Value onHost = copy(forward, value, dist::kOnHost, id + ".offloaded", user, false);
    return copy(backward, onHost, dist::kOnDevice, id + ".back", user, true);
  }

  static Value copy(OpBuilder &builder, Value value, StringRef to, const std::string &id, Operation *user,
                    bool isBackward) {
    auto type = cast<RankedTensorType>(value.getType());
    auto start = dist::CopyStartOp::create(builder, value.getLoc(), dist::PendingType::get(builder.getContext(), type),
                                           value, to);
    auto wait = dist::WaitOp::create(builder, value.getLoc(), type, start.getPending());
    setId(wait, id);
    for (Operation *op : {start.getOperation(), wait.getOperation()}) {
      op->setAttr(dist::kStage, user->getAttr(dist::kStage));
      if (isBackward)
        op->setAttr(kBackward, builder.getUnitAttr());
    }
    return wait;
  }

  FuncOp func;
  llvm::DenseMap<std::pair<Value, int64_t>, Value> found; // by forward value and stage
};

struct OffloadActivations : hyc::impl::OffloadActivationsBase<OffloadActivations> {
  void runOnOperation() override {
    auto func = getOperation().lookupSymbol<FuncOp>(kMicrobatch);
    if (!func) {
      getOperation().emitError("has no @microbatch to offload activations of");
      return signalPassFailure();
    }
    ActivationMover mover(func);
    mover.run();
    copiedValues += mover.copied;
    for (Operation &op : func.getBody().front())
      if (op.hasAttr(dist::kLifetime))
        op.removeAttr(dist::kLifetime);
  }
};
} // namespace
