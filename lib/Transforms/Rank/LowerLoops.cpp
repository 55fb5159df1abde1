// Scans: the first step, whose carried values come from elsewhere, and a rank.repeat of all others.
//
// What a step carries on and stacks lies in the stack, where the next step finds it. What it only carries lies in one
// of two places in turn.
#include "FunctionLowering.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace hyc;

namespace hyc {

class ScanLowering {
public:
  ScanLowering(FunctionLowering &function, ScanOp scan)
      : function(function), builder(function.builder), scan(scan), steps(static_cast<int64_t>(scan.getSteps())) {}

  LogicalResult run() {
    if (isa<ScanOp>(scan->getParentOp()))
      return scan.emitOpError(
          "stands in the step of another one; expected hyc-decompose-composites to have run before");
    place();
    if (failed(lowerFirst()) || (steps > 1 && failed(lowerOthers())))
      return failure();
    for (auto [index, last] : llvm::enumerate(scan.getLast()))
      function.buffers[last] = placeOfLast(index);
    for (auto [stack, buffer] : llvm::zip_equal(scan.getStacks(), stacks))
      function.buffers[stack] = buffer;
    return success();
  }

private:
  /// Where one of the values that a step gives goes: element i of dimension 0 is the i-th step's, of a stack in reverse
  /// the i-th but last's. A pair has an element for steps of even and one for those of odd number.
  struct Place {
    Value whole;
    bool isPair = false;
  };
  static rank::BufferType typeOf(Value buffer) { return cast<rank::BufferType>(buffer.getType()); }
  static int64_t strideOf(Value whole) { return typeOf(whole).getStridesOrDense().front(); }
  static rank::BufferType elementType(Value whole) {
    rank::BufferType type = typeOf(whole);
    return type.withLayout(type.getShape().drop_front(), ArrayRef(type.getStridesOrDense()).drop_front());
  }
  int64_t elementOf(int64_t step) { return scan.getReverse() ? steps - 1 - step : step; }

  void place();
  Value element(Value whole, int64_t index);
  Value elementInTurn(Value whole, int64_t first);
  Value partOf(size_t yielded, int64_t step);
  Value placeOfLast(size_t carried);
  Value partInTurn(size_t yielded, int64_t first);
  LogicalResult lowerFirst();
  LogicalResult lowerOthers();
  LogicalResult lowerStep(llvm::function_ref<Value(size_t)> partOf);

  FunctionLowering &function;
  OpBuilder &builder;
  ScanOp scan;
  int64_t steps;
  SmallVector<Value> stacks;
  SmallVector<Place> places; ///< of what a step yields
};

void ScanLowering::place() {
  for (Value stack : scan.getStacks())
    stacks.push_back(function.destinationOf(stack, FunctionLowering::Layout::Strided).buffer);
  auto ofStacks = scan.getYielded().drop_front(scan.countCarried());
  for (Value carried : scan.getYielded().take_front(scan.countCarried())) {
    if (auto stacked = llvm::find(ofStacks, carried); stacked != ofStacks.end()) {
      places.push_back({stacks[stacked - ofStacks.begin()]});
      continue;
    }
    auto type = cast<RankedTensorType>(carried.getType());
    SmallVector<int64_t> shape{2};
    llvm::append_range(shape, type.getShape());
    auto pair = rank::BufferType::get(type.getContext(), shape, type.getElementType(), {});
    places.push_back({function.allocate(pair, rank::kActivations, scan.getLoc(), getId(scan)), /*isPair=*/true});
  }
  for (Value stack : stacks)
    places.push_back({stack});
}

/// Element `index` along dimension 0.
Value ScanLowering::element(Value whole, int64_t index) {
  return function.view(whole, index * strideOf(whole), elementType(whole));
}

/// The one that belongs to step `first` in turn 0, to the next step in turn 1, and so on.
Value ScanLowering::elementInTurn(Value whole, int64_t first) {
  int64_t stride = strideOf(whole);
  return rank::TurnOp::create(builder, whole.getLoc(), elementType(whole), whole, elementOf(first) * stride,
                              scan.getReverse() ? -stride : stride);
}

Value ScanLowering::partOf(size_t yielded, int64_t step) {
  const Place &place = places[yielded];
  return element(place.whole, place.isPair ? step % 2 : elementOf(step));
}

/// The element that the last step wrote. What is saved or sent on is copied out of it, so that not all of them are with
/// it, unless they are anyway.
Value ScanLowering::placeOfLast(size_t carried) {
  Value last = scan.getLast()[carried], element = partOf(carried, steps - 1);
  auto isReturned = [](Value value) { return llvm::any_of(value.getUsers(), llvm::IsaPred<ReturnOp>); };
  auto stack = llvm::find(stacks, places[carried].whole);
  if (!isReturned(last) || (stack != stacks.end() && isReturned(scan.getStacks()[stack - stacks.begin()])))
    return element;
  Value own = function.destinationOf(last, FunctionLowering::Layout::Dense).buffer;
  function.copy(own, element, getId(scan));
  return own;
}

Value ScanLowering::partInTurn(size_t yielded, int64_t first) {
  const Place &place = places[yielded];
  int64_t stride = strideOf(place.whole);
  if (!place.isPair || stride == 0) // a pair of nothing has one place
    return elementInTurn(place.whole, first);
  bool isOdd = first % 2 == 1;
  return rank::TurnOp::create(builder, place.whole.getLoc(), elementType(place.whole), place.whole, isOdd ? stride : 0,
                              isOdd ? -stride : stride, /*period=*/2);
}

LogicalResult ScanLowering::lowerFirst() {
  for (auto [argument, init] : llvm::zip_equal(scan.getCarriedArguments(), scan.getInit()))
    function.buffers[argument] = function.bufferOf(init);
  for (auto [argument, sequence] : llvm::zip_equal(scan.getElementArguments(), scan.getSequences()))
    function.buffers[argument] = element(function.bufferOf(sequence), elementOf(0));
  return lowerStep([&](size_t index) { return partOf(index, 0); });
}

LogicalResult ScanLowering::lowerOthers() {
  auto repeat = rank::RepeatOp::create(builder, scan.getLoc(), steps - 1);
  copyId(scan, repeat);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&repeat.getBody().emplaceBlock());
  for (auto [index, argument] : llvm::enumerate(scan.getCarriedArguments()))
    function.buffers[argument] = partInTurn(index, 0);
  for (auto [argument, sequence] : llvm::zip_equal(scan.getElementArguments(), scan.getSequences()))
    function.buffers[argument] = elementInTurn(function.bufferOf(sequence), 1);
  return lowerStep([&](size_t index) { return partInTurn(index, 1); });
}

/// The calls of one step, whose arguments but for the invariant ones have their buffers. `partOf` tells where a value
/// that it gives has to lie; what is carried and stacked is one.
LogicalResult ScanLowering::lowerStep(llvm::function_ref<Value(size_t)> partOf) {
  llvm::MapVector<Value, std::pair<Value, Value>> given; // by where those of all steps lie: the value, its place
  for (auto [index, value] : llvm::enumerate(scan.getYielded()))
    if (auto [entry, isNew] = given.try_emplace(places[index].whole); isNew)
      entry->second = {value, partOf(index)};
  FunctionLowering::ScanStep &step = function.scanStep;
  for (auto [argument, outside] : llvm::zip_equal(scan.getInvariantArguments(), scan.getInvariants())) {
    function.buffers[argument] = function.bufferOf(outside);
    step.invariants[argument] = outside;
  }
  for (auto &[whole, entry] : given)
    step.places.insert(entry);
  for (Operation &op : scan.getStep().without_terminator())
    if (failed(function.lowerAny(&op)))
      return failure();
  for (auto &[whole, entry] : given) {
    auto [value, part] = entry;
    Value made = function.bufferOf(value);
    if (rootOf(made) != rootOf(part) || made.getType() != part.getType())
      function.copy(part, made, getId(scan));
  }
  // The next time it is lowered, it is another step.
  for (Operation &op : scan.getStep())
    function.concats.erase(&op);
  step.places.clear();
  step.invariants.clear();
  return success();
}

} // namespace hyc

template <> LogicalResult FunctionLowering::lower(ScanOp op) { return ScanLowering(*this, op).run(); }

void hyc::addLoopLowerings(LoweringTable &table) { table.add<ScanOp>(); }
