// One step is imported into a block of its own. Then what it needs from around becomes arguments, and what is the same
// in every step moves before all of them.
#include "RolledSteps.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;

/// Whether every step may do what the first does: it draws nothing and changes nothing. Of steps within steps the inner
/// ones are rolled: no gradient is built of a scan in a scan.
static bool isRepeatable(Operation &op) {
  return !isa<ScanOp>(op) && !drawsRandomNumbers(&op) && (isMemoryEffectFree(&op) || isa<ReadOp>(op));
}

/// Moves what does not depend on the step before `builder`'s place; a parameter is read once for all of the step.
/// Constants stay: clusters have them as literals.
static void hoistInvariant(Block &step, OpBuilder &builder) {
  llvm::DenseMap<Attribute, Value> reads;
  for (Operation &op : llvm::make_early_inc_range(step.without_terminator())) {
    if (isa<ConstantOp>(op))
      continue;
    if (auto read = dyn_cast<ReadOp>(op)) {
      auto [known, isFirst] = reads.try_emplace(read.getSourceAttr(), read.getResult());
      if (!isFirst) {
        read.getResult().replaceAllUsesWith(known->second);
        read.erase();
        continue;
      }
    }
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

/// Leaves out sequences that no step reads.
static void dropUnread(Block &step, unsigned first, llvm::SmallVectorImpl<Value> &sequences) {
  for (unsigned index = sequences.size(); index-- > 0;)
    if (step.getArgument(first + index).use_empty()) {
      step.eraseArgument(first + index);
      sequences.erase(sequences.begin() + index);
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

bool hyc::onnx::areWorthRolling(const Repeated &repeated) {
  auto isTensor = [](const Binding &binding) { return binding.isTensor(); };
  auto isRunning = [](const Binding &binding) { return !binding.constant; };
  auto isCounter = [](const Binding &binding) {
    return binding.constant && !isa<FloatType>(binding.type.getElementType());
  };
  return repeated.steps >= kFewSteps && llvm::all_of(repeated.init, isTensor) &&
         llvm::all_of(repeated.sequences, isTensor) && llvm::none_of(repeated.init, isCounter) &&
         (llvm::any_of(repeated.init, isRunning) || llvm::any_of(repeated.sequences, isRunning));
}

void Importer::forgetValuesIn(Block &block) {
  for (auto &entry : bindings) {
    Binding &binding = entry.second;
    if (binding.constant && binding.value && binding.value.getParentBlock() == &block)
      binding.value = {};
  }
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
  llvm::SmallVector<Value> yielded;
  bool fits = false;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(step.get());
    // What is made in the step is not there outside, and what it cannot be is no error yet.
    ScopedDiagnosticHandler quiet(getContext(), [](Diagnostic &) { return success(); });
    auto outside = largeConstants;
    auto keptOutside = kept;
    std::optional<Step> made = build(carried, elements);
    auto isTensor = [](const Binding &binding) { return binding.isTensor(); };
    if (made && llvm::all_of(made->carried, isTensor) && llvm::all_of(made->given, isTensor)) {
      yielded = valuesOf(made->carried);
      llvm::append_range(yielded, valuesOf(made->given));
      fits = made->carried.size() == init.size() &&
             llvm::equal(TypeRange(init), TypeRange(yielded).take_front(init.size())) &&
             llvm::all_of(*step, isRepeatable) && kept.size() == keptOutside.size();
    }
    kept = std::move(keptOutside);
    largeConstants = std::move(outside);
    forgetValuesIn(*step);
  }
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
  dropUnread(*step, init.size(), sequences);
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
