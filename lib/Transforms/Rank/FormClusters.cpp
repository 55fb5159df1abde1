// Fuses elementwise ops over one shape, and reductions of it, into clusters. The walk goes backwards, so that a
// consumer sees its producers before they could have become clusters of their own.
//
// A cluster has up to two levels. Whole members are elementwise over the cluster's space. Reductions combine them along
// some of its dimensions; kept members are elementwise over the others. Without reductions all members are whole.
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/RankDialect.h"
#include "dialects/Rank/ScalarFunctions.h"
#include "hyc/Transforms/Rank/Passes.h"

#include "mlir/IR/Verifier.h"
#include "llvm/ADT/SetVector.h"

namespace hyc {
#define GEN_PASS_DEF_FORMCLUSTERS
#include "hyc/Transforms/Rank/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

static bool isElementwise(Operation *op) {
  if (auto dropout = dyn_cast<DropoutOp>(op))
    return bool(dropout.getMask());
  auto function = dyn_cast<ScalarFunctionOpInterface>(op);
  return function && rank::findScalarFunction(function.getScalarFunction());
}

static bool isSplat(Operation *op) {
  auto constant = dyn_cast<ConstantOp>(op);
  return constant && isa<SplatElementsAttr>(constant.getValue());
}

/// Costs less to compute again than to keep in memory. A broadcast adds nothing: its operand is read either way.
static bool isCheap(Operation *op) { return isSplat(op) || isa<BroadcastOp, IotaOp, ConvertOp, CompareOp, NotOp>(op); }

/// Whether clusters compute `op` anew, each for itself. A comparison that something else reads from memory is there
/// anyway: whoever makes what it compares gives it in the same pass.
static bool isRepeated(Operation *op) {
  return isCheap(op) && !(isa<CompareOp, NotOp>(op) && llvm::any_of(op->getUsers(), [](Operation *user) {
                            return !isElementwise(user) && !isa<BroadcastOp, ReduceOp>(user);
                          }));
}

/// The element types that kernels combine. Along no dimensions nothing is combined.
static bool isReduction(Operation *op) {
  auto reduce = dyn_cast_or_null<ReduceOp>(op);
  if (!reduce || reduce.getDims().empty())
    return false;
  Type type = cast<RankedTensorType>(reduce.getResult().getType()).getElementType();
  return isa<FloatType>(type) || (isa<IntegerType>(type) && !type.isInteger(1));
}

static ArrayRef<int64_t> shapeOf(Value tensor) { return cast<RankedTensorType>(tensor.getType()).getShape(); }

namespace {

class ClusterBuilder {
public:
  explicit ClusterBuilder(Operation *root) : root(root), builder(root) {}

  /// Puts the cluster in the place of its members, and adds those that it erased to `erased`.
  void build(DenseSet<Operation *> &erased);

private:
  using Members = SetVector<Operation *>;

  // Which ops join.
  bool fits(Operation *producer, ArrayRef<int64_t> shape) const;
  bool joins(Operation *producer, ArrayRef<int64_t> shape) const;
  DenseSet<Operation *> findCopied() const;
  bool comesAfter(Operation *user, Operation *place) const {
    return user->getBlock() == place->getBlock() && place->isBeforeInBlock(user);
  }
  bool isGivenNearby(Operation *producer) const;
  SetVector<Operation *> findNeighbours() const;
  void collect(Members &level, ArrayRef<int64_t> shape);
  void setSpace(ReduceOp reduce);
  void takeInReductions();
  void leaveOutUncombined();
  bool addIfLegal(Members &level, Operation *op);
  void addProducers();
  void addSiblings();
  void addNeighbours();
  bool isMember(Operation *op) const {
    return op && (whole.contains(op) || reductions.contains(op) || kept.contains(op));
  }
  SmallVector<Operation *> allMembers() const;
  /// Whether others use what `op` gives, so that the cluster has to give it. What is cheap is copied instead.
  bool isOutput(Operation *op) const;
  Operation *place() const;
  bool isLegal() const;

  // The body.
  unsigned addInput(Value tensor, ArrayRef<int64_t> dims);
  Value scalarOf(Value tensor);
  Value cloneScalar(Operation *op);
  Value cloneMask(DropoutMaskOp op, bool isKept);
  Value cloneDropout(DropoutOp op);
  Value convert(Value value, Type to);
  /// The column of keys that an op draws with, as a tensor.
  Value keysOf(DropoutMaskOp op);
  /// The dimension of the space that dimension `dim` of a tensor of this level is.
  int64_t spaceDim(bool isKept, int64_t dim) const { return isKept ? keptDims[dim] : dim; }

  Operation *root;
  OpBuilder builder;
  SmallVector<int64_t> space, reduced, keptDims;
  Members whole, reductions, kept;
  SmallVector<Value> inputs;
  SmallVector<SmallVector<int64_t>> inputDims;
  Block *body = nullptr;
  DenseMap<Value, Value> scalars;
};

//===----------------------------------------------------------------------===//
// Which ops join
//===----------------------------------------------------------------------===//

bool ClusterBuilder::fits(Operation *producer, ArrayRef<int64_t> shape) const {
  return producer && producer->getBlock() == root->getBlock() && !isMember(producer) &&
         (isElementwise(producer) || isSplat(producer) || isa<BroadcastOp, IotaOp, DropoutMaskOp>(producer)) &&
         shapeOf(producer->getResult(0)) == shape;
}

bool ClusterBuilder::joins(Operation *producer, ArrayRef<int64_t> shape) const {
  return fits(producer, shape) &&
         (isRepeated(producer) || llvm::all_of(producer->getUsers(), [&](Operation *user) { return isMember(user); }));
}

/// Whether an op takes no memory to speak of beside its result, nor time: what clusters are made of, and views.
static bool isLight(Operation *op) {
  return isElementwise(op) ||
         isa<ConstantOp, BroadcastOp, IotaOp, ReadOp, ReshapeOp, SplitOp, SliceOp, TransposeOp>(op);
}

/// Members that stay where they are beside their copy in the cluster: what is cheap and others use, and what that reads
/// unless the cluster gives it.
DenseSet<Operation *> ClusterBuilder::findCopied() const {
  DenseSet<Operation *> copied;
  const SmallVector<Operation *> members = allMembers();
  for (Operation *member : llvm::reverse(members))
    if (!isOutput(member) &&
        llvm::any_of(member->getUsers(), [&](Operation *user) { return !isMember(user) || copied.contains(user); }))
      copied.insert(member);
  return copied;
}

/// How many ops apart is nearby.
constexpr int kNearby = 64;

/// Whether the cluster can give what an earlier `op` makes to others, beside its own: all of them come after the root,
/// so that it was alive there before, and nothing that takes memory stands between, so that what the op reads is kept
/// alive for no moment that counts.
bool ClusterBuilder::isGivenNearby(Operation *op) const {
  DenseSet<Operation *> copied = findCopied();
  if (!llvm::all_of(op->getUsers(), [&](Operation *user) {
        return (isMember(user) && !copied.contains(user)) || comesAfter(user, root);
      }))
    return false;
  int distance = 0;
  for (Operation *between = op->getNextNode(); between != root; between = between->getNextNode())
    if (!between || !isLight(between) || ++distance > kNearby)
      return false;
  return true;
}

/// What a member reads of its own level: a broadcast reads a smaller tensor, and a mask is drawn from keys.
static OperandRange operandsOf(Operation *member) {
  return isa<BroadcastOp, DropoutMaskOp>(member) ? member->getOperands().take_front(0) : member->getOperands();
}

void ClusterBuilder::collect(Members &level, ArrayRef<int64_t> shape) {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < level.size(); ++i)
      for (Value operand : operandsOf(level[i])) {
        Operation *producer = operand.getDefiningOp();
        if (joins(producer, shape))
          changed |= level.insert(producer);
        else if (fits(producer, shape) && isGivenNearby(producer))
          changed |= addIfLegal(level, producer);
      }
  }
}

void ClusterBuilder::setSpace(ReduceOp reduce) {
  space = llvm::to_vector(shapeOf(reduce.getOperand()));
  reduced = llvm::to_vector(reduce.getDims());
  keptDims.clear();
  for (int64_t dim = 0, e = space.size(); dim < e; ++dim)
    if (!llvm::is_contained(reduced, dim))
      keptDims.push_back(dim);
}

/// Makes the elementwise members that were collected kept ones, where they read reductions that can join.
void ClusterBuilder::takeInReductions() {
  SetVector<Operation *> candidates;
  for (Operation *member : whole)
    for (Value operand : operandsOf(member))
      if (Operation *producer = operand.getDefiningOp();
          isReduction(producer) && producer->getBlock() == root->getBlock() &&
          llvm::all_of(producer->getUsers(), [&](Operation *user) { return whole.contains(user); }))
        candidates.insert(producer);
  if (candidates.empty())
    return;
  const Members elementwise = whole;
  std::swap(whole, kept);
  for (Operation *candidate : candidates) {
    auto reduce = cast<ReduceOp>(candidate);
    if (reductions.empty())
      setSpace(reduce);
    if (shapeOf(reduce.getOperand()) == ArrayRef(space) && reduce.getDims() == ArrayRef(reduced))
      addIfLegal(reductions, candidate);
  }
  leaveOutUncombined();
  if (!reductions.empty() && isLegal())
    return;
  reductions.clear();
  kept.clear();
  whole = elementwise;
  space = llvm::to_vector(shapeOf(root->getResult(0)));
  reduced.clear();
}

/// What kept members give follows from reductions, by which a kernel knows their level: those that others want and that
/// follow from none stay where they are, with what is made for them alone.
void ClusterBuilder::leaveOutUncombined() {
  for (bool changed = true; changed;) {
    DenseSet<Operation *> combined(reductions.begin(), reductions.end());
    SmallVector<Operation *> inOrder(kept.begin(), kept.end());
    llvm::sort(inOrder, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    for (Operation *member : inOrder)
      if (llvm::any_of(operandsOf(member), [&](Value operand) { return combined.contains(operand.getDefiningOp()); }))
        combined.insert(member);
    changed = kept.remove_if([&](Operation *member) { return isOutput(member) && !combined.contains(member); });
  }
}

bool ClusterBuilder::addIfLegal(Members &level, Operation *op) {
  level.insert(op);
  if (isLegal())
    return true;
  level.pop_back();
  return false;
}

/// Whole members: what reductions combine, and what that is made of. A value that others use too is an output.
void ClusterBuilder::addProducers() {
  for (bool changed = true; changed;) {
    changed = false;
    for (Operation *reduction : reductions) {
      Operation *producer = reduction->getOperand(0).getDefiningOp();
      if (fits(producer, space))
        changed |= addIfLegal(whole, producer);
    }
    collect(whole, space);
    if (reductions.empty())
      return;
  }
}

/// Other reductions of what the cluster reads or computes, along the same dimensions.
void ClusterBuilder::addSiblings() {
  SetVector<Value> values;
  for (Operation *reduction : reductions)
    values.insert(reduction->getOperand(0));
  for (Operation *member : whole) {
    values.insert(member->getResult(0));
    for (Value operand : operandsOf(member))
      values.insert(operand);
  }
  for (Value value : values)
    for (Operation *user : llvm::to_vector(value.getUsers()))
      if (isReduction(user) && user->getBlock() == root->getBlock() && !isMember(user) &&
          shapeOf(user->getOperand(0)) == ArrayRef(space) && cast<ReduceOp>(user).getDims() == ArrayRef(reduced))
        addIfLegal(reductions, user);
}

/// Elementwise ops nearby before the root whose results are wanted after it alone, or by one another.
SetVector<Operation *> ClusterBuilder::findNeighbours() const {
  SetVector<Operation *> found;
  DenseSet<Operation *> copied = findCopied();
  int distance = 0;
  for (Operation *op = root->getPrevNode(); op && isLight(op) && ++distance <= kNearby; op = op->getPrevNode())
    if (isElementwise(op) && fits(op, space) && llvm::all_of(op->getUsers(), [&](Operation *user) {
          return (isMember(user) && !copied.contains(user)) || found.contains(user) ||
                 (!isRepeated(op) && comesAfter(user, root));
        }))
      found.insert(op);
  return found;
}

/// Takes in neighbours that read what members read or make, and so on: one pass over it serves all.
void ClusterBuilder::addNeighbours() {
  SetVector<Operation *> neighbours = findNeighbours();
  if (neighbours.empty())
    return;
  DenseSet<Value> known;
  auto note = [&](Operation *op) {
    for (Value value : op->getOperands())
      if (Operation *producer = value.getDefiningOp(); !producer || !isRepeated(producer))
        known.insert(value);
    known.insert(op->getResult(0));
  };
  llvm::for_each(whole, note);
  const size_t before = whole.size();
  for (bool changed = true; changed;) {
    changed = false;
    for (Operation *op : neighbours)
      if (!isMember(op) && (known.contains(op->getResult(0)) ||
                            llvm::any_of(op->getOperands(), [&](Value operand) { return known.contains(operand); }))) {
        whole.insert(op);
        note(op);
        changed = true;
      }
  }
  if (whole.size() == before)
    return;
  collect(whole, space);
  // All or none: what one gives may be read by another that stands before the root.
  if (!isLegal())
    while (whole.size() > before)
      whole.pop_back();
}

SmallVector<Operation *> ClusterBuilder::allMembers() const {
  SmallVector<Operation *> all(whole.begin(), whole.end());
  all.append(reductions.begin(), reductions.end());
  all.append(kept.begin(), kept.end());
  llvm::sort(all, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return all;
}

bool ClusterBuilder::isOutput(Operation *op) const {
  return op == root ||
         (!isRepeated(op) && llvm::any_of(op->getUsers(), [&](Operation *user) { return !isMember(user); }));
}

/// The op before which the cluster stands: the root of elementwise ops; else the first reduction, so that nothing is
/// kept alive for longer than before, or an earlier user of what the cluster gives.
Operation *ClusterBuilder::place() const {
  if (reductions.empty())
    return root;
  Operation *first = *llvm::min_element(reductions, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  for (Operation *member : allMembers())
    if (isOutput(member))
      for (Operation *user : member->getUsers())
        if (!isMember(user) && user->isBeforeInBlock(first))
          first = user;
  return first;
}

/// Whether all that the cluster reads is there where it stands, and nobody wants what it gives before. A broadcast
/// reads its operand as a whole, so that the cluster cannot also make it: exp(x - max(x)) cannot be summed in the pass
/// over x that finds the maximum.
bool ClusterBuilder::isLegal() const {
  Operation *before = place();
  DenseSet<Operation *> copied = findCopied();
  for (Operation *member : allMembers()) {
    if (isOutput(member) && llvm::any_of(member->getUsers(), [&](Operation *user) {
          return (!isMember(user) || copied.contains(user)) && user != before && !comesAfter(user, before);
        }))
      return false;
    for (Value operand : member->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (!producer || (isa<BroadcastOp>(member) && isSplat(producer)))
        continue;
      if (isMember(producer) ? isa<BroadcastOp>(member) : !producer->isBeforeInBlock(before))
        return false;
    }
  }
  return true;
}

//===----------------------------------------------------------------------===//
// The body
//===----------------------------------------------------------------------===//

unsigned ClusterBuilder::addInput(Value tensor, ArrayRef<int64_t> dims) {
  for (auto [i, known] : llvm::enumerate(inputs))
    if (known == tensor && inputDims[i] == dims)
      return i;
  inputs.push_back(tensor);
  inputDims.emplace_back(dims);
  body->addArgument(cast<RankedTensorType>(tensor.getType()).getElementType(), tensor.getLoc());
  return inputs.size() - 1;
}

Value ClusterBuilder::scalarOf(Value tensor) {
  if (Value known = scalars.lookup(tensor))
    return known;
  Operation *producer = tensor.getDefiningOp();
  Value scalar;
  if (isMember(producer)) {
    scalar = cloneScalar(producer);
  } else {
    // The two levels have different numbers of dimensions.
    bool isKept = shapeOf(tensor).size() != space.size();
    SmallVector<int64_t> dims;
    for (int64_t dim = 0, e = shapeOf(tensor).size(); dim < e; ++dim)
      dims.push_back(spaceDim(isKept, dim));
    scalar = body->getArgument(addInput(tensor, dims));
  }
  return scalars[tensor] = scalar;
}

Value ClusterBuilder::convert(Value value, Type to) {
  if (value.getType() == to)
    return value;
  return rank::ScalarComputeOp::create(builder, value.getLoc(), to, "convert", value);
}

Value ClusterBuilder::keysOf(DropoutMaskOp op) {
  OpBuilder before(op);
  before.setInsertionPointAfterValue(op.getKeys()); // the cluster may stand before the mask
  auto keys = cast<RankedTensorType>(op.getKeys().getType());
  int64_t samples = keys.getDimSize(0), column = static_cast<int64_t>(op.getColumn());
  auto one = RankedTensorType::get({samples, 1}, keys.getElementType());
  auto slice =
      SliceOp::create(before, op.getLoc(), one, op.getKeys(), ArrayRef<int64_t>{0, column}, ArrayRef<int64_t>{1, 1});
  return ReshapeOp::create(before, op.getLoc(), RankedTensorType::get({samples}, keys.getElementType()), slice);
}

/// Whether the word of the element's number in its sample is high enough to be kept.
Value ClusterBuilder::cloneMask(DropoutMaskOp op, bool isKept) {
  Location loc = op.getLoc();
  Type i64 = builder.getI64Type();
  auto compute = [&](StringRef function, ValueRange operands) -> Value {
    return rank::ScalarComputeOp::create(builder, loc, i64, function, operands);
  };
  auto literal = [&](int64_t value) -> Value {
    return rank::LiteralOp::create(builder, loc, builder.getI64IntegerAttr(value));
  };
  Value key = body->getArgument(addInput(keysOf(op), {spaceDim(isKept, 0)}));
  Value number;
  auto add = [&](Value term) { number = number ? compute("add", {number, term}) : term; };
  for (Value offset : op.getOffsets())
    add(body->getArgument(addInput(offset, {})));
  for (auto [dim, stride] : llvm::enumerate(op.getSampleStrides())) {
    Value index = rank::IndexOp::create(builder, loc, i64, spaceDim(isKept, static_cast<int64_t>(dim) + 1));
    add(stride == 1 ? index : compute("mul", {index, literal(stride)}));
  }
  if (!number)
    add(literal(0));
  Value word = compute("random_word", {key, number});
  Value threshold = literal(DropoutMaskOp::thresholdOf(op.getRate().convertToDouble()));
  return rank::ScalarComputeOp::create(builder, loc, builder.getI1Type(), "compare_ge", ValueRange{word, threshold});
}

/// As DropoutOp says: 16-bit floats are multiplied in f32.
Value ClusterBuilder::cloneDropout(DropoutOp op) {
  Location loc = op.getLoc();
  Value x = scalarOf(op.getX()), mask = scalarOf(op.getMask());
  Type type = x.getType(), wide = accumulationType(type);
  double rate = op.getRate().convertToDouble();
  float share = static_cast<float>(1 / (1 - rate)); // as in kernels/philox, whatever is computed with
  Value scale = rank::LiteralOp::create(builder, loc, builder.getFloatAttr(wide, static_cast<double>(share)));
  Value zero = rank::LiteralOp::create(builder, loc, builder.getFloatAttr(wide, 0));
  Value scaled = rank::ScalarComputeOp::create(builder, loc, wide, "mul", ValueRange{convert(x, wide), scale});
  Value chosen = rank::ScalarComputeOp::create(builder, loc, wide, "select", ValueRange{mask, scaled, zero});
  return convert(chosen, type);
}

Value ClusterBuilder::cloneScalar(Operation *op) {
  Type type = cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  bool isKept = kept.contains(op);
  if (auto constant = dyn_cast<ConstantOp>(op))
    return rank::LiteralOp::create(builder, op->getLoc(),
                                   cast<SplatElementsAttr>(constant.getValue()).getSplatValue<TypedAttr>());
  if (auto iota = dyn_cast<IotaOp>(op))
    return rank::IndexOp::create(builder, op->getLoc(), type, spaceDim(isKept, iota.getDim()));
  if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
    Operation *source = broadcast.getOperand().getDefiningOp();
    if (source && isSplat(source))
      return cloneScalar(source);
    SmallVector<int64_t> dims;
    for (int64_t dim : broadcast.getDims())
      dims.push_back(spaceDim(isKept, dim));
    return body->getArgument(addInput(broadcast.getOperand(), dims));
  }
  if (auto mask = dyn_cast<DropoutMaskOp>(op))
    return cloneMask(mask, isKept);
  if (auto dropout = dyn_cast<DropoutOp>(op))
    return cloneDropout(dropout);
  if (auto reduce = dyn_cast<ReduceOp>(op)) {
    auto kind = reduce.getKind() == ReductionKind::sum   ? rank::CombineKind::sum
                : reduce.getKind() == ReductionKind::max ? rank::CombineKind::max
                : reduce.getKind() == ReductionKind::min ? rank::CombineKind::min
                                                         : rank::CombineKind::prod;
    // 16-bit floats are combined in f32, and rounded only if the result is.
    Value element = scalarOf(reduce.getOperand());
    element = convert(element, accumulationType(element.getType()));
    return convert(rank::CombineOp::create(builder, op->getLoc(), kind, element), type);
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(scalarOf(operand));
  return rank::ScalarComputeOp::create(builder, op->getLoc(), type,
                                       cast<ScalarFunctionOpInterface>(op).getScalarFunction(), operands);
}

void ClusterBuilder::build(DenseSet<Operation *> &erased) {
  if (auto reduce = dyn_cast<ReduceOp>(root)) {
    setSpace(reduce);
    reductions.insert(root);
  } else {
    space = llvm::to_vector(shapeOf(root->getResult(0)));
    whole.insert(root);
    collect(whole, space);
    takeInReductions();
  }
  if (reductions.empty()) {
    addNeighbours();
  } else {
    addProducers();
    addSiblings();
    addProducers();
  }

  Operation *before = place();
  SmallVector<Operation *> members = allMembers();
  SmallVector<Operation *> outputs = llvm::filter_to_vector(members, [&](Operation *op) { return isOutput(op); });
  Region region;
  body = &region.emplaceBlock();
  builder.setInsertionPointToStart(body);
  SmallVector<Value> yielded;
  SmallVector<Type> types;
  for (Operation *output : outputs) {
    yielded.push_back(scalarOf(output->getResult(0)));
    types.push_back(output->getResult(0).getType());
  }
  rank::YieldOp::create(builder, root->getLoc(), yielded);

  builder.setInsertionPoint(before);
  SmallVector<Attribute> dims;
  for (ArrayRef<int64_t> list : inputDims)
    dims.push_back(builder.getDenseI64ArrayAttr(list));
  auto cluster = rank::ClusterOp::create(builder, outputs.front()->getLoc(), types, inputs, space, reduced,
                                         builder.getArrayAttr(dims));
  cluster.getBody().takeBody(region);
  cluster->setDiscardableAttrs(outputs.front()->getDiscardableAttrDictionary());
  for (auto [output, result] : llvm::zip_equal(outputs, cluster.getOuts()))
    output->getResult(0).replaceAllUsesWith(result);
  for (Operation *member : llvm::reverse(members))
    if (member->use_empty()) {
      erased.insert(member);
      member->erase();
    }
}

/// Elements of a row that make a warp's work, and rows whose results one warp can go through.
constexpr int64_t kRow = 256, kRows = 16384;

/// A maximum or minimum of a whole tensor, first of its rows, then of what these give: it knows no order, and the rows
/// can be shared out where one result would keep a single block of a GPU busy.
void splitLongExtremum(ReduceOp reduce) {
  if (reduce.getKind() != ReductionKind::max && reduce.getKind() != ReductionKind::min)
    return;
  auto type = cast<RankedTensorType>(reduce.getOperand().getType());
  ArrayRef<int64_t> shape = type.getShape();
  if (static_cast<int64_t>(reduce.getDims().size()) != type.getRank())
    return;
  // As many leading dimensions stay as leave rows of some length.
  int64_t kept = 0, rows = 1, left = type.getNumElements();
  while (kept < type.getRank() && left / std::max<int64_t>(shape[kept], 1) >= kRow && rows * shape[kept] <= kRows) {
    rows *= shape[kept];
    left /= shape[kept++];
  }
  if (rows == 1)
    return;
  OpBuilder builder(reduce);
  auto whole = cast<RankedTensorType>(reduce.getResult().getType());
  auto partial = RankedTensorType::get(shape.take_front(kept), whole.getElementType());
  auto dims = [](int64_t first, int64_t end) { return llvm::to_vector(llvm::seq<int64_t>(first, end)); };
  auto ofRows = ReduceOp::create(builder, reduce.getLoc(), partial, reduce.getKind(), reduce.getOperand(),
                                 dims(kept, type.getRank()));
  ofRows->setDiscardableAttrs(reduce->getDiscardableAttrDictionary());
  setId(ofRows, getId(reduce) + ".rows");
  auto all = ReduceOp::create(builder, reduce.getLoc(), whole, reduce.getKind(), ofRows, dims(0, kept));
  all->setDiscardableAttrs(reduce->getDiscardableAttrDictionary());
  reduce.getResult().replaceAllUsesWith(all);
  reduce.erase();
}

struct FormClusters : hyc::impl::FormClustersBase<FormClusters> {
  void runOnOperation() override {
    for (auto func : getOperation().getOps<FuncOp>()) {
      func.walk([&](ScanOp scan) { runOnBlock(scan.getStep()); });
      runOnBlock(func.getBody().front());
      // They are gone when their phase is verified.
      if (func.walk([](rank::ClusterOp cluster) { return WalkResult(mlir::verify(cluster)); }).wasInterrupted())
        return signalPassFailure();
    }
  }

  void runOnBlock(Block &block) {
    for (auto reduce : llvm::to_vector(block.getOps<ReduceOp>()))
      splitLongExtremum(reduce);
    SmallVector<Operation *> ops;
    for (Operation &op : llvm::reverse(block))
      ops.push_back(&op);
    DenseSet<Operation *> erased;
    for (Operation *op : ops) {
      if (erased.contains(op))
        continue;
      bool isRoot = isElementwise(op) || isa<BroadcastOp, IotaOp, DropoutMaskOp>(op) || isReduction(op);
      if (op->use_empty() && (isRoot || isSplat(op))) {
        op->erase();
      } else if (auto reduce = dyn_cast<ReduceOp>(op); reduce && reduce.getDims().empty()) {
        reduce.getResult().replaceAllUsesWith(reduce.getOperand());
        reduce.erase();
      } else if (isRoot) {
        ClusterBuilder(op).build(erased);
      }
    }
  }
};

} // namespace
