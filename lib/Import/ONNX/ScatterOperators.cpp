// Operators that pick and put elements by number, order them, and pad; on the running model by hyc.gather, hyc.scatter
// and hyc.argsort.
#include "Expansion.h"
#include "hyc/Support/Truncation.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::ArrayRef;

namespace {
llvm::SmallVector<int64_t> range(int64_t first, int64_t last) {
  return llvm::to_vector(llvm::seq<int64_t>(first, last));
}

/// Exchanges a dimension with the last one.
llvm::SmallVector<int64_t> swapWithLast(int64_t axis, int64_t tensorRank) {
  llvm::SmallVector<int64_t> permutation = range(0, tensorRank);
  std::swap(permutation[axis], permutation.back());
  return permutation;
}

/// Indices that have to be within [-size, size), as i64 and counted from the front: those that are known are held to it
/// here, what is computed where it is used.
Binding positionsWithin(Expansion &e, const Binding &indices, int64_t size) {
  if (e.ok() && indices.constant)
    for (int64_t i = 0; i < indices.constant->getNumElements(); ++i)
      if (int64_t index = indices.constant->atFlat(i).integer; index < -size || index >= size) {
        e.fail("takes element " + std::to_string(index) + " of a dimension of size " + std::to_string(size) +
               ", expected " + std::to_string(-size) + " to " + std::to_string(size - 1));
        return {};
      }
  return e.fromFront(indices, size);
}

Binding scatter(Expansion &e, NodeImport &node, ReductionKind kind, ArrayRef<int64_t> shape, Binding indices,
                Binding updates, int64_t dim, int64_t batch) {
  return e.emit([&] {
    Importer &importer = node.importer();
    auto type = RankedTensorType::get(shape, updates.type.getElementType());
    Value at = importer.materialise(indices), rows = importer.materialise(updates);
    return importer.emit<ScatterOp>(type, kind, at, rows, static_cast<uint64_t>(dim), static_cast<uint64_t>(batch));
  });
}

//===----------------------------------------------------------------------===//
// One dimension, an index an element
//===----------------------------------------------------------------------===//

/// Where a tensor of indices is smaller than the data in other dimensions, their first elements are meant.
bool checkElementwise(NodeImport &node, RankedTensorType data, RankedTensorType indices, int64_t axis) {
  bool agree = data.getRank() == indices.getRank() && data.getRank() > 0;
  for (int64_t dim = 0; agree && dim < data.getRank(); ++dim)
    agree = dim == axis || indices.getDimSize(dim) <= data.getDimSize(dim);
  if (!agree)
    node.error() << "takes elements of " << data << " by " << indices << " along dimension " << axis;
  return agree;
}

Binding firstElements(Expansion &e, NodeImport &node, Binding x, ArrayRef<int64_t> shape, int64_t exceptDim) {
  for (int64_t dim = 0; e.ok() && dim < x.type.getRank(); ++dim)
    if (dim != exceptDim)
      x = *node.importer().slice(x, dim, 0, shape[dim], 1);
  return x;
}

LogicalResult importGatherElements(NodeImport &node) {
  Expansion e(node);
  RankedTensorType data = node.input(0).type, indices = node.input(1).type;
  std::optional<int64_t> axis = node.normalizeAxis(node.getInt("axis", 0), data.getRank());
  if (!axis || !checkElementwise(node, data, indices, *axis))
    return failure();
  auto swap = swapWithLast(*axis, data.getRank());
  Binding part = firstElements(e, node, node.input(0), indices.getShape(), *axis);
  Binding at = e.transpose(positionsWithin(e, node.input(1), data.getDimSize(*axis)), swap);
  int64_t last = data.getRank() - 1;
  return e.finish(e.transpose(e.gather(e.transpose(part, swap), at, last, last), swap));
}

struct ScatterForm {
  ReductionKind kind;
  bool replaces; // what was there is gone where something is put
};

std::optional<ScatterForm> getScatterForm(NodeImport &node) {
  std::string reduction = node.getString("reduction", "none");
  for (auto [name, kind, replaces] : {std::tuple("none", ReductionKind::sum, true),
                                      {"add", ReductionKind::sum, false},
                                      {"mul", ReductionKind::prod, false},
                                      {"max", ReductionKind::max, false},
                                      {"min", ReductionKind::min, false}})
    if (reduction == name)
      return ScatterForm{kind, replaces};
  node.error() << "has the reduction '" << reduction << "', expected none, add, mul, max or min";
  return std::nullopt;
}

/// Numbers B… I… of places of the data B… L… V R…, as hyc.scatter has them.
struct Places {
  Binding numbers;
  int64_t dim, batch; ///< V's; how many B are
  bool isOrder;       ///< those of a batch differ, being an order's; constants tell by themselves

  int64_t count() const { return *countElements(numbers.type.getShape().drop_front(batch)); }
};

/// Whether integers of a running model differ along a dimension since they are an order's, or some of these.
bool isPartOfOrder(Value value, int64_t dim) {
  while (Operation *op = value ? value.getDefiningOp() : nullptr) {
    if (auto order = dyn_cast<ArgSortOp>(op))
      return dim == cast<RankedTensorType>(order.getResult().getType()).getRank() - 1;
    if (auto transpose = dyn_cast<TransposeOp>(op)) {
      dim = transpose.getPermutation()[dim];
    } else if (auto reshape = dyn_cast<ReshapeOp>(op)) {
      ArrayRef<int64_t> to = reshape.getType().getShape(),
                        from = cast<RankedTensorType>(reshape.getOperand().getType()).getShape();
      const int64_t size = to[dim], before = *countElements(to.take_front(dim));
      dim = 0;
      while (dim < static_cast<int64_t>(from.size()) &&
             (from[dim] != size || *countElements(from.take_front(dim)) != before))
        ++dim;
      if (dim == static_cast<int64_t>(from.size()))
        return false;
    } else if (!isa<SliceOp, ConvertOp>(op) && !(isa<ConcatOp>(op) && op->getNumOperands() == 1)) {
      return false;
    }
    value = op->getOperand(0);
  }
  return false;
}

/// The same of all elements.
bool isOrder(const Binding &indices) {
  ArrayRef<int64_t> shape = indices.type.getShape();
  const auto *longest = llvm::max_element(shape);
  return !shape.empty() && *longest == indices.type.getNumElements() &&
         isPartOfOrder(indices.value, longest - shape.begin());
}

/// Whether no two replace one place, as far as is known.
bool areApart(const Places &places) {
  if (places.isOrder || places.count() <= 1)
    return true;
  if (!places.numbers.constant)
    return false;
  llvm::SmallVector<int64_t> numbers = places.numbers.constant->toIntegers();
  const int64_t count = places.count();
  for (int64_t begin = 0; begin < static_cast<int64_t>(numbers.size()); begin += count) {
    auto batch = llvm::MutableArrayRef(numbers).slice(begin, count);
    llvm::sort(batch);
    if (std::adjacent_find(batch.begin(), batch.end()) != batch.end())
      return false;
  }
  return true;
}

/// What all elements are, where that is one number.
std::optional<Binding> uniformValue(Expansion &e, const Binding &x) {
  if (x.constant && x.constant->isSplat())
    return e.getImporter().ofConstant(HostTensor::splat(x.type.getElementType(), {}, x.constant->atFlat(0)));
  Value value = x.value;
  while (value && cast<RankedTensorType>(value.getType()).getNumElements() != 1) {
    Operation *op = value.getDefiningOp();
    value = isa_and_nonnull<BroadcastOp, TransposeOp, ReshapeOp>(op) ? op->getOperand(0) : Value();
  }
  return value ? std::optional(e.reshape(e.getImporter().ofValue(value), {})) : std::nullopt;
}

/// Updates in place of what was there. Of several for one place the last counts, as in PyTorch, and has the gradient.
class Replacement {
public:
  Replacement(Expansion &e, NodeImport &node, const Binding &data, const Places &places, const Binding &updates)
      : e(e), node(node), data(data), places(places), updates(updates) {
    for (int64_t dim = 0; dim < data.type.getRank(); ++dim) {
      const int64_t size = data.type.getDimSize(dim);
      const bool isOwn = dim < places.batch || dim == places.dim;
      if (isOwn)
        each.push_back(size);
      along.push_back(isOwn ? size : 1);
    }
  }

  Binding run() {
    if (places.count() == 0 || data.type.getNumElements() == 0)
      return data;
    Type element = updates.type.getElementType();
    const bool addsUp =
        element.isF32() || element.isF64() || element.isSignlessInteger(32) || element.isSignlessInteger(64);
    if (std::optional<Binding> value = uniformValue(e, updates))
      return e.where(isPut(addsUp), *value, data);
    if (!addsUp || !areApart(places))
      return lastOfEach();
    Binding put =
        scatter(e, node, ReductionKind::sum, data.type.getShape(), places.numbers, updates, places.dim, places.batch);
    return e.where(isPut(addsUp), put, data);
  }

private:
  /// Whether somebody puts something at a place: counted once for what lies aside.
  Binding isPut(bool addsUp) {
    Binding one =
        addsUp ? e.number(updates, 1) : e.cast(e.number(updates, 1), node.importer().getBuilder().getF32Type());
    Binding count = ofEach(ReductionKind::sum, e.broadcast(one, places.numbers.type.getShape()), places.numbers);
    return e.reshape(e("Greater", {count, e.number(count, 0)}), along);
  }

  /// The updates are counted; each place takes that of the highest number among its own.
  Binding lastOfEach() {
    llvm::SmallVector<int64_t> listed(places.numbers.type.getShape().take_front(places.batch)), row(places.batch, 1),
        rows(updates.type.getShape().take_front(places.dim));
    for (auto *shape : {&listed, &row, &rows})
      shape->push_back(places.count());
    llvm::append_range(rows, updates.type.getShape().take_back(data.type.getRank() - 1 - places.dim));
    Binding numbers = e.broadcast(e.reshape(e.iota(places.count(), 0, 1), row), listed);
    Binding last = ofEach(ReductionKind::max, numbers, e.reshape(places.numbers, listed));
    Binding taken = e.gather(e.reshape(updates, rows), e("Max", {last, e.integer(0)}), places.dim, places.batch);
    return e.where(e.reshape(e("GreaterOrEqual", {last, e.integer(0)}), along), taken, data);
  }

  Binding ofEach(ReductionKind kind, const Binding &values, const Binding &numbers) {
    return scatter(e, node, kind, each, numbers, values, places.batch, places.batch);
  }

  Expansion &e;
  NodeImport &node;
  const Binding &data;
  const Places &places;
  const Binding &updates;
  llvm::SmallVector<int64_t> each, along; ///< B… V; the data's shape with 1 for all others
};

/// What was there, joined with what is put there.
Binding joinScattered(Expansion &e, NodeImport &node, const ScatterForm &form, const Binding &data,
                      const Places &places, const Binding &updates) {
  if (!e.ok())
    return {};
  if (form.replaces)
    return Replacement(e, node, data, places, updates).run();
  Binding put = scatter(e, node, form.kind, data.type.getShape(), places.numbers, updates, places.dim, places.batch);
  llvm::StringRef op = form.kind == ReductionKind::sum    ? "Add"
                       : form.kind == ReductionKind::prod ? "Mul"
                       : form.kind == ReductionKind::max  ? "Max"
                                                          : "Min";
  return e(op, {data, put});
}

LogicalResult importScatterElements(NodeImport &node) {
  Expansion e(node);
  Binding data = node.input(0), indices = node.input(1), updates = node.input(2);
  std::optional<int64_t> axis = node.normalizeAxis(node.getInt("axis", 0), data.type.getRank());
  std::optional<ScatterForm> form = getScatterForm(node);
  if (!axis || !form || !checkElementwise(node, data.type, indices.type, *axis))
    return failure();
  if (updates.type.getShape() != indices.type.getShape() || updates.type.getElementType() != data.type.getElementType())
    return node.error() << "puts " << updates.type << " into " << data.type << " by " << indices.type
                        << ", expected updates of the indices' shape and the data's element type";
  auto swap = swapWithLast(*axis, data.type.getRank());
  int64_t last = data.type.getRank() - 1, size = data.type.getDimSize(*axis);
  Binding part = firstElements(e, node, data, indices.type.getShape(), *axis);
  Binding at = e.transpose(positionsWithin(e, indices, size), swap);
  Places places{at, last, last, isPartOfOrder(indices.value, *axis)};
  Binding joined = joinScattered(e, node, *form, e.transpose(part, swap), places, e.transpose(updates, swap));
  Binding result = e.transpose(joined, swap);
  if (!e.ok() || result.type == data.type)
    return e.finish(result);
  // The rest, which has no indices, stays: dimension by dimension the missing end of the data is joined.
  for (int64_t dim = 0; e.ok() && dim < data.type.getRank(); ++dim) {
    int64_t have = result.type.getDimSize(dim), all = data.type.getDimSize(dim);
    if (have == all)
      continue;
    Binding rest = *node.importer().slice(data, dim, have, all - have, 1);
    llvm::SmallVector<int64_t> shape(result.type.getShape());
    shape[dim] = all - have;
    rest = firstElements(e, node, rest, shape, dim);
    result = e("Concat", {result, rest}, {{"axis", dim}});
  }
  return e.finish(result);
}

//===----------------------------------------------------------------------===//
// Tuples of indices
//===----------------------------------------------------------------------===//

/// One number for each tuple (the last dimension of `indices`), row-major in the dimensions that it picks from.
/// What is beyond its own dimension must not be an element of another: it becomes -1, which is none.
Binding linearIndices(Expansion &e, NodeImport &node, const Binding &indices, ArrayRef<int64_t> sizes) {
  int64_t last = indices.type.getRank() - 1;
  Binding all, isWithin;
  for (auto [i, size] : llvm::enumerate(sizes)) {
    Binding whole = indices;
    Binding one = *node.importer().slice(whole, last, i, 1, 1);
    llvm::SmallVector<int64_t> shape(indices.type.getShape().drop_back());
    Binding at = positionsWithin(e, e.reshape(one, shape), size);
    if (sizes.size() == 1 || !e.ok())
      return at;
    Binding fits = e("And", {e("Not", {e("Less", {at, e.integer(0)})}), e("Less", {at, e.integer(size)})});
    isWithin = i == 0 ? fits : e("And", {isWithin, fits});
    all = i == 0 ? at : e.add(e.mul(all, e.integer(size)), at);
  }
  return e.where(isWithin, all, e.integer(-1));
}

struct Tuples {
  int64_t depth = 0;
  llvm::SmallVector<int64_t> merged; // the data's shape with the picked dimensions as one
};

std::optional<Tuples> getTuples(NodeImport &node, RankedTensorType data, RankedTensorType indices, int64_t batch) {
  Tuples tuples;
  tuples.depth = indices.getRank() > 0 ? indices.getShape().back() : 0;
  if (batch < 0 || indices.getRank() <= batch || tuples.depth < 1 || batch + tuples.depth > data.getRank() ||
      data.getShape().take_front(batch) != indices.getShape().take_front(batch)) {
    node.error() << "takes elements of " << data << " by " << indices << " with " << batch
                 << " batch dimensions, expected a last dimension of at most " << data.getRank() - batch
                 << " places, after batch dimensions that both have";
    return std::nullopt;
  }
  tuples.merged.assign(data.getShape().begin(), data.getShape().begin() + batch);
  tuples.merged.push_back(*countElements(data.getShape().slice(batch, tuples.depth)));
  llvm::append_range(tuples.merged, data.getShape().drop_front(batch + tuples.depth));
  return tuples;
}

} // namespace

LogicalResult hyc::onnx::importRunningGatherND(NodeImport &node) {
  Expansion e(node);
  Binding data = node.input(0), indices = node.input(1);
  int64_t batch = node.getInt("batch_dims", 0);
  std::optional<Tuples> tuples = getTuples(node, data.type, indices.type, batch);
  if (!tuples)
    return failure();
  Binding at = linearIndices(e, node, indices, data.type.getShape().slice(batch, tuples->depth));
  return e.finish(e.gather(e.reshape(data, tuples->merged), at, batch, batch));
}

LogicalResult hyc::onnx::importRunningGather(NodeImport &node, int64_t axis) {
  Expansion e(node);
  Binding at = positionsWithin(e, node.input(1), node.shapeOf(0)[axis]);
  return e.finish(e.gather(node.input(0), at, axis, 0));
}

namespace {
LogicalResult importScatterND(NodeImport &node) {
  Expansion e(node);
  Binding data = node.input(0), indices = node.input(1), updates = node.input(2);
  std::optional<ScatterForm> form = getScatterForm(node);
  std::optional<Tuples> tuples = form ? getTuples(node, data.type, indices.type, 0) : std::nullopt;
  if (!tuples)
    return failure();
  llvm::SmallVector<int64_t> expected(indices.type.getShape().drop_back());
  llvm::append_range(expected, data.type.getShape().drop_front(tuples->depth));
  if (updates.type != RankedTensorType::get(expected, data.type.getElementType()))
    return node.error() << "puts " << updates.type << " into " << data.type << " by " << indices.type;
  Binding at = linearIndices(e, node, indices, data.type.getShape().take_front(tuples->depth));
  Places places{at, 0, 0, tuples->depth == 1 && isOrder(indices)};
  Binding joined = joinScattered(e, node, *form, e.reshape(data, tuples->merged), places, updates);
  return e.finish(e.reshape(joined, data.type.getShape()));
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

LogicalResult importTopK(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  std::optional<int64_t> axis = node.normalizeAxis(node.getInt("axis", -1), x.type.getRank());
  int64_t count = node.getInt("k", -1);
  if (node.has(1)) {
    std::optional<llvm::SmallVector<int64_t>> given = node.integers(1);
    count = given && given->size() == 1 ? given->front() : -1;
    if (!given)
      return failure();
  }
  if (!axis || count < 0 || count > x.type.getDimSize(*axis))
    return axis ? node.error() << "takes " << count << " elements along dimension " << *axis << " of " << x.type
                               << ", expected 0 to " << x.type.getDimSize(*axis)
                : failure();
  auto swap = swapWithLast(*axis, x.type.getRank());
  int64_t last = x.type.getRank() - 1;
  Binding rows = e.transpose(x, swap);
  bool largest = node.getInt("largest", 1) != 0;
  Binding first = e.emit([&] {
    Importer &importer = node.importer();
    ArgSortOp::Properties properties;
    properties.descending = largest ? importer.getBuilder().getUnitAttr() : UnitAttr();
    properties.first =
        count < x.type.getDimSize(*axis) ? importer.getBuilder().getI64IntegerAttr(count) : IntegerAttr();
    return importer.emitInferred<ArgSortOp>(importer.materialise(rows), properties);
  });
  return e.finish({e.transpose(e.gather(rows, first, last, last), swap), e.transpose(first, swap)});
}

/// The first (or last) place at which an extremum stands; of a row with NaN, which is its extremum, that of the NaN.
LogicalResult importArgExtremum(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  std::optional<int64_t> axis = node.normalizeAxis(node.getInt("axis", 0), x.type.getRank());
  if (!axis)
    return failure();
  bool keeps = node.getInt("keepdims", 1) != 0, last = node.getInt("select_last_index", 0) != 0;
  int64_t size = x.type.getDimSize(*axis);
  Binding extremum = e.reduce(node.opType() == "ArgMax" ? "ReduceMax" : "ReduceMin", x, {*axis}, true);
  Binding stands = e("Equal", {x, extremum});
  if (isa<FloatType>(x.type.getElementType()))
    stands = e("Or", {stands, e("IsNaN", {x})});
  Binding places = e.where(stands, e.iota(size, *axis, x.type.getRank()), e.integer(last ? -1 : size));
  return e.finish(e.reduce(last ? "ReduceMax" : "ReduceMin", places, {*axis}, keeps));
}

LogicalResult importOneHot(NodeImport &node) {
  Expansion e(node);
  Binding indices = node.input(0), values = node.input(2);
  const HostTensor *depthTensor = node.constant(1);
  if (!depthTensor)
    return failure();
  HostElement element = depthTensor->getNumElements() == 1 ? depthTensor->atFlat(0) : HostElement::ofInteger(-1);
  int64_t depth = depthTensor->isReal() ? truncated(element.real) : element.integer;
  std::optional<int64_t> axis = node.normalizeAxis(node.getInt("axis", -1), indices.type.getRank() + 1);
  if (!axis || depth < 1 || values.type.getNumElements() != 2)
    return node.error() << "marks one of " << depth << " elements with values " << values.type
                        << ", expected at least one element, two values, and an axis of the result";
  Binding at = e("Unsqueeze", {e.fromFront(indices, depth), e.integers({*axis})});
  Binding isOne = e("Equal", {e.iota(depth, *axis, indices.type.getRank() + 1), at});
  auto one = [&](int64_t i) { return e.ok() ? e.reshape(*node.importer().slice(values, 0, i, 1, 1), {}) : Binding(); };
  return e.finish(e.where(isOne, one(1), one(0)));
}

//===----------------------------------------------------------------------===//
// Repetition and order along dimensions
//===----------------------------------------------------------------------===//

/// Elements of one dimension by numbers that are known.
Binding pick(Expansion &e, const Binding &x, int64_t dim, const Binding &numbers) {
  return e("Gather", {x, numbers}, {{"axis", dim}});
}

LogicalResult importTile(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  std::optional<llvm::SmallVector<int64_t>> repeats = node.integers(1);
  if (!repeats || static_cast<int64_t>(repeats->size()) != x.type.getRank())
    return repeats ? node.error() << "repeats " << x.type << " along " << repeats->size()
                                  << " dimensions, expected each of its " << x.type.getRank()
                   : failure();
  llvm::SmallVector<int64_t> split, repeated, shape;
  for (auto [size, times] : llvm::zip_equal(x.type.getShape(), *repeats)) {
    int64_t total = 0;
    if (times < 0 || llvm::MulOverflow(size, times, total))
      return node.error() << "repeats a dimension of size " << size << " " << times
                          << " times, expected a result that 63 bits can count, and none negative";
    if (size != 1 && times != 1) {
      split.push_back(1);
      repeated.push_back(times);
    }
    split.push_back(size);
    repeated.push_back(size == 1 ? times : size);
    shape.push_back(total);
  }
  if (!countElements(shape))
    return node.error() << "has a result of more elements than 63 bits can count";
  return e.finish(e.reshape(e.broadcast(e.reshape(x, split), repeated), shape));
}

/// The number of the element that stands at place `i` of a padded dimension, counted from its first own element.
int64_t paddedNumber(int64_t i, int64_t size, llvm::StringRef mode) {
  if (mode == "edge")
    return std::clamp<int64_t>(i, 0, size - 1);
  if (mode == "wrap")
    return (i % size + size) % size;
  int64_t period = 2 * std::max<int64_t>(size - 1, 1), at = (i % period + period) % period;
  return size == 1 ? 0 : at >= size ? period - at : at;
}

/// Padding by elements of the dimension itself. Its own elements stay one slice: only the sides are picked by number,
/// so that their sizes decide what is listed.
Binding padByElements(Expansion &e, NodeImport &node, const Binding &x, int64_t dim, int64_t low, int64_t high,
                      llvm::StringRef mode) {
  int64_t size = x.type.getDimSize(dim), first = std::max<int64_t>(-low, 0), last = size + std::min<int64_t>(high, 0);
  llvm::SmallVector<Binding> parts;
  auto addSide = [&](int64_t from, int64_t to) {
    if (from < to)
      parts.push_back(
          pick(e, x, dim, e.integers(to - from, [&](int64_t i) { return paddedNumber(from + i, size, mode); })));
  };
  addSide(-low, std::min<int64_t>(0, size + high));
  if (first < last) {
    Binding whole = x;
    parts.push_back(*node.importer().slice(whole, dim, first, last - first, 1));
  }
  addSide(std::max(size, -low), size + high);
  if (parts.empty())
    e.fail("takes away more of a dimension than it has");
  return e.ok() ? e("Concat", parts, {{"axis", dim}}) : Binding();
}

/// Constant padding: zeros, or joined parts where the value is another.
Binding padConstant(Expansion &e, NodeImport &node, Binding x, int64_t dim, int64_t low, int64_t high,
                    const Binding &value) {
  for (auto [side, count] : {std::pair(0, low), std::pair(1, high)}) {
    if (!e.ok() || count == 0)
      continue;
    int64_t size = x.type.getDimSize(dim);
    if (count < 0) {
      if (size + count < 0) {
        e.fail("takes away more of a dimension than it has");
        return {};
      }
      x = *node.importer().slice(x, dim, side == 0 ? -count : 0, size + count, 1);
      continue;
    }
    llvm::SmallVector<int64_t> shape(x.type.getShape());
    shape[dim] = count;
    Binding filled = e.broadcast(value, shape);
    x = side == 0 ? e("Concat", {filled, x}, {{"axis", dim}}) : e("Concat", {x, filled}, {{"axis", dim}});
  }
  return x;
}

LogicalResult importPad(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  std::optional<llvm::SmallVector<int64_t>> pads = node.has(1) || node.opset() >= 11
                                                       ? (node.has(1) ? node.integers(1) : std::nullopt)
                                                       : node.getInts("pads"),
                                            axes;
  if (!pads)
    return node.failed() || node.has(1) ? failure() : node.error() << "has no pads";
  axes = node.has(3) ? node.integers(3) : std::optional(range(0, x.type.getRank()));
  if (axes)
    axes = node.normalizeAxes(*axes, x.type.getRank());
  if (!axes || pads->size() != 2 * axes->size())
    return axes ? node.error() << "has " << pads->size() << " pads for " << axes->size()
                               << " dimensions, expected two for each"
                : failure();
  std::string mode = node.getString("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap")
    return node.error() << "has the mode '" << mode << "', expected constant, edge, reflect or wrap";
  Binding value = node.has(2) ? e.reshape(node.input(2), {}) : e.number(x, node.getFloat("value", 0));
  for (auto [i, dim] : llvm::enumerate(*axes)) {
    int64_t low = (*pads)[i], high = (*pads)[axes->size() + i];
    if (std::abs(low) > (1 << 24) || std::abs(high) > (1 << 24))
      return node.error() << "pads dimension " << dim << " by " << low << " and " << high
                          << ", expected at most 16777216 elements on each side";
    if (mode == "constant")
      x = padConstant(e, node, x, dim, low, high, value);
    else if ((low || high) && x.type.getDimSize(dim) == 0)
      return node.error() << "repeats elements of an empty dimension";
    else if (low || high)
      x = padByElements(e, node, x, dim, low, high, mode);
    if (!e.ok())
      return failure();
  }
  return e.finish(x);
}

/// The first lengths[b] elements of each sequence the other way round.
LogicalResult importReverseSequence(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  int64_t batch = node.getInt("batch_axis", 1), time = node.getInt("time_axis", 0);
  if (batch + time != 1 || batch * time != 0)
    return node.error() << "turns sequences along dimension " << time << " of samples along " << batch
                        << ", expected 0 and 1";
  if (node.shapeOf(1)[0] != node.shapeOf(0)[batch])
    return node.error() << "has " << node.shapeOf(1)[0] << " lengths for the " << node.shapeOf(0)[batch]
                        << " sequences of " << x.type;
  auto permutation = range(0, x.type.getRank());
  if (batch == 1)
    std::swap(permutation[0], permutation[1]);
  Binding rows = e.transpose(x, permutation);
  Binding lengths = e("Unsqueeze", {e.cast(node.input(1), node.importer().getBuilder().getI64Type()), e.integers({1})});
  if (!e.ok())
    return failure();
  Binding places = e.iota(rows.type.getDimSize(1), 1, 2);
  Binding turned = e.sub(e.sub(lengths, e.integer(1)), places);
  Binding at = e.where(e("Less", {places, lengths}), turned, places);
  return e.finish(e.transpose(e.gather(rows, at, 1, 1), permutation));
}

/// The elements along a dimension for which a condition, known when compiling, holds.
LogicalResult importCompress(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  const HostTensor *condition = node.constant(1);
  if (!condition || condition->getTensorRank() != 1)
    return condition ? node.error() << "chooses by " << node.input(1).type << ", expected a list" : failure();
  int64_t axis = 0;
  if (node.hasAttribute("axis")) {
    std::optional<int64_t> given = node.normalizeAxis(node.getInt("axis", 0), x.type.getRank());
    if (!given)
      return failure();
    axis = *given;
  } else {
    x = e.reshape(x, {x.type.getNumElements()});
  }
  llvm::SmallVector<int64_t> numbers;
  for (int64_t i = 0; i < condition->getNumElements(); ++i)
    if (condition->atFlat(i).integer && i < x.type.getDimSize(axis))
      numbers.push_back(i);
  return e.finish(pick(e, x, axis, e.integers(numbers)));
}

LogicalResult importEyeLike(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  Type type = OnnxFile::getElementType(node.importer().getContext(), static_cast<int32_t>(node.getInt("dtype", 0)));
  if (!type)
    type = x.type.getElementType();
  if (x.type.getRank() != 2)
    return node.error() << "makes a diagonal like " << x.type << ", expected two dimensions";
  Binding row = e.iota(x.type.getDimSize(0), 0, 2), column = e.iota(x.type.getDimSize(1), 1, 2);
  return e.finish(e.cast(e("Equal", {e.add(row, e.integer(node.getInt("k", 0))), column}), type));
}

/// Blocks of channels become space, or the other way round.
LogicalResult importDepthToSpace(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  int64_t block = node.getInt("blocksize", 0);
  ArrayRef<int64_t> s = x.type.getShape();
  bool toSpace = node.opType() == "DepthToSpace", columnFirst = node.getString("mode", "DCR") == "CRD";
  if (s.size() != 4 || block < 1 || block > 1 << 15 ||
      (toSpace ? s[1] % (block * block) != 0 : s[2] % block != 0 || s[3] % block != 0))
    return node.error() << "exchanges channels and space of " << x.type << " in blocks of " << block
                        << (toSpace ? ", expected blocks of 1 to 32768 whose square divides the channels"
                                    : ", expected blocks of 1 to 32768 that divide both sides");
  if (toSpace) {
    int64_t channels = s[1] / (block * block);
    Binding split = columnFirst ? e.reshape(x, {s[0], channels, block, block, s[2], s[3]})
                                : e.reshape(x, {s[0], block, block, channels, s[2], s[3]});
    Binding turned = columnFirst ? e.transpose(split, {0, 1, 4, 2, 5, 3}) : e.transpose(split, {0, 3, 4, 1, 5, 2});
    return e.finish(e.reshape(turned, {s[0], channels, s[2] * block, s[3] * block}));
  }
  Binding split = e.reshape(x, {s[0], s[1], s[2] / block, block, s[3] / block, block});
  return e.finish(
      e.reshape(e.transpose(split, {0, 3, 5, 1, 2, 4}), {s[0], s[1] * block * block, s[2] / block, s[3] / block}));
}
} // namespace

void hyc::onnx::addScatterOperators(OperatorTable &table) {
  table["GatherElements"] = {importGatherElements, {tensor("data").ranks(1), tensor("indices").integer().ranks(1)}};
  table["ScatterElements"] =
      table["Scatter"] = {importScatterElements,
                          {tensor("data").ranks(1), tensor("indices").integer().ranks(1), tensor("updates").ranks(1)}};
  table["ScatterND"] = {importScatterND,
                        {tensor("data").ranks(1), tensor("indices").integer().ranks(1), tensor("updates")}};
  table["TopK"] = {importTopK, {tensor("X").ranks(1), one("K").integer().since(10)}};
  table["ArgMax"] = table["ArgMin"] = {importArgExtremum, {tensor("data").ranks(1)}};
  table["OneHot"] = {importOneHot, {tensor("indices"), one("depth"), tensor("values").rank(1)}};
  table["Tile"] = {importTile, {tensor("input"), list("repeats")}};
  table["Pad"] = {importPad,
                  {tensor("data"), list("pads").since(11), one("constant_value").optional(), list("axes").optional()}};
  table["ReverseSequence"] = {importReverseSequence,
                              {tensor("input").ranks(2), tensor("sequence_lens").integer().rank(1)}};
  table["Compress"] = {importCompress, {tensor("input").ranks(1), tensor("condition").boolean().rank(1)}};
  table["EyeLike"] = {importEyeLike, {tensor("input").rank(2)}};
  table["DepthToSpace"] = table["SpaceToDepth"] = {importDepthToSpace, {tensor("input").rank(4)}};
}
