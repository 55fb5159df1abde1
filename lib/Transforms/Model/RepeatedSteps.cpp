// What the steps of a loop that was written out have in common, operand by operand.
#include "RepeatedSteps.h"

#include "dialects/Hyc/DerivedOps.h"
#include "mlir/IR/OperationSupport.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::model;

bool hyc::model::isLeaf(Operation *op) { return isa<ConstantOp, ReadOp>(op); }

bool hyc::model::areSame(Value a, Value b) {
  if (a == b)
    return true;
  Operation *left = a.getDefiningOp(), *right = b.getDefiningOp();
  if (!left || !right || a.getType() != b.getType())
    return false;
  if (auto constant = dyn_cast<ConstantOp>(left))
    return isa<ConstantOp>(right) && constant.getValue() == cast<ConstantOp>(right).getValue();
  auto read = dyn_cast<ReadOp>(left);
  return read && isa<ReadOp>(right) && read.getSourceAttr() == cast<ReadOp>(right).getSourceAttr();
}

RepeatedSteps::RepeatedSteps(ArrayRef<Operation *> all, size_t begin, size_t period, size_t count)
    : ops(all.slice(begin, period * count)), period(period), count(count), operands(period), sliced(period),
      invariant(period, false) {
  for (auto [place, op] : llvm::enumerate(ops))
    places[op] = place;
}

/// Where `value` is made, if that is in step `step`.
std::optional<StepValue> RepeatedSteps::valueIn(Value value, size_t step) const {
  auto place = value.getDefiningOp() ? places.find(value.getDefiningOp()) : places.end();
  if (place == places.end() || place->second / period != step)
    return std::nullopt;
  return StepValue{place->second % period, cast<OpResult>(value).getResultNumber()};
}

/// All elements are taken in one direction.
bool RepeatedSteps::agree(int64_t step) {
  if (direction != 0 && direction != step)
    return false;
  direction = step;
  return true;
}

/// Which elements the slices `sliceOf(step)` are; they are slices of one value that move by one element a step.
std::optional<size_t> RepeatedSteps::addElements(llvm::function_ref<Value(size_t)> sliceOf, RankedTensorType type) {
  auto first = sliceOf(0).getDefiningOp<SliceOp>();
  if (!first || contains(first.getOperand().getDefiningOp()))
    return std::nullopt;
  StepElements found{first.getOperand(), SmallVector<int64_t>(first.getOffsets()),
                     SmallVector<int64_t>(tensorTypeOf(first.getResult()).getShape()), -1, type};
  int64_t move = 0;
  for (size_t step = 1; step < count; ++step) {
    auto slice = sliceOf(step).getDefiningOp<SliceOp>();
    if (!slice || !areSame(slice.getOperand(), found.source) || slice.getStrides() != first.getStrides() ||
        slice.getType() != first.getType())
      return std::nullopt;
    for (auto [dim, offset] : llvm::enumerate(slice.getOffsets())) {
      const int64_t moved = offset - first.getOffsets()[dim];
      if (step == 1 && moved != 0 && found.dim < 0)
        found.dim = static_cast<int64_t>(dim), move = moved;
      const int64_t expected = static_cast<int64_t>(dim) == found.dim ? move * static_cast<int64_t>(step) : 0;
      if (moved != expected)
        return std::nullopt;
    }
  }
  const bool isElement = found.dim >= 0 && (move == 1 || move == -1) && found.shape[found.dim] == 1 &&
                         llvm::all_of(first.getStrides(), [](int64_t stride) { return stride == 1; });
  if (!isElement || !agree(move))
    return std::nullopt;
  if (move < 0)
    found.offsets[found.dim] -= static_cast<int64_t>(count) - 1;
  auto known = llvm::find(elements, found);
  if (known == elements.end()) {
    elements.push_back(found);
    return elements.size() - 1;
  }
  return known - elements.begin();
}

/// A slice of a value from outside, of another part in each step.
bool RepeatedSteps::analyseSlice(size_t position) {
  auto first = dyn_cast<SliceOp>(at(0, position));
  auto isEqual = [&](size_t step) { return cast<SliceOp>(at(step, position)).getOffsets() == first.getOffsets(); };
  if (!first || llvm::all_of(llvm::seq<size_t>(1, count), isEqual))
    return true;
  sliced[position] =
      addElements([&](size_t step) { return at(step, position)->getResult(0); }, tensorTypeOf(first.getResult()));
  return sliced[position].has_value();
}

bool RepeatedSteps::analyseOperand(size_t position, unsigned number) {
  auto operand = [&](size_t step) { return at(step, position)->getOperand(number); };
  auto inAll = [&](size_t from, llvm::function_ref<bool(size_t)> holds) {
    return llvm::all_of(llvm::seq<size_t>(from, count), holds);
  };
  StepOperand found;
  if (std::optional<StepValue> own = valueIn(operand(0), 0)) {
    found.from = *own;
    operands[position].push_back(found);
    return inAll(1, [&](size_t step) { return valueIn(operand(step), step) == own; });
  }
  if (contains(operand(0).getDefiningOp()))
    return false;
  found.outside = operand(0);
  if (inAll(1, [&](size_t step) { return areSame(operand(step), operand(0)); })) {
    found.kind = StepOperand::Invariant;
  } else if (std::optional<StepValue> before = valueIn(operand(1), 0)) {
    found.kind = StepOperand::Carried;
    found.from = *before;
    if (!inAll(1, [&](size_t step) { return valueIn(operand(step), step - 1) == before; }))
      return false;
  } else {
    // A slice, in another shape or as it is.
    auto sliceOf = [&](size_t step) {
      auto reshape = operand(step).getDefiningOp<ReshapeOp>();
      return reshape ? reshape.getOperand() : operand(step);
    };
    if (inAll(0, [&](size_t step) { return contains(operand(step).getDefiningOp()); }))
      return false;
    std::optional<size_t> element = addElements(sliceOf, tensorTypeOf(operand(0)));
    if (!element)
      return false;
    found.kind = StepOperand::Element;
    found.element = *element;
  }
  operands[position].push_back(found);
  return true;
}

bool RepeatedSteps::analyse() {
  bool carries = false;
  for (size_t position = 0; position < period; ++position) {
    if (!analyseSlice(position))
      return false;
    const bool isElement = sliced[position].has_value();
    for (unsigned number = 0; !isElement && number < at(0, position)->getNumOperands(); ++number)
      if (!analyseOperand(position, number))
        return false;
    invariant[position] = !isElement && llvm::all_of(operands[position], [&](const StepOperand &operand) {
      return operand.kind == StepOperand::Invariant ||
             (operand.kind == StepOperand::Internal && invariant[operand.from.position]);
    });
    for (const StepOperand &operand : operands[position])
      carries |= operand.kind == StepOperand::Carried;
  }
  // What is carried is computed by each step anew, in the type of what the first one takes.
  for (ArrayRef<StepOperand> all : operands)
    for (const StepOperand &operand : all)
      if (operand.kind == StepOperand::Carried &&
          (invariant[operand.from.position] || sliced[operand.from.position] ||
           at(0, operand.from.position)->getResult(operand.from.result).getType() != operand.outside.getType()))
        return false;
  if (!carries)
    return false;
  // Layers that share their weights are carried on, too; but they go along no sequence, and may be cut into stages.
  if (!elements.empty())
    return true;
  for (size_t position = 0; position < period; ++position)
    for (unsigned result = 0; result < at(0, position)->getNumResults(); ++result)
      if (StepValue value{position, result}; !invariant[position] && isReadBehind(value) && !isReadOfLastOnly(value))
        return true;
  return false;
}

bool RepeatedSteps::isReadBehind(StepValue value) const {
  return llvm::any_of(llvm::seq<size_t>(0, count), [&](size_t step) {
    return llvm::any_of(at(step, value.position)->getResult(value.result).getUsers(),
                        [&](Operation *user) { return !contains(user); });
  });
}

bool RepeatedSteps::isReadOfLastOnly(StepValue value) const {
  return llvm::none_of(llvm::seq<size_t>(0, count - 1), [&](size_t step) {
    return llvm::any_of(at(step, value.position)->getResult(value.result).getUsers(),
                        [&](Operation *user) { return !contains(user); });
  });
}
