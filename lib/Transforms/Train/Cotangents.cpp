// One op's part of the reverse walk, and the sums of what arrives at a value.
#include "Cotangents.h"

#include "ScanGradient.h"
#include "TrainingState.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

void Cotangents::add(Value value, Value cotangent) {
  if (auto parts = apart.find(value); parts != apart.end())
    parts->second.push_back(cotangent);
  else if (!slices.collect(value, cotangent))
    sum(value, cotangent);
}

void Cotangents::sum(Value value, Value cotangent) {
  Value &known = sums[value];
  if (!known) {
    known = cotangent;
    return;
  }
  // The argument of a step is named after the scan.
  Operation *origin = value.getDefiningOp() ? value.getDefiningOp() : value.getParentBlock()->getParentOp();
  auto add = AddOp::create(builder, origin->getLoc(), known, cotangent);
  setId(add, getId(origin) + ".grad.sum");
  known = add;
}

Value Cotangents::of(Value value) {
  for (Value joined : slices.join(value, builder))
    sum(value, joined);
  return sums.lookup(value);
}

static LogicalResult buildGradient(Operation *op, OpBuilder &builder, ArrayRef<Value> results, ArrayRef<bool> wanted,
                                   SmallVectorImpl<Value> &operands) {
  if (auto scan = dyn_cast<ScanOp>(op))
    return buildScanGradient(scan, builder, results, wanted, operands);
  if (auto differentiable = dyn_cast<DifferentiableOpInterface>(op))
    return differentiable.buildGradient(builder, results, wanted, operands);
  return op->emitOpError(
      "has no gradient, but a trainable parameter reaches the loss through it; freeze what feeds it, "
      "or express it by other ops");
}

FailureOr<bool> Cotangents::differentiate(Operation *op, const DenseSet<Value> &active) {
  SmallVector<Value> results;
  for (Value result : op->getResults())
    results.push_back(of(result));
  SmallVector<bool> wanted;
  for (Value operand : op->getOperands())
    wanted.push_back(active.contains(operand));
  bool reached = llvm::any_of(results, [](Value value) { return value != nullptr; });
  if (!reached || !llvm::is_contained(wanted, true))
    return false;
  SmallVector<Value> operandCotangents;
  Block *block = builder.getInsertionBlock();
  const bool isFirst = builder.getInsertionPoint() == block->begin();
  Operation *last = isFirst ? nullptr : &*std::prev(builder.getInsertionPoint());
  if (failed(buildGradient(op, builder, results, wanted, operandCotangents)))
    return failure();
  if (Attribute wide = op->getAttr(kWide))
    for (Operation &made :
         llvm::make_range(last ? std::next(last->getIterator()) : block->begin(), builder.getInsertionPoint()))
      made.setAttr(kWide, wide);
  for (auto [operand, cotangent] : llvm::zip_equal(op->getOperands(), operandCotangents))
    if (cotangent)
      add(operand, cotangent);
  return true;
}
