// RollSteps: finds steps that were written out one behind the other and makes a scan of them. Exporters unroll the
// loops of recurrent layers and of Python; hyc's importers write out loops that count.
//
// The surprise: where a step begins is not known, and need not be. Any stretch of ops that repeats will do, if each
// takes what it takes from itself, from the one before, from outside, or from a sequence; the cut with the fewest
// carried values is taken.
#include "DeadOps.h"
#include "RepeatedSteps.h"
#include "dialects/Hyc/DerivedOps.h"
#include "dialects/Hyc/StepFacts.h"
#include "hyc/Analysis/Likeness.h"
#include "hyc/Transforms/Model/Passes.h"
#include "mlir/IR/IRMapping.h"

#include <map>

using namespace mlir;
using namespace hyc;
using namespace hyc::model;

namespace hyc {
#define GEN_PASS_DEF_ROLLSTEPS
#include "hyc/Transforms/Model/Passes.h.inc"
} // namespace hyc

//===----------------------------------------------------------------------===//
// The scan
//===----------------------------------------------------------------------===//

namespace {
/// Puts a scan in the place of steps.
class ScanBuilder {
public:
  explicit ScanBuilder(const RepeatedSteps &steps)
      : steps(steps), count(static_cast<int64_t>(steps.countSteps())), builder(steps.at(0, 0)),
        b(builder, steps.at(0, 0), ".steps.") {}

  void build();

private:
  struct CarriedValue {
    StepValue from;
    Value init;
  };

  /// Parts of a concatenation: the first of them, and whether they run against the stack.
  struct Joined {
    unsigned first;
    bool backwards;
  };

  Value outside(Value value);
  Value carriedArgument(const StepOperand &operand);
  Value invariantArgument(Value value);
  Value sequenceOf(const StepElements &elements);
  Value resolve(const StepOperand &operand);
  void cloneStep();
  void hoistInvariants();
  void replaceUses(ScanOp scan);
  void replaceStack(StepValue value, Value stack);
  void joinStack(StepValue value, Value stack);
  std::optional<Joined> findJoined(ConcatOp concat, StepValue value);
  /// For the id of an op: others are made under the same name.
  std::string numbered(StringRef name) { return (name + Twine(made++)).str(); }
  int64_t placeOf(size_t step) const { return steps.isReverse() ? count - 1 - static_cast<int64_t>(step) : step; }
  Value valueAt(size_t step, StepValue value) const { return steps.at(step, value.position)->getResult(value.result); }
  template <typename Visit> void forEachStacked(Visit visit);

  const RepeatedSteps &steps;
  int64_t count, made = 0;
  OpBuilder builder;
  DerivedOps b;
  std::unique_ptr<Block> step = std::make_unique<Block>();
  SmallVector<CarriedValue> carried;
  SmallVector<Value> carriedArguments, elementArguments, invariants, invariantArguments;
  llvm::DenseMap<Operation *, Operation *> inside; ///< ops of the first step in the body
};
} // namespace

/// A constant or read may stand among the steps: the scan has one of its own before it.
Value ScanBuilder::outside(Value value) {
  Operation *op = value.getDefiningOp();
  return op && isLeaf(op) ? builder.clone(*op)->getResult(0) : value;
}

Value ScanBuilder::sequenceOf(const StepElements &elements) {
  RankedTensorType whole = tensorTypeOf(elements.source);
  SmallVector<int64_t> shape(elements.shape), strides(shape.size(), 1), order{elements.dim};
  shape[elements.dim] = count;
  Value sequence = outside(elements.source);
  if (ArrayRef(shape) != whole.getShape())
    sequence = b.create<SliceOp>(numbered("part"), RankedTensorType::get(shape, whole.getElementType()), sequence,
                                 elements.offsets, strides);
  for (int64_t dim = 0; dim < whole.getRank(); ++dim)
    if (dim != elements.dim)
      order.push_back(dim);
  if (elements.dim != 0)
    sequence = b.create<TransposeOp>(numbered("turned"), sequence, order);
  SmallVector<int64_t> stacked{count};
  llvm::append_range(stacked, elements.type.getShape());
  auto type = RankedTensorType::get(stacked, elements.type.getElementType());
  return type == sequence.getType() ? sequence : Value(b.create<ReshapeOp>(numbered("sequence"), type, sequence));
}

Value ScanBuilder::carriedArgument(const StepOperand &operand) {
  for (auto [known, argument] : llvm::zip_equal(carried, carriedArguments))
    if (known.from == operand.from && areSame(known.init, operand.outside))
      return argument;
  carried.push_back({operand.from, operand.outside});
  carriedArguments.push_back(step->addArgument(operand.outside.getType(), operand.outside.getLoc()));
  return carriedArguments.back();
}

Value ScanBuilder::invariantArgument(Value value) {
  for (auto [known, argument] : llvm::zip_equal(invariants, invariantArguments))
    if (areSame(known, value))
      return argument;
  invariants.push_back(value);
  invariantArguments.push_back(step->addArgument(value.getType(), value.getLoc()));
  return invariantArguments.back();
}

/// An operand of the first step's op in the body.
Value ScanBuilder::resolve(const StepOperand &operand) {
  switch (operand.kind) {
  case StepOperand::Internal: {
    Operation *from = steps.at(0, operand.from.position);
    if (std::optional<size_t> element = steps.elementAt(operand.from.position))
      return elementArguments[*element];
    Value value = from->getResult(operand.from.result);
    return steps.isInvariant(operand.from.position) ? invariantArgument(value)
                                                    : inside.lookup(from)->getResult(operand.from.result);
  }
  case StepOperand::Carried:
    return carriedArgument(operand);
  case StepOperand::Element:
    return elementArguments[operand.element];
  case StepOperand::Invariant:
    if (auto constant = operand.outside.getDefiningOp<ConstantOp>(); constant && constant.getValue().isSplat()) {
      OpBuilder own(constant.getContext());
      own.setInsertionPointToEnd(step.get());
      return own.clone(*constant)->getResult(0);
    }
    return invariantArgument(operand.outside);
  }
  llvm_unreachable("not a kind of operand");
}

void ScanBuilder::cloneStep() {
  for (const StepElements &elements : steps.getElements())
    elementArguments.push_back(step->addArgument(elements.type, elements.source.getLoc()));
  for (size_t position = 0; position < steps.getPeriod(); ++position) {
    if (steps.elementAt(position) || steps.isInvariant(position))
      continue;
    Operation *op = steps.at(0, position);
    IRMapping mapping;
    for (auto [operand, from] : llvm::zip_equal(op->getOperands(), steps.operandsOf(position)))
      mapping.map(operand, resolve(from));
    OpBuilder own(op->getContext());
    own.setInsertionPointToEnd(step.get());
    inside[op] = own.clone(*op, mapping);
  }
}

/// What is the same in every step is computed before all of them, by the first step's ops.
void ScanBuilder::hoistInvariants() {
  // What stands before the first op that does differ may stay there.
  size_t differs = 0;
  while (steps.isInvariant(differs))
    ++differs;
  builder.setInsertionPoint(steps.at(0, differs));
  for (size_t position = 0; position < steps.getPeriod(); ++position)
    if (steps.isInvariant(position)) {
      Operation *op = steps.at(0, position);
      for (OpOperand &operand : op->getOpOperands())
        operand.set(outside(operand.get()));
      op->moveBefore(builder.getInsertionBlock(), builder.getInsertionPoint());
      for (int64_t other = 1; other < count; ++other)
        steps.at(other, position)->replaceAllUsesWith(op->getResults());
    }
}

/// Visits the values that are read behind the steps, of each of them, or of the last where it carries it on to none.
template <typename Visit> void ScanBuilder::forEachStacked(Visit visit) {
  for (size_t position = 0; position < steps.getPeriod(); ++position) {
    if (steps.isInvariant(position) || steps.elementAt(position))
      continue;
    for (unsigned result = 0; result < steps.at(0, position)->getNumResults(); ++result) {
      StepValue value{position, result};
      const bool isCarried = llvm::any_of(carried, [&](const CarriedValue &each) { return each.from == value; });
      if (steps.isReadBehind(value) && !(isCarried && steps.isReadOfLastOnly(value)))
        visit(value);
    }
  }
}

/// Where the values of all steps stand side by side among the parts; nothing where they do not.
std::optional<ScanBuilder::Joined> ScanBuilder::findJoined(ConcatOp concat, StepValue value) {
  ValueRange parts = concat.getParts();
  auto isStep = [&](Value part, int64_t step, Type type) {
    auto reshape = part.getDefiningOp<ReshapeOp>();
    const Value own = valueAt(step, value);
    return part.getType() == type && (part == own || (reshape && reshape.getOperand() == own));
  };
  for (int64_t first = 0; first + count <= static_cast<int64_t>(parts.size()); ++first)
    for (bool backwards : {false, true})
      if (llvm::all_of(llvm::seq<int64_t>(0, count), [&](int64_t step) {
            int64_t place = backwards ? count - 1 - placeOf(step) : placeOf(step);
            return isStep(parts[first + place], step, parts[first].getType());
          }))
        return Joined{static_cast<unsigned>(first), backwards};
  return std::nullopt;
}

/// Concatenations of all steps' values become the stack, turned.
void ScanBuilder::joinStack(StepValue value, Value stack) {
  llvm::SetVector<Operation *> concats;
  for (Operation *user : valueAt(0, value).getUsers()) {
    if (isa<ConcatOp>(user))
      concats.insert(user);
    else if (isa<ReshapeOp>(user))
      for (Operation *next : user->getUsers())
        if (isa<ConcatOp>(next))
          concats.insert(next);
  }
  for (Operation *each : concats) {
    auto concat = cast<ConcatOp>(each);
    std::optional<Joined> found = findJoined(concat, value);
    if (!found)
      continue;
    OpBuilder behind(concat);
    DerivedOps derived(behind, concat, ".");
    const int64_t dim = concat.getDim();
    RankedTensorType part = tensorTypeOf(concat.getParts()[found->first]);
    SmallVector<int64_t> shape{count}, order, joined(part.getShape());
    llvm::append_range(shape, part.getShape());
    for (int64_t d = 0; d < part.getRank(); ++d) {
      if (d == dim)
        order.push_back(0);
      order.push_back(d + 1);
    }
    joined[dim] *= count;
    Value whole = stack;
    if (found->backwards) {
      auto places = llvm::to_vector(llvm::reverse(llvm::seq<int64_t>(0, count)));
      Value indices =
          ConstantOp::create(behind, concat.getLoc(),
                             cast<ElementsAttr>(DenseElementsAttr::get(
                                 RankedTensorType::get({count}, behind.getI64Type()), ArrayRef<int64_t>(places))));
      whole = derived.create<GatherOp>("backwards", stack.getType(), whole, indices, 0, 0);
    }
    auto reshape = [&](StringRef suffix, ArrayRef<int64_t> to) {
      auto type = RankedTensorType::get(to, part.getElementType());
      whole = whole.getType() == type ? whole : Value(derived.create<ReshapeOp>(suffix, type, whole));
    };
    if (dim != 0) {
      reshape("steps", shape);
      whole = derived.create<TransposeOp>("turned", whole, order);
    }
    reshape("joined", joined);
    SmallVector<Value> parts(concat.getParts().take_front(found->first));
    parts.push_back(whole);
    llvm::append_range(parts, concat.getParts().drop_front(found->first + count));
    Value result = whole;
    if (parts.size() > 1)
      result = derived.create<ConcatOp>("all", concat.getType(), parts, dim);
    concat.getResult().replaceAllUsesWith(result);
    concat.erase();
  }
}

void ScanBuilder::replaceStack(StepValue value, Value stack) {
  joinStack(value, stack);
  RankedTensorType type = tensorTypeOf(stack), each = tensorTypeOf(valueAt(0, value));
  SmallVector<int64_t> shape(type.getShape()), offsets(shape.size(), 0), strides(shape.size(), 1);
  shape[0] = 1;
  for (int64_t step = 0; step < count; ++step) {
    auto isBehind = [&](OpOperand &use) { return !steps.contains(use.getOwner()); };
    Value old = valueAt(step, value);
    if (llvm::none_of(old.getUses(), isBehind))
      continue;
    offsets[0] = placeOf(step);
    Value part =
        b.create<SliceOp>(numbered("of"), RankedTensorType::get(shape, type.getElementType()), stack, offsets, strides);
    old.replaceUsesWithIf(Value(b.create<ReshapeOp>(numbered("value"), each, part)), isBehind);
  }
}

void ScanBuilder::replaceUses(ScanOp scan) {
  builder.setInsertionPointAfter(scan);
  unsigned index = 0;
  forEachStacked([&](StepValue value) { replaceStack(value, scan.getStacks()[index++]); });
  for (auto [each, last] : llvm::zip_equal(carried, scan.getLast()))
    valueAt(count - 1, each.from).replaceUsesWithIf(last, [&](OpOperand &use) {
      return !steps.contains(use.getOwner()) && use.getOwner() != scan;
    });
}

void ScanBuilder::build() {
  hoistInvariants();
  cloneStep();
  SmallVector<Value> yielded, init, sequences, fixed;
  for (const CarriedValue &each : carried)
    yielded.push_back(inside.lookup(steps.at(0, each.from.position))->getResult(each.from.result));
  forEachStacked(
      [&](StepValue value) { yielded.push_back(inside.lookup(steps.at(0, value.position))->getResult(value.result)); });
  OpBuilder own(builder.getContext());
  own.setInsertionPointToEnd(step.get());
  YieldOp::create(own, steps.at(0, 0)->getLoc(), yielded);
  for (const CarriedValue &each : carried)
    init.push_back(outside(each.init));
  for (const StepElements &elements : steps.getElements())
    sequences.push_back(sequenceOf(elements));
  for (Value value : invariants)
    fixed.push_back(outside(value));
  // The body's arguments in their order.
  auto body = std::make_unique<Block>();
  for (ArrayRef<Value> arguments :
       {ArrayRef(carriedArguments), ArrayRef(elementArguments), ArrayRef(invariantArguments)})
    for (Value argument : arguments)
      argument.replaceAllUsesWith(body->addArgument(argument.getType(), argument.getLoc()));
  body->getOperations().splice(body->end(), step->getOperations());
  auto scan = ScanOp::ofStep(builder, steps.at(0, 0)->getLoc(), count, steps.isReverse(), init, sequences, fixed,
                             std::move(body));
  setId(scan, (getId(steps.at(0, 0)) + ".scan").str());
  replaceUses(scan);
  for (int64_t each = count; each-- > 0;)
    for (size_t position = steps.getPeriod(); position-- > 0;)
      // An element may be read behind the steps, too: it stays where it is.
      if (Operation *op = steps.at(each, position); op->use_empty() && (each > 0 || !steps.isInvariant(position)))
        op->erase();
}

//===----------------------------------------------------------------------===//
// Where steps are
//===----------------------------------------------------------------------===//

namespace {
class StepFinder {
public:
  explicit StepFinder(FuncOp function) {
    for (Operation &op : function.getBody().front().without_terminator())
      if (!isLeaf(&op))
        ops.push_back(&op);
    std::map<Likeness, int64_t> numbers;
    for (Operation *op : ops)
      keys.push_back(isRepeatable(op) ? numbers.try_emplace(likenessOf(op), numbers.size()).first->second
                                      : -1 - static_cast<int64_t>(keys.size()));
  }

  /// The first steps that can be rolled; null where there are none.
  std::unique_ptr<RepeatedSteps> find();

private:
  static bool isRepeatable(Operation *op) {
    return isMemoryEffectFree(op) && op->getNumRegions() == 0 && !drawsRandomNumbers(op);
  }
  /// As far as it is in the op itself; slices may be of other parts.
  static Likeness likenessOf(Operation *op);
  std::vector<size_t> findPeriods() const;
  std::unique_ptr<RepeatedSteps> tryAt(size_t begin, size_t period, size_t length);

  std::vector<Operation *> ops;
  std::vector<int64_t> keys;
};
} // namespace

Likeness StepFinder::likenessOf(Operation *op) {
  Likeness all(op);
  all.addTypes(op->getOperandTypes());
  all.addTypes(op->getResultTypes());
  if (auto slice = dyn_cast<SliceOp>(op))
    all.add(slice.getStridesAttr());
  else
    all.addProperties(op);
  return all;
}

/// Distances at which many ops are alike, the shortest first.
std::vector<size_t> StepFinder::findPeriods() const {
  constexpr size_t kLongest = 1 << 14;
  std::map<size_t, size_t> distances;
  llvm::DenseMap<int64_t, size_t> last;
  for (auto [place, key] : llvm::enumerate(keys)) {
    auto [known, isNew] = last.try_emplace(key, place);
    if (!isNew)
      ++distances[place - known->second];
    known->second = place;
  }
  std::vector<size_t> periods;
  for (auto [distance, times] : distances)
    if (distance <= kLongest && times + 1 >= static_cast<size_t>(kFewSteps))
      periods.push_back(distance);
  return periods;
}

/// Steps in a stretch of `length` ops each of which is like the one a period later. Where a step begins is tried out:
/// what stands before the first may be like a step's end by chance.
std::unique_ptr<RepeatedSteps> StepFinder::tryAt(size_t begin, size_t period, size_t length) {
  constexpr size_t kMostShifts = 64;
  for (size_t shift = 0; shift < std::min(period, kMostShifts); ++shift) {
    const size_t count = (length + period - shift) / period;
    if (count < static_cast<size_t>(kFewSteps))
      break;
    auto steps = std::make_unique<RepeatedSteps>(ops, begin + shift, period, count);
    if (steps->analyse())
      return steps;
  }
  return nullptr;
}

std::unique_ptr<RepeatedSteps> StepFinder::find() {
  for (size_t period : findPeriods())
    for (size_t begin = 0; begin + period < keys.size();) {
      size_t length = 0;
      while (begin + length + period < keys.size() && keys[begin + length] == keys[begin + length + period])
        ++length;
      if (length / period + 1 >= static_cast<size_t>(kFewSteps))
        if (std::unique_ptr<RepeatedSteps> steps = tryAt(begin, period, length))
          return steps;
      begin += length + 1;
    }
  return nullptr;
}

namespace {
struct RollSteps : hyc::impl::RollStepsBase<RollSteps> {
  void runOnOperation() override {
    bool changes = false;
    for (auto function : getOperation().getOps<FuncOp>())
      while (rollOne(function))
        changes = true;
    if (changes)
      eraseDeadOps(getOperation());
    else
      markAllAnalysesPreserved();
  }

  bool rollOne(FuncOp function) {
    StepFinder finder(function);
    std::unique_ptr<RepeatedSteps> steps = finder.find();
    if (steps) {
      ScanBuilder(*steps).build();
      ++rolledLoops;
    }
    return steps != nullptr;
  }
};
} // namespace
