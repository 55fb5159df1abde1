// hyc.scan: what it is made of, what it costs, and the same written out step by step.
#include "dialects/Hyc/DerivedOps.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace hyc;

ArrayRef<BlockArgument> ScanOp::getCarriedArguments() { return getStep().getArguments().take_front(countCarried()); }
ArrayRef<BlockArgument> ScanOp::getElementArguments() {
  return getStep().getArguments().slice(countCarried(), getSequences().size());
}
ArrayRef<BlockArgument> ScanOp::getInvariantArguments() {
  return getStep().getArguments().take_back(getInvariants().size());
}

/// `type` without its dimension 0.
static RankedTensorType elementType(Type type) {
  auto whole = cast<RankedTensorType>(type);
  return RankedTensorType::get(whole.getShape().drop_front(), whole.getElementType());
}

/// `steps` of `type` along a new dimension 0.
static RankedTensorType stackType(Type type, int64_t steps) {
  auto each = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape{steps};
  llvm::append_range(shape, each.getShape());
  return RankedTensorType::get(shape, each.getElementType());
}

ScanOp ScanOp::ofStep(OpBuilder &builder, Location loc, int64_t steps, bool isReverse, ValueRange init,
                      ValueRange sequences, ValueRange invariants, std::unique_ptr<Block> step) {
  SmallVector<Type> results;
  for (auto [index, value] : llvm::enumerate(step->getTerminator()->getOperands()))
    results.push_back(index < init.size() ? value.getType() : stackType(value.getType(), steps));
  auto op = create(builder, loc, results, builder.getI64IntegerAttr(steps),
                   isReverse ? builder.getUnitAttr() : UnitAttr(), init, sequences, invariants);
  op.getBody().getBlocks().clear();
  op.getBody().push_back(step.release());
  return op;
}

LogicalResult ScanOp::verify() {
  const auto steps = static_cast<int64_t>(getSteps());
  if (steps < 1)
    return emitOpError("[scan.steps] has ") << steps << " steps, expected at least one";
  if (getOuts().size() < countCarried())
    return emitOpError("[scan.body] has ") << getOuts().size() << " results and carries " << countCarried()
                                           << " values, expected at least one result for each";
  auto goesAlong = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    return tensor.getRank() > 0 && tensor.getDimSize(0) == steps;
  };
  for (Type type :
       llvm::concat<Type>(SmallVector<Type>(getSequences().getTypes()), SmallVector<Type>(getStacks().getTypes())))
    if (!goesAlong(type))
      return emitOpError("[scan.steps] goes along ") << type << ", expected a dimension 0 of " << steps;
  SmallVector<Type> arguments(getInit().getTypes()), yielded(getInit().getTypes());
  llvm::append_range(arguments, llvm::map_range(getSequences().getTypes(), elementType));
  llvm::append_range(arguments, getInvariants().getTypes());
  if (getStep().getArgumentTypes() != TypeRange(arguments))
    return emitOpError("[scan.body] takes (") << getStep().getArgumentTypes() << "), expected (" << arguments << ")";
  llvm::append_range(yielded, llvm::map_range(getStacks().getTypes(), elementType));
  if (getYielded().getTypes() != TypeRange(yielded) || getLast().getTypes() != getInit().getTypes())
    return emitOpError("[scan.body] yields (") << getYielded().getTypes() << "), expected (" << yielded << ")";
  return success();
}

/// What a step computes, as often as there are steps.
int64_t ScanOp::getFlops() {
  int64_t once = 0;
  for (Operation &op : getStep().without_terminator())
    if (auto cost = dyn_cast<CostOpInterface>(op))
      once += cost.getFlops();
  return once * static_cast<int64_t>(getSteps());
}

LogicalResult ScanOp::decompose(OpBuilder &builder, SmallVectorImpl<Value> &results) {
  DerivedOps b(builder, *this, ".");
  const auto steps = static_cast<int64_t>(getSteps());
  SmallVector<Value> carried(getInit());
  SmallVector<SmallVector<Value>> stacks(getStacks().size(), SmallVector<Value>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = getReverse() ? steps - 1 - i : i;
    IRMapping mapping;
    mapping.map(getCarriedArguments(), carried);
    mapping.map(getInvariantArguments(), getInvariants());
    for (auto [element, sequence] : llvm::zip_equal(getElementArguments(), getSequences())) {
      RankedTensorType whole = tensorTypeOf(sequence), each = tensorTypeOf(element);
      SmallVector<int64_t> offsets(whole.getRank(), 0), strides(whole.getRank(), 1);
      offsets[0] = t;
      Value part = b.create<SliceOp>("slice" + Twine(t), stackType(each, 1), sequence, offsets, strides);
      mapping.map(element, Value(b.create<ReshapeOp>("element" + Twine(t), each, part)));
    }
    for (Operation &op : getStep().without_terminator())
      if (Operation *made = builder.clone(op, mapping); !getId(made).empty())
        setId(made, getId(made) + ".step" + Twine(t));
    for (auto [index, value] : llvm::enumerate(getYielded())) {
      Value given = mapping.lookupOrDefault(value);
      if (index < carried.size())
        carried[index] = given;
      else
        stacks[index - carried.size()][t] =
            b.create<ReshapeOp>("stacked" + Twine(t), stackType(given.getType(), 1), given);
    }
  }
  results.append(carried);
  for (auto [stack, parts] : llvm::zip_equal(getStacks(), stacks))
    results.push_back(b.create<ConcatOp>("stack", stack.getType(), parts, 0));
  return success();
}
