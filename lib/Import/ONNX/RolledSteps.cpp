// One step is imported into a block of its own. Then what it needs from around becomes arguments, and what is the same
// in every step moves before all of them.
#include "RolledSteps.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;

/// Whether every step may do what the first does: it draws nothing and changes nothing.
static bool isRepeatable(Operation &op) {
  return !isa<DropoutOp>(op) && !(isa<AttentionOp>(op) && cast<AttentionOp>(op).getDropout()) &&
         (isMemoryEffectFree(&op) || isa<ReadOp>(op));
}

/// Moves what does not depend on the step before `builder`'s place. Constants stay: clusters have them as literals.
static void hoistInvariant(Block &step, OpBuilder &builder) {
  for (Operation &op : llvm::make_early_inc_range(step)) {
    if (isa<ConstantOp>(op))
      continue;
    bool isInvariant = llvm::all_of(op.getOperands(), [&](Value value) {
      return value.getParentBlock() != &step || value.getDefiningOp<ConstantOp>();
    });
    if (!isInvariant)
      continue;
    for (OpOperand &operand : op.getOpOperands())
      if (operand.get().getParentBlock() == &step)
        operand.set(builder.clone(*operand.get().getDefiningOp())->getResult(0));
    op.moveBefore(builder.getInsertionBlock(), builder.getInsertionPoint());
  }
}

/// Makes arguments of what the step takes from around it; returns that.
static llvm::SmallVector<Value> captureOutside(Block &step) {
  llvm::MapVector<Value, Value> inside;
  for (Operation &op : llvm::make_early_inc_range(step))
    for (OpOperand &operand : op.getOpOperands()) {
      Value value = operand.get();
      if (value.getParentBlock() == &step)
        continue;
      if (auto constant = value.getDefiningOp<ConstantOp>(); constant && constant.getValue().isSplat()) {
        operand.set(OpBuilder(&op).clone(*constant)->getResult(0));
        continue;
      }
      Value &known = inside[value];
      if (!known)
        known = step.addArgument(value.getType(), value.getLoc());
      operand.set(known);
    }
  return llvm::map_to_vector(inside, [](auto &entry) { return entry.first; });
}

std::optional<Step> Importer::rollSteps(Repeated repeated, StepBuilder build) {
  auto valuesOf = [&](std::vector<Binding> &bindings) {
    return llvm::map_to_vector(bindings, [&](Binding &binding) { return materialise(binding); });
  };
  llvm::SmallVector<Value> init = valuesOf(repeated.init), sequences = valuesOf(repeated.sequences);
  auto step = std::make_unique<Block>();
  std::vector<Binding> carried, elements;
  for (Value value : init)
    carried.push_back(ofValue(step->addArgument(value.getType(), currentLoc)));
  for (Value value : sequences) {
    auto type = cast<RankedTensorType>(value.getType());
    auto each = RankedTensorType::get(type.getShape().drop_front(), type.getElementType());
    elements.push_back(ofValue(step->addArgument(each, currentLoc)));
  }
  std::optional<Step> made;
  llvm::SmallVector<Value> yielded;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(step.get());
    // What is made in the step is not there outside.
    auto outside = largeConstants;
    made = build(carried, elements);
    if (made && made->carried.size() == init.size()) {
      yielded = valuesOf(made->carried);
      llvm::append_range(yielded, valuesOf(made->given));
    }
    largeConstants = std::move(outside);
  }
  const bool fits = made && made->carried.size() == init.size() &&
                    llvm::equal(TypeRange(init), TypeRange(yielded).take_front(init.size())) &&
                    llvm::all_of(*step, isRepeatable);
  if (!fits) {
    step->dropAllReferences();
    step->clear();
    return std::nullopt;
  }
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(step.get());
    YieldOp::create(builder, currentLoc, yielded);
  }
  hoistInvariant(*step, builder);
  llvm::SmallVector<Value> invariants = captureOutside(*step);
  auto scan = ScanOp::ofStep(builder, currentLoc, repeated.steps, repeated.isReverse, init, sequences, invariants,
                             std::move(step));
  ids.assign(scan, currentScope);
  Step results;
  for (Value value : scan.getLast())
    results.carried.push_back(ofValue(value));
  for (Value value : scan.getStacks())
    results.given.push_back(ofValue(value));
  return results;
}
