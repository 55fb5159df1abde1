// ApplyForms: decomposes the composite ops that a plan file wants in pieces.
#include "TrainingState.h"
#include "hyc/Transforms/Train/Passes.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

namespace hyc {
#define GEN_PASS_DEF_APPLYFORMS
#include "hyc/Transforms/Train/Passes.h.inc"
} // namespace hyc

namespace {
struct ApplyForms : hyc::impl::ApplyFormsBase<ApplyForms> {
  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<FuncOp>(kTrain);
    if (!function)
      return;
    SmallVector<Operation *> chosen;
    for (Operation &op : function.getBody().front())
      if (op.hasAttr(kForm))
        chosen.push_back(&op);
    for (Operation *op : chosen)
      if (failed(apply(op)))
        return signalPassFailure();
  }

private:
  LogicalResult apply(Operation *op) {
    auto form = dyn_cast<StringAttr>(op->getAttr(kForm));
    if (!form || form != kDecomposed)
      return op->emitOpError() << kForm << " is " << op->getAttr(kForm) << ", expected \"" << kDecomposed << "\"";
    auto composite = dyn_cast<DecomposableOpInterface>(op);
    if (!composite)
      return op->emitOpError("\"") << getId(op) << "\" has no decomposition";
    Operation *last = op->getPrevNode();
    OpBuilder builder(op);
    SmallVector<Value> results;
    if (failed(composite.decompose(builder, results)))
      return failure();
    op->replaceAllUsesWith(results);
    eraseUnused(last, op);
    op->erase();
    ++decomposedOps;
    return success();
  }

  /// Pieces that only make a result that nobody reads, such as attention's lse.
  static void eraseUnused(Operation *before, Operation *end) {
    for (Operation *piece = end->getPrevNode(); piece != before;) {
      Operation *previous = piece->getPrevNode();
      if (isOpTriviallyDead(piece))
        piece->erase();
      piece = previous;
    }
  }
};
} // namespace
