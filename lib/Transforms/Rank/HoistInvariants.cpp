// Moves what does not depend on the step out of scans.
#include "dialects/Hyc/StepFacts.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Transforms/Rank/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace hyc {
#define GEN_PASS_DEF_HOISTINVARIANTS
#include "hyc/Transforms/Rank/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

/// What a cluster makes as it goes, so that a tensor of it would only have to be read.
bool isMadeInPassing(Operation *op) {
  auto constant = dyn_cast<ConstantOp>(op);
  return isa<BroadcastOp, IotaOp>(op) || (constant && isa<SplatElementsAttr>(constant.getValue()));
}

class Hoister {
public:
  explicit Hoister(ScanOp scan) : scan(scan), step(scan.getStep()), builder(scan) {
    outside.map(scan.getInvariantArguments(), scan.getInvariants());
  }

  /// How many ops were moved.
  int64_t run() {
    findInvariant();
    // All are computed before any is taken in: one may be made of another.
    SmallVector<std::pair<Value, Value>> wanted;
    for (Operation *op : invariant)
      if (!isMadeInPassing(op))
        for (Value value : op->getResults())
          if (isSeen(value))
            wanted.push_back({value, hoist(value)});
    for (auto [inside, before] : wanted) {
      scan.getInvariantsMutable().append(before);
      inside.replaceAllUsesWith(step.addArgument(inside.getType(), inside.getLoc()));
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(step)))
      if (invariant.contains(&op) && op.use_empty())
        op.erase();
    return moved;
  }

private:
  bool isInvariant(Value value) const {
    return outside.contains(value) || (value.getDefiningOp() && invariant.contains(value.getDefiningOp()));
  }

  void findInvariant() {
    for (Operation &op : step.without_terminator())
      if (isPure(&op) && !drawsRandomNumbers(&op) &&
          llvm::all_of(op.getOperands(), [&](Value operand) { return isInvariant(operand); }))
        invariant.insert(&op);
  }

  /// Whether something that stays in the step uses it.
  bool isSeen(Value value) const {
    return llvm::any_of(value.getUsers(),
                        [&](Operation *user) { return !invariant.contains(user) || isMadeInPassing(user); });
  }

  /// The same value before the scan, with all that it is made of.
  Value hoist(Value value) {
    if (Value known = outside.lookupOrNull(value))
      return known;
    Operation *op = value.getDefiningOp();
    for (Value operand : op->getOperands())
      hoist(operand);
    builder.clone(*op, outside);
    moved += !isMadeInPassing(op);
    return outside.lookup(value);
  }

  ScanOp scan;
  Block &step;
  OpBuilder builder;
  IRMapping outside; ///< of invariant values
  llvm::SetVector<Operation *> invariant;
  int64_t moved = 0;
};

struct HoistInvariants : hyc::impl::HoistInvariantsBase<HoistInvariants> {
  void runOnOperation() override {
    SmallVector<ScanOp> scans;
    walkFunctions(getOperation(), [&](ScanOp scan) { scans.push_back(scan); });
    for (ScanOp scan : scans)
      hoisted += Hoister(scan).run();
  }
};

} // namespace
