// How a scan is differentiated: its body is walked backwards into the body of another.
//
// The surprise: while that body grows it reads values of the forward body, as every op's gradient does. They become
// elements of stacks at the end, when it is known which of them are read.
#include "ScanGradient.h"

#include "Cotangents.h"
#include "TrainingState.h"
#include "dialects/Hyc/DerivedOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

static bool isFloat(Value value) { return isa<FloatType>(tensorTypeOf(value).getElementType()); }

//===----------------------------------------------------------------------===//
// What the steps compute
//===----------------------------------------------------------------------===//

/// Makes the scan anew with a body that gives the values of `stacked` behind what it carries. Results that both have
/// are replaced: the scan's i-th stack by the `at[i]`-th, or by nothing where that is negative.
static ScanOp withStacks(ScanOp scan, ArrayRef<Value> stacked, ArrayRef<int64_t> at) {
  OpBuilder builder(scan);
  SmallVector<Value> given(scan.getYielded().take_front(scan.countCarried()));
  llvm::append_range(given, stacked);
  scan.getStep().getTerminator()->setOperands(given);
  std::unique_ptr<Block> step(&scan.getStep());
  step->getParent()->getBlocks().remove(step.get());
  auto made = ScanOp::ofStep(builder, scan.getLoc(), static_cast<int64_t>(scan.getSteps()), scan.getReverse(),
                             scan.getInit(), scan.getSequences(), scan.getInvariants(), std::move(step));
  made->setDiscardableAttrs(scan->getDiscardableAttrDictionary());
  for (auto [old, fresh] : llvm::zip_equal(scan.getLast(), made.getLast()))
    old.replaceAllUsesWith(fresh);
  for (auto [old, index] : llvm::zip_equal(scan.getStacks(), at))
    if (index >= 0)
      old.replaceAllUsesWith(made.getStacks()[index]);
  scan.erase();
  return made;
}

/// Whether a step computes the value, which is then stacked.
static bool isComputed(Value value) { return value.getDefiningOp() && !value.getDefiningOp<ConstantOp>(); }

static SmallVector<ScanOp> scansOf(FuncOp function) {
  return llvm::to_vector(function.getBody().front().getOps<ScanOp>());
}

void hyc::train::keepStepValues(FuncOp function) {
  for (ScanOp scan : scansOf(function)) {
    SmallVector<Value> stacked(scan.getYielded().drop_front(scan.countCarried()));
    auto at = llvm::to_vector(llvm::seq<int64_t>(0, static_cast<int64_t>(stacked.size())));
    // What a step is given is what the one before it gave, if that is stacked.
    for (auto [argument, value] : llvm::zip(scan.getCarriedArguments(), scan.getYielded()))
      if (!isComputed(value))
        stacked.push_back(argument);
    for (Operation &op : scan.getStep().without_terminator())
      if (!isa<ConstantOp>(op))
        llvm::append_range(stacked, op.getResults());
    withStacks(scan, stacked, at);
  }
}

void hyc::train::dropUnusedStacks(FuncOp function) {
  // From the last: a scan that goes leaves stacks of others unread, and goes itself where nothing of it is read.
  SmallVector<ScanOp> scans = scansOf(function);
  for (ScanOp scan : llvm::reverse(scans)) {
    if (scan.use_empty()) { // of what turned out to have no gradient
      scan.erase();
      continue;
    }
    SmallVector<Value> kept;
    SmallVector<int64_t> at;
    for (auto [stack, value] : llvm::zip_equal(scan.getStacks(), scan.getYielded().drop_front(scan.countCarried()))) {
      at.push_back(stack.use_empty() ? -1 : static_cast<int64_t>(kept.size()));
      if (at.back() >= 0)
        kept.push_back(value);
    }
    if (kept.size() == at.size())
      continue;
    ScanOp made = withStacks(scan, kept, at);
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(made.getStep())))
      if (isOpTriviallyDead(&op))
        op.erase();
  }
}

//===----------------------------------------------------------------------===//
// The gradient
//===----------------------------------------------------------------------===//

namespace {
class ScanGradient {
public:
  ScanGradient(ScanOp scan, OpBuilder &outside, ArrayRef<Value> results, ArrayRef<bool> wanted)
      : scan(scan), outside(outside), results(results), wanted(wanted), draft(std::make_unique<Block>()),
        inside(scan.getContext()), cotangents(inside) {
    inside.setInsertionPointToEnd(draft.get());
  }

  LogicalResult build(SmallVectorImpl<Value> &operands);

private:
  /// An argument of the new body, and what it is outside.
  struct Given {
    BlockArgument argument;
    Value outer;
  };
  /// A value of the new body that is stacked, or one that is there outside.
  struct Stacked {
    Value inside, outside;
    bool varies = true; ///< from step to step: has a dimension 0 for them
  };
  /// What is done once for all steps, behind the scan, in place of a product or a sum of the body.
  struct Hoisted {
    unsigned operand; ///< of the scan, whose cotangent it is a part of
    SmallVector<Stacked, 2> of;
    std::string lhs, rhs, result; ///< letters of the product
    SmallVector<int64_t> dims;    ///< of the sum, where there are no letters
  };

  void findActive();
  void seed();
  LogicalResult walk();
  void takeInvariant(unsigned operand);
  bool hoist(Operation *op, unsigned operand);
  Stacked stackedOf(Value value);
  bool isForward(Value value) { return value.getParentBlock() == &scan.getStep(); }
  Value forwardStack(Value value);
  Value shiftedStack(unsigned number);
  FailureOr<Value> resolve(Value value);
  LogicalResult resolveForward();
  ScanOp finish(ArrayRef<Value> stacks);
  Value buildHoisted(const Hoisted &hoisted, ArrayRef<Value> operands, DerivedOps &b, unsigned number);

  Value zeros(OpBuilder &at, Type type) {
    DerivedOps b(at, scan, ".grad.");
    return b.splat("zero", type, 0);
  }
  Value give(SmallVectorImpl<Given> &where, Value outer, Type type) {
    where.push_back({draft->addArgument(type, scan.getLoc()), outer});
    return where.back().argument;
  }

  ScanOp scan;
  OpBuilder &outside;
  ArrayRef<Value> results;
  ArrayRef<bool> wanted;
  std::unique_ptr<Block> draft;
  OpBuilder inside;
  Cotangents cotangents;
  DenseSet<Value> active;
  SmallVector<Given> carried, elements, invariants;
  SmallVector<Value> next;               ///< what the new body carries on
  llvm::DenseMap<Value, Value> resolved; ///< forward values in the new body
  llvm::DenseMap<unsigned, int> carries; ///< operands whose cotangent the new scan carries, and where
  SmallVector<Hoisted> hoisted;
  llvm::DenseMap<unsigned, Value> shifted; ///< what steps are given of carried values, by their number
};
} // namespace

/// What a wanted operand feeds, through this step or an earlier one.
void ScanGradient::findActive() {
  for (auto [argument, isWanted] : llvm::zip_equal(scan.getStep().getArguments(), wanted))
    if (isWanted && isFloat(argument))
      active.insert(argument);
  for (bool grows = true; grows;) {
    for (Operation &op : scan.getStep().without_terminator()) {
      bool isActive = !isa<StopGradientOp>(op) &&
                      llvm::any_of(op.getOperands(), [&](Value operand) { return active.contains(operand); });
      for (Value result : op.getResults())
        if (isActive && isFloat(result))
          active.insert(result);
    }
    grows = false;
    for (auto [argument, value] : llvm::zip(scan.getCarriedArguments(), scan.getYielded()))
      if (active.contains(value) && isFloat(argument))
        grows |= active.insert(argument).second;
  }
}

/// The cotangents of what a step gives: of what it carries on from the step behind it, of its elements from outside.
void ScanGradient::seed() {
  for (auto [index, argument] : llvm::enumerate(scan.getCarriedArguments())) {
    if (!active.contains(argument))
      continue;
    Value last = results[index] ? results[index] : zeros(outside, argument.getType());
    carries[index] = static_cast<int>(carried.size());
    Value cotangent = give(carried, last, argument.getType());
    if (Value value = scan.getYielded()[index]; active.contains(value))
      cotangents.add(value, cotangent);
  }
  for (unsigned index = scan.countCarried(); index < results.size(); ++index)
    if (Value value = scan.getYielded()[index]; results[index] && active.contains(value))
      cotangents.add(value, give(elements, results[index], value.getType()));
}

LogicalResult ScanGradient::walk() {
  for (BlockArgument argument : scan.getInvariantArguments())
    cotangents.keepApart(argument);
  seed();
  for (Operation &op : llvm::reverse(scan.getStep().without_terminator()))
    if (failed(cotangents.differentiate(&op, active)))
      return failure();
  for (BlockArgument argument : scan.getCarriedArguments())
    if (active.contains(argument)) {
      Value cotangent = cotangents.of(argument);
      next.push_back(cotangent ? cotangent : zeros(inside, argument.getType()));
    }
  return success();
}

/// The forward value of all steps, as the scan gives it; null where it does not.
Value ScanGradient::forwardStack(Value value) {
  for (auto [stack, yielded] : llvm::zip_equal(scan.getStacks(), scan.getYielded().drop_front(scan.countCarried())))
    if (yielded == value)
      return stack;
  return {};
}

ScanGradient::Stacked ScanGradient::stackedOf(Value value) {
  if (!isForward(value)) {
    auto *given = llvm::find_if(elements, [&](const Given &each) { return each.argument == value; });
    return given == elements.end() ? Stacked{value, Value()} : Stacked{Value(), given->outer};
  }
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    const unsigned number = argument.getArgNumber(), first = scan.countCarried();
    if (number >= first)
      return {Value(), scan->getOperand(number), number < first + scan.getSequences().size()};
  }
  Value stack = forwardStack(value);
  return {Value(), stack || isComputed(value) ? stack : shiftedStack(cast<BlockArgument>(value).getArgNumber())};
}

/// What each step is given of a carried value: what the first is given, then what the steps give, but for the last.
Value ScanGradient::shiftedStack(unsigned number) {
  Value &known = shifted[number];
  Value given = forwardStack(scan.getYielded()[number]);
  if (known || !given)
    return known;
  DerivedOps b(outside, scan, ".grad.before" + std::to_string(number) + ".");
  RankedTensorType type = tensorTypeOf(given);
  SmallVector<int64_t> shape(type.getShape()), offsets(shape.size(), 0), strides(shape.size(), 1);
  auto partType = [&](int64_t steps) {
    shape[0] = steps;
    return RankedTensorType::get(shape, type.getElementType());
  };
  Value first = b.create<ReshapeOp>("first", partType(1), scan.getInit()[number]);
  if (type.getDimSize(0) == 1)
    return known = first;
  offsets[0] = scan.getReverse() ? 1 : 0;
  Value others = b.create<SliceOp>("others", partType(type.getDimSize(0) - 1), given, offsets, strides);
  return known = b.create<ConcatOp>("all", type,
                                    scan.getReverse() ? ValueRange{others, first} : ValueRange{first, others}, 0);
}

/// Whether `op`, whose result is a part of an invariant's cotangent, is done behind the scan: if it is linear in what
/// differs from step to step and sums over something, the sum can run over the steps, too. In the body it then goes as
/// dead, unless the steps carry it on as well.
bool ScanGradient::hoist(Operation *op, unsigned operand) {
  auto reduce = dyn_cast_or_null<ReduceOp>(op);
  if (!op || !op->use_empty() || !(isa<EinsumOp>(op) || (reduce && reduce.getKind() == ReductionKind::sum)))
    return false;
  // A constant of the body is none outside of it.
  if (llvm::any_of(op->getOperands(), [](Value value) { return value.getDefiningOp<ConstantOp>() != nullptr; }))
    return false;
  Hoisted made{operand, {}, "", "", "", {}};
  if (auto product = dyn_cast<EinsumOp>(op)) {
    EinsumOp::Letters letters = product.getLetters();
    made.lhs = letters.lhs.str(), made.rhs = letters.rhs.str(), made.result = letters.result.str();
  } else {
    llvm::append_range(made.dims, reduce.getDims());
  }
  for (Value value : op->getOperands())
    made.of.push_back(stackedOf(value));
  if (llvm::none_of(made.of, [](const Stacked &each) { return each.varies; }))
    return false;
  hoisted.push_back(std::move(made));
  return true;
}

void ScanGradient::takeInvariant(unsigned operand) {
  BlockArgument argument = scan.getStep().getArgument(operand);
  SmallVector<Value> left;
  for (Value part : cotangents.partsOf(argument))
    if (!hoist(part.getDefiningOp(), operand))
      left.push_back(part);
  if (left.empty())
    return;
  carries[operand] = static_cast<int>(carried.size());
  Value sum = give(carried, zeros(outside, argument.getType()), argument.getType());
  DerivedOps b(inside, scan, ".grad.");
  for (Value part : left)
    sum = b.add("accumulate", sum, part);
  next.push_back(sum);
}

/// A value of the forward body in the new one.
FailureOr<Value> ScanGradient::resolve(Value value) {
  Value &known = resolved[value];
  if (known)
    return known;
  if (auto constant = value.getDefiningOp<ConstantOp>()) {
    OpBuilder begin(scan.getContext());
    begin.setInsertionPointToStart(draft.get());
    return known = begin.clone(*constant)->getResult(0);
  }
  Stacked stacked = stackedOf(value);
  if (!stacked.outside)
    return scan.emitOpError("does not keep what its steps compute, as a scan inside of another one does not; write the "
                            "outer steps out"),
           failure();
  return known = give(stacked.varies ? elements : invariants, stacked.outside, value.getType());
}

LogicalResult ScanGradient::resolveForward() {
  for (Operation &op : llvm::make_early_inc_range(*draft))
    for (OpOperand &operand : op.getOpOperands())
      if (isForward(operand.get())) {
        FailureOr<Value> value = resolve(operand.get());
        if (failed(value))
          return failure();
        operand.set(*value);
      }
  return success();
}

/// The scan of the new body, whose arguments it puts in their order.
ScanOp ScanGradient::finish(ArrayRef<Value> stacks) {
  auto step = std::make_unique<Block>();
  SmallVector<Value> init, sequences, fixed;
  for (auto [given, outer] : {std::pair(&carried, &init), {&elements, &sequences}, {&invariants, &fixed}})
    for (Given &each : *given) {
      each.argument.replaceAllUsesWith(step->addArgument(each.argument.getType(), scan.getLoc()));
      outer->push_back(each.outer);
    }
  step->getOperations().splice(step->end(), draft->getOperations());
  auto made = ScanOp::ofStep(outside, scan.getLoc(), static_cast<int64_t>(scan.getSteps()), !scan.getReverse(), init,
                             sequences, fixed, std::move(step));
  setId(made, getId(scan) + ".grad");
  return made;
}

Value ScanGradient::buildHoisted(const Hoisted &each, ArrayRef<Value> operands, DerivedOps &b, unsigned number) {
  std::string suffix = "invariant" + std::to_string(number);
  if (each.of.size() == 1) {
    SmallVector<int64_t> dims{0};
    for (int64_t dim : each.dims)
      dims.push_back(dim + 1);
    return b.reduce(suffix, ReductionKind::sum, operands[0], dims);
  }
  char step = 'a';
  while ((each.lhs + each.rhs + each.result).find(step) != std::string::npos)
    ++step;
  auto own = [&](unsigned index, StringRef spec) { return (each.of[index].varies ? std::string(1, step) : "") + spec; };
  Value lhs = operands[0], rhs = operands[1];
  std::string left = own(0, each.lhs).str(), right = own(1, each.rhs).str();
  // A letter that is summed stands in both operands: where one is the same at every step, the other is summed first.
  for (auto [index, operand, spec] : {std::tuple(0, &lhs, &left), {1, &rhs, &right}})
    if (each.of[index].varies && !each.of[1 - index].varies) {
      *operand = b.reduce(suffix + ".steps", ReductionKind::sum, *operand, {0});
      spec->erase(0, 1);
    }
  return b.einsum(suffix, left + "," + right + "->" + each.result, lhs, rhs);
}

LogicalResult ScanGradient::build(SmallVectorImpl<Value> &operands) {
  findActive();
  if (failed(walk()))
    return failure();
  operands.assign(scan->getNumOperands(), Value());
  SmallVector<Value> stacks;
  SmallVector<std::pair<unsigned, size_t>> ofSequences; // operands, and which stack is their cotangent
  const unsigned first = scan.countCarried(), end = first + scan.getSequences().size();
  for (unsigned operand = first; operand < end; ++operand)
    if (Value cotangent = wanted[operand] ? cotangents.of(scan.getStep().getArgument(operand)) : Value()) {
      ofSequences.push_back({operand, stacks.size()});
      stacks.push_back(cotangent);
    }
  for (unsigned operand = end; operand < scan->getNumOperands(); ++operand)
    if (wanted[operand])
      takeInvariant(operand);
  SmallVector<SmallVector<int64_t>> stackOf; // of each operand of what is hoisted, or -1
  for (const Hoisted &each : hoisted) {
    stackOf.emplace_back();
    for (const Stacked &part : each.of) {
      auto known = llvm::find(stacks, part.inside);
      stackOf.back().push_back(part.outside ? -1 : known - stacks.begin());
      if (!part.outside && known == stacks.end())
        stacks.push_back(part.inside);
    }
  }
  SmallVector<Value> given(next);
  llvm::append_range(given, stacks);
  YieldOp::create(inside, scan.getLoc(), given);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*draft)))
    if (isOpTriviallyDead(&op))
      op.erase();
  if (failed(resolveForward()))
    return failure();
  ScanOp made = finish(stacks);
  for (auto [operand, index] : carries)
    if (operand >= end || wanted[operand])
      operands[operand] = made.getLast()[index];
  for (auto [operand, index] : ofSequences)
    operands[operand] = made.getStacks()[index];
  DerivedOps b(outside, scan, ".grad.");
  for (auto [number, each] : llvm::enumerate(hoisted)) {
    SmallVector<Value> whole;
    for (auto [part, index] : llvm::zip_equal(each.of, stackOf[number]))
      whole.push_back(index >= 0 ? Value(made.getStacks()[index]) : part.outside);
    Value part = buildHoisted(each, whole, b, number);
    Value &sum = operands[each.operand];
    sum = sum ? b.add("invariant_sum", sum, part) : part;
  }
  return success();
}

LogicalResult hyc::train::buildScanGradient(ScanOp scan, OpBuilder &builder, ArrayRef<Value> results,
                                            ArrayRef<bool> wanted, SmallVectorImpl<Value> &operands) {
  return ScanGradient(scan, builder, results, wanted).build(operands);
}
