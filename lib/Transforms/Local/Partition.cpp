// Rewrites @microbatch from whole tensors to what one rank holds.
//
// The surprise: a value may exist in several versions (partial, summed, sliced). Each conversion is made once, beside
// the op that makes the value, and shared by all who need it; but shards that forward joins, backward joins again. Flat
// parameters are the exception: every use reads and gathers them anew, so that the whole is there for that use only.
#include "Exchanges.h"
#include "dialects/Dist/AttributeText.h"
#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/FlatStates.h"
#include "hyc/Analysis/OpSharding.h"
#include "hyc/Transforms/Local/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace hyc {
#define GEN_PASS_DEF_PARTITION
#include "hyc/Transforms/Local/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;
using dist::AxisListAttr;
using dist::ShardingAttr;

namespace {

/// One value in one sharding.
struct Version {
  ShardingAttr sharding;
  Value local;
  bool isJoined = false; ///< of shards that other ranks hold
};

/// Rewrites one function, op by op, into `block`.
class Partitioner {
public:
  Partitioner(const SymbolTable &symbols, dist::MeshOp mesh, Block *block)
      : symbols(symbols), mesh(mesh), context(mesh.getContext()), builder(OpBuilder::atBlockEnd(block)) {}

  void define(Value original, ShardingAttr sharding, Value local) { versions[original] = {{sharding, local}}; }

  LogicalResult rewrite(Operation *op);

  RankedTensorType localType(Type type, ShardingAttr sharding) {
    return heldType(cast<RankedTensorType>(type), sharding, mesh);
  }

  int64_t exchanges = 0;

private:
  Value convert(Value original, ShardingAttr wanted);
  Value closePartial(Value original, Version from, ArrayRef<StringAttr> axes, dist::ReduceKind kind);
  std::optional<Version> scatterPartial(Value original, const Version &from, ShardingAttr wanted);
  size_t countKept(int64_t size, ArrayRef<StringAttr> have, ArrayRef<StringAttr> want);
  Value gather(Value original, Value shard, int64_t dim, int64_t size, AxisListAttr axes, const std::string &why);
  Value moveSplit(Value original, Value value, int64_t to, int64_t from, RankedTensorType result, AxisListAttr axes,
                  const std::string &why);
  OpBuilder builderOfJoin(Value original, Value shard);
  bool joinsShards(Value original, ShardingAttr have, ShardingAttr want);
  Value moveSplits(Value original, Version from, ShardingAttr wanted, ArrayRef<size_t> kept,
                   llvm::SmallDenseSet<int64_t> &settled);
  Value redistribute(Value original, Version from, ShardingAttr wanted);
  Value gatherFlat(Value original, Version from);
  Value reduceToShard(Value original, ShardingAttr wanted, AxisListAttr flat);
  void rewriteAccumulate(AccumulateOp op);
  void placeLike(Operation *added, Value original);
  void placeJoin(Operation *added, Value original);
  /// Whether a backward op asks for a forward value. What was joined for forward is joined for it once more, so that
  /// the record between the two holds shards.
  bool looksBack(Value original) const {
    Operation *def = original.getDefiningOp();
    return def && user && !isBackward(def) && isBackward(user);
  }

  LogicalResult rewriteGeneric(Operation *op, ShardingRuleOpInterface rule);
  class PartOf;
  /// Where this rank's part of a dimension begins that `axes` split into shards of `size`.
  Value shardOffset(Operation *op, AxisListAttr axes, int64_t size);
  Value allReduceNow(Operation *op, dist::ReduceKind kind, Value value, AxisListAttr axes, StringRef why);

  /// Carries id, stage, lifetime and the backward mark over to an op made for `from`.
  template <typename OpT> OpT mark(OpT made, Operation *from, StringRef suffix = "") {
    for (StringRef name : {StringRef(kBackward), StringRef(dist::kStage), StringRef(dist::kLifetime)})
      if (Attribute attribute = from->getAttr(name))
        made->setAttr(name, attribute);
    if (!getId(from).empty())
      setId(made, getId(from) + suffix);
    return made;
  }

  const SymbolTable &symbols; ///< of the module
  dist::MeshOp mesh;
  MLIRContext *context;
  OpBuilder builder;
  Operation *user = nullptr; ///< the op that is being rewritten
  llvm::DenseMap<Value, SmallVector<Version>> versions;
};

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

/// Ranks that hold different shards, or terms of one sum, hold no copies of which each could save a part: `made`, whose
/// result is spread as `sharding`, then saves what it has.
static void savePartsOfCopiesOnly(Operation *made, ShardingAttr sharding) {
  auto lifetime = made->getAttrOfType<dist::LifetimeAttr>(dist::kLifetime);
  if (lifetime && llvm::any_of(lifetime.getOver().getAxes(), [&](StringAttr axis) {
        return sharding.splits(axis) || sharding.getPartial().contains(axis) || sharding.getPartialMax().contains(axis);
      }))
    made->setAttr(dist::kLifetime, dist::LifetimeAttr::get(made->getContext(), lifetime.getKind()));
}

/// Stage, direction and lifetime of an op that converts `original`: those of the op that makes it. An argument is
/// converted for the op that needs it first.
void Partitioner::placeLike(Operation *added, Value original) {
  Operation *def = original.getDefiningOp() ? original.getDefiningOp() : user;
  for (StringRef name : {StringRef(kBackward), StringRef(dist::kStage), StringRef(dist::kLifetime)})
    if (Attribute attribute = def->getAttr(name))
      added->setAttr(name, attribute);
  // What the first user of an argument saves in parts is its own result.
  if (def != original.getDefiningOp() && !dist::LifetimeAttr::of(def).isRecompute())
    added->removeAttr(dist::kLifetime);
}

/// The same of an op that joins shards of a forward value for backward: it is backward's.
void Partitioner::placeJoin(Operation *added, Value original) {
  if (!looksBack(original))
    return placeLike(added, original);
  for (StringRef name : {StringRef(kBackward), StringRef(dist::kStage)})
    if (Attribute attribute = user->getAttr(name))
      added->setAttr(name, attribute);
}

Value Partitioner::convert(Value original, ShardingAttr wanted) {
  SmallVector<Version> &known = versions.find(original)->second;
  auto isOfUse = [&](const Version &version) { return !version.isJoined || !looksBack(original); };
  for (const Version &version : known)
    if (version.sharding == wanted && isOfUse(version))
      return version.local;
  AxisListAttr none = AxisListAttr::get(context, {});
  auto missing = [](AxisListAttr have, AxisListAttr keep) {
    return llvm::filter_to_vector(have.getAxes(), [&](StringAttr axis) { return !keep.contains(axis); });
  };
  if (!known.front().sharding.getFlat().empty()) {
    // Every use has a read of its own, so that this version is its alone.
    Version gathered{known.front().sharding.withoutFlat(), gatherFlat(original, known.front())};
    known.assign({gathered});
    if (gathered.sharding == wanted)
      return gathered.local;
  }
  // Sums that are closed already are not closed again. One that was closed further than wanted is of no use: a whole
  // term among partial ones would count once a rank.
  auto *closed = llvm::find_if(known, [&](const Version &version) {
    return isOfUse(version) && version.sharding.getPartialMax().empty() &&
           missing(version.sharding.getPartial(), wanted.getPartial()).empty() &&
           missing(wanted.getPartial(), version.sharding.getPartial()).empty();
  });
  Version version = closed == known.end() ? known.front() : *closed;
  if (std::optional<Version> scattered = scatterPartial(original, version, wanted)) {
    version = *scattered;
    known.push_back(version);
  }
  if (SmallVector<StringAttr> axes = missing(version.sharding.getPartial(), wanted.getPartial()); !axes.empty()) {
    version.local = closePartial(original, version, axes, dist::ReduceKind::sum);
    version.sharding = ShardingAttr::get(context, version.sharding.getDims(), wanted.getPartial(),
                                         version.sharding.getPartialMax(), none);
    known.push_back(version);
  }
  if (SmallVector<StringAttr> axes = missing(version.sharding.getPartialMax(), wanted.getPartialMax()); !axes.empty()) {
    version.local = closePartial(original, version, axes, dist::ReduceKind::max);
    version.sharding = ShardingAttr::get(context, version.sharding.getDims(), version.sharding.getPartial(),
                                         wanted.getPartialMax(), none);
    known.push_back(version);
  }
  if (version.sharding.getDims() != wanted.getDims()) {
    bool joins = !looksBack(original) && joinsShards(original, version.sharding, wanted);
    version.local = redistribute(original, version, wanted);
    version.sharding = wanted;
    version.isJoined |= joins;
    versions.find(original)->second.push_back(version);
  }
  return version.local;
}

Value Partitioner::closePartial(Value original, Version from, ArrayRef<StringAttr> axes, dist::ReduceKind kind) {
  OpBuilder start(context);
  start.setInsertionPointAfterValue(from.local);
  Operation *def = original.getDefiningOp();
  Value whole = local::allReduce({start, builder, original.getLoc()}, kind, from.local, local::groupOf(context, axes),
                                 {def ? getId(def) : "input", textOf(from.sharding)});
  ++exchanges;
  placeLike(whole.getDefiningOp(), original);
  placeLike(whole.getDefiningOp()->getOperand(0).getDefiningOp(), original);
  auto leftOpen = [&](AxisListAttr open) {
    return llvm::filter_to_vector(open.getAxes(), [&](StringAttr axis) { return !llvm::is_contained(axes, axis); });
  };
  savePartsOfCopiesOnly(whole.getDefiningOp(),
                        ShardingAttr::get(context, from.sharding.getDims(),
                                          AxisListAttr::get(context, leftOpen(from.sharding.getPartial())),
                                          AxisListAttr::get(context, leftOpen(from.sharding.getPartialMax())),
                                          AxisListAttr::get(context, {})));
  return whole;
}

/// Sums that are still open straight into the shards that `wanted` has of one dimension, where these are all of its
/// difference: half of what summing them whole and dropping the rest would move.
std::optional<Version> Partitioner::scatterPartial(Value original, const Version &from, ShardingAttr wanted) {
  ArrayRef<StringAttr> open = from.sharding.getPartial().getAxes();
  int64_t dim = -1;
  SmallVector<StringAttr> axes;
  for (auto [index, have, want] : llvm::enumerate(from.sharding.getDims(), wanted.getDims())) {
    if (have == want)
      continue;
    size_t kept = have.getAxes().size();
    bool isFiner = want.getAxes().size() > kept && want.getAxes().take_front(kept) == have.getAxes();
    if (dim >= 0 || !isFiner)
      return std::nullopt;
    dim = static_cast<int64_t>(index);
    llvm::append_range(axes, want.getAxes().drop_front(kept));
  }
  // One axis, so that the members' order in the group is that of their shards.
  if (dim < 0 || axes.size() != 1 || !llvm::is_contained(open, axes[0]) || wanted.getPartial().contains(axes[0]) ||
      !from.sharding.getPartialMax().empty())
    return std::nullopt;
  SmallVector<StringAttr> left = llvm::filter_to_vector(open, [&](StringAttr axis) { return axis != axes[0]; });
  auto none = AxisListAttr::get(context, {});
  auto sharding = ShardingAttr::get(context, wanted.getDims(), AxisListAttr::get(context, left), none, none);
  RankedTensorType shard = localType(original.getType(), sharding);
  auto whole = cast<RankedTensorType>(from.local.getType());
  if (shard.getDimSize(dim) * mesh.getSize(axes[0]) != whole.getDimSize(dim))
    return std::nullopt;
  OpBuilder start(context);
  start.setInsertionPointAfterValue(from.local);
  Operation *def = original.getDefiningOp();
  Value sum = local::reduceScatter({start, builder, original.getLoc()}, from.local, dim, shard,
                                   local::groupOf(context, axes), {def ? getId(def) : "input", textOf(from.sharding)});
  ++exchanges;
  for (Operation *made : {sum.getDefiningOp(), sum.getDefiningOp()->getOperand(0).getDefiningOp()}) {
    placeLike(made, original);
    savePartsOfCopiesOnly(made, sharding);
  }
  return Version{sharding, sum};
}

/// The whole local tensor of a flat parameter, for the op that is being rewritten.
Value Partitioner::gatherFlat(Value original, Version from) {
  OpBuilder start(context);
  start.setInsertionPointAfterValue(from.local);
  AxisListAttr flat = from.sharding.getFlat();
  Value pending = local::startAllGatherFlat(start, original.getLoc(), from.local,
                                            localType(original.getType(), from.sharding.withoutFlat()), flat,
                                            {getId(user), textOf(from.sharding)});
  ++exchanges;
  auto whole =
      dist::WaitOp::create(builder, original.getLoc(), cast<dist::PendingType>(pending.getType()).getTensor(), pending);
  placeLike(pending.getDefiningOp(), original);
  placeLike(whole, original);
  if (Operation *read = original.getDefiningOp())
    if (Attribute depth = symbols.lookup(cast<ReadOp>(read).getSource())->getAttr(dist::kPrefetch))
      pending.getDefiningOp()->setAttr(dist::kPrefetch, depth);
  return whole;
}

/// This rank's flat shard of a contribution to a gradient, summed over what it is partial over.
Value Partitioner::reduceToShard(Value original, ShardingAttr wanted, AxisListAttr flat) {
  Version &known = versions.find(original)->second.front();
  ArrayRef<StringAttr> partial = known.sharding.getPartial().getAxes();
  RankedTensorType shard = local::flatShardType(localType(original.getType(), wanted), flat, mesh);
  bool direct = !partial.empty() && known.sharding.getDims() == wanted.getDims() &&
                known.sharding.getPartialMax().empty() && known.sharding.getFlat().empty();
  if (!direct) {
    // Nothing to sum, or to be split otherwise first: the shard is cut from the value as it is wanted.
    auto slice =
        dist::SliceOp::create(builder, original.getLoc(), shard, convert(original, wanted), IntegerAttr(), flat);
    placeLike(slice, original);
    return slice;
  }
  OpBuilder start(context);
  start.setInsertionPointAfterValue(known.local);
  Operation *def = original.getDefiningOp();
  Value sum =
      local::reduceScatterFlat({start, builder, original.getLoc()}, known.local, shard, flat,
                               local::groupOf(context, partial), {def ? getId(def) : "input", textOf(known.sharding)});
  ++exchanges;
  placeLike(sum.getDefiningOp(), original);
  placeLike(sum.getDefiningOp()->getOperand(0).getDefiningOp(), original);
  return sum;
}

/// How many leading axes of a dimension of `size` stay as they are on the way from `have` to `want`: equal ones, as
/// long as the shards that they make are whole numbers of the finer shards on either side. Ten elements over 2 are
/// shards of 5, over 2 · 2 shards of 3 that straddle them; such a dimension is joined whole.
size_t Partitioner::countKept(int64_t size, ArrayRef<StringAttr> have, ArrayRef<StringAttr> want) {
  auto parts = [&](ArrayRef<StringAttr> axes) { return mesh.getSize(AxisListAttr::get(context, axes)); };
  size_t kept = 0;
  while (kept < have.size() && kept < want.size() && have[kept] == want[kept])
    ++kept;
  auto nests = [&](ArrayRef<StringAttr> finer) {
    int64_t coarse = dist::shardSize(size, parts(finer.take_front(kept)));
    return dist::shardSize(size, parts(finer)) * parts(finer.drop_front(kept)) == coarse;
  };
  while (kept > 0 && !((kept == have.size() || nests(have)) && (kept == want.size() || nests(want))))
    --kept;
  return kept;
}

/// Where an exchange of `shard` starts that joins parts of `original`.
OpBuilder Partitioner::builderOfJoin(Value original, Value shard) {
  OpBuilder start(context);
  start.setInsertionPointAfterValue(shard);
  if (looksBack(original))
    start.setInsertionPoint(builder.getInsertionBlock(), builder.getInsertionPoint());
  return start;
}

/// Joins the shards that `axes` make of a dimension into `size` elements. A group's members are in the order of the
/// mesh; where `axes` are in another one, they are joined one after the other, the minor first.
Value Partitioner::gather(Value original, Value shard, int64_t dim, int64_t size, AxisListAttr axes,
                          const std::string &why) {
  SmallVector<AxisListAttr> steps{axes};
  if (!mesh.isMajorToMinor(axes.getAxes())) {
    steps.clear();
    for (StringAttr axis : llvm::reverse(axes.getAxes()))
      steps.push_back(AxisListAttr::get(context, {axis}));
  }
  Operation *def = original.getDefiningOp();
  for (AxisListAttr step : steps) {
    bool last = step == steps.back();
    int64_t joined = last ? size : cast<RankedTensorType>(shard.getType()).getDimSize(dim) * mesh.getSize(step);
    OpBuilder start = builderOfJoin(original, shard);
    shard = local::allGather({start, builder, original.getLoc()}, shard, dim, joined,
                             local::groupOf(context, step.getAxes()), {def ? getId(def) : "input", why});
    ++exchanges;
    placeJoin(shard.getDefiningOp(), original);
    placeJoin(shard.getDefiningOp()->getOperand(0).getDefiningOp(), original);
  }
  return shard;
}

/// Gives dimension `to` the split over `axes` that dimension `from` has.
Value Partitioner::moveSplit(Value original, Value value, int64_t to, int64_t from, RankedTensorType result,
                             AxisListAttr axes, const std::string &why) {
  OpBuilder start = builderOfJoin(original, value);
  Operation *def = original.getDefiningOp();
  Value moved = local::allToAll({start, builder, original.getLoc()}, value, {from, to}, result,
                                local::groupOf(context, axes.getAxes()), {def ? getId(def) : "input", why});
  ++exchanges;
  placeJoin(moved.getDefiningOp(), original);
  placeJoin(moved.getDefiningOp()->getOperand(0).getDefiningOp(), original);
  return moved;
}

/// Whether some dimension has to be joined on the way from `have` to `want`.
bool Partitioner::joinsShards(Value original, ShardingAttr have, ShardingAttr want) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(original.getType()).getShape();
  return llvm::any_of(llvm::zip_equal(shape, have.getDims(), want.getDims()), [&](auto dim) {
    auto [size, from, to] = dim;
    return countKept(size, from.getAxes(), to.getAxes()) < from.getAxes().size();
  });
}

/// Axes that leave one dimension whole as far as `wanted` goes, and are all that another one lacks, move there in one
/// exchange, in which each rank sends only what others need. Adds to `settled` the dimensions that have what is wanted.
Value Partitioner::moveSplits(Value original, Version from, ShardingAttr wanted, ArrayRef<size_t> kept,
                              llvm::SmallDenseSet<int64_t> &settled) {
  auto whole = cast<RankedTensorType>(original.getType());
  auto surplus = [&](int64_t dim) { return from.sharding.getDims()[dim].getAxes().drop_front(kept[dim]); };
  auto missing = [&](int64_t dim) { return wanted.getDims()[dim].getAxes().drop_front(kept[dim]); };
  Value value = from.local;
  for (int64_t dim = 0; dim < whole.getRank(); ++dim) {
    if (surplus(dim).empty() || !missing(dim).empty() || !mesh.isMajorToMinor(surplus(dim)))
      continue;
    for (int64_t to = 0; to < whole.getRank(); ++to) {
      if (settled.contains(to) || !surplus(to).empty() || missing(to) != surplus(dim))
        continue;
      SmallVector<int64_t> shape(cast<RankedTensorType>(value.getType()).getShape());
      for (int64_t changed : {dim, to})
        shape[changed] = dist::shardSize(whole.getDimSize(changed), mesh.getSize(wanted.getDims()[changed]));
      value = moveSplit(original, value, to, dim, RankedTensorType::get(shape, whole.getElementType()),
                        AxisListAttr::get(context, surplus(dim)), textOf(from.sharding));
      savePartsOfCopiesOnly(value.getDefiningOp(), wanted);
      settled.insert(dim);
      settled.insert(to);
      break;
    }
  }
  return value;
}

/// Moves what only moves, then joins the axes that are too many, dimension by dimension, and drops what the further
/// axes of `wanted` give to others. In this order: where an axis moves from one dimension to another, its ranks join
/// parts of the same elements.
Value Partitioner::redistribute(Value original, Version from, ShardingAttr wanted) {
  auto whole = cast<RankedTensorType>(original.getType());
  bool joins = joinsShards(original, from.sharding, wanted);
  SmallVector<size_t> kept;
  for (auto [size, have, want] : llvm::zip_equal(whole.getShape(), from.sharding.getDims(), wanted.getDims()))
    kept.push_back(countKept(size, have.getAxes(), want.getAxes()));
  auto sizeOf = [&](int64_t dim, ArrayRef<StringAttr> axes) {
    return dist::shardSize(whole.getDimSize(dim), mesh.getSize(AxisListAttr::get(context, axes)));
  };
  llvm::SmallDenseSet<int64_t> settled;
  Value value = moveSplits(original, from, wanted, kept, settled);
  for (int64_t dim = 0; dim < whole.getRank(); ++dim) {
    ArrayRef<StringAttr> have = from.sharding.getDims()[dim].getAxes();
    if (kept[dim] < have.size() && !settled.contains(dim))
      value = gather(original, value, dim, sizeOf(dim, have.take_front(kept[dim])),
                     AxisListAttr::get(context, have.drop_front(kept[dim])), textOf(from.sharding));
  }
  for (int64_t dim = 0; dim < whole.getRank(); ++dim) {
    ArrayRef<StringAttr> want = wanted.getDims()[dim].getAxes();
    if (kept[dim] == want.size() || settled.contains(dim))
      continue;
    SmallVector<int64_t> shape(cast<RankedTensorType>(value.getType()).getShape());
    shape[dim] = sizeOf(dim, want);
    value =
        dist::SliceOp::create(builder, original.getLoc(), RankedTensorType::get(shape, whole.getElementType()), value,
                              builder.getI64IntegerAttr(dim), AxisListAttr::get(context, want.drop_front(kept[dim])));
    if (joins)
      placeJoin(value.getDefiningOp(), original);
    else
      placeLike(value.getDefiningOp(), original);
    savePartsOfCopiesOnly(value.getDefiningOp(), wanted);
  }
  return value;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

LogicalResult Partitioner::rewrite(Operation *op) {
  user = op;
  if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
    rewriteAccumulate(accumulate);
    return success();
  }
  if (auto write = dyn_cast<WriteOp>(op)) {
    // Every rank writes the part that it holds, of a value that all of them agree on.
    ShardingAttr sharding = symbols.lookup(write.getTarget())->getAttrOfType<ShardingAttr>(dist::kSharding);
    mark(WriteOp::create(builder, op->getLoc(), convert(write.getValue(), sharding), write.getTargetAttr()), op);
    return success();
  }
  if (auto rule = dyn_cast<ShardingRuleOpInterface>(op))
    return rewriteGeneric(op, rule);
  if (!isa<ReadOp>(op))
    return op->emitOpError("has no sharding rule, and can't be partitioned");
  ShardingAttr sharding = recordedSharding(op->getResult(0));
  sharding = sharding.withFlat(flatAxesOf(symbols.lookup(cast<ReadOp>(op).getSource())));
  Operation *clone = builder.clone(*op);
  clone->removeAttr(dist::kShardings);
  clone->getResult(0).setType(localType(op->getResult(0).getType(), sharding));
  define(op->getResult(0), sharding, clone->getResult(0));
  return success();
}

/// A gradient that is summed over ranks as it is made is added where it is kept: in a flat state, in this rank's own
/// slice of a whole one, or whole.
void Partitioner::rewriteAccumulate(AccumulateOp op) {
  Operation *state = symbols.lookup(op.getTarget());
  auto sharding = state->getAttrOfType<ShardingAttr>(dist::kSharding);
  auto owned = state->getAttrOfType<AxisListAttr>(dist::kOwned);
  AxisListAttr shard = owned ? owned : sharding.getFlat();
  bool onShards = isReducedPerMicroBatch(state) && !shard.empty();
  Value value =
      onShards ? reduceToShard(op.getValue(), sharding.withoutFlat(), shard) : convert(op.getValue(), sharding);
  auto made = mark(AccumulateOp::create(builder, op.getLoc(), value, op.getTargetAttr(), op.getMaxAttr()), op);
  if (onShards && sharding.getFlat().empty())
    made->setAttr(dist::kFlat, shard);
}

/// The answers to an op that becomes local.
class Partitioner::PartOf : public LocalPart {
public:
  PartOf(Partitioner &partitioner, Operation *op, const ShardingRule &rule, const OpSharding &sharding)
      : partitioner(partitioner), op(op), rule(rule), sharding(sharding) {}

  bool isSplit(const LocalDim &dim) override { return !axesOf(dim).empty(); }
  RankedTensorType typeOf(Value result) override {
    return partitioner.localType(result.getType(), recordedSharding(result));
  }
  Value offset(const LocalDim &dim, int64_t size) override { return partitioner.shardOffset(op, axesOf(dim), size); }
  Value sumOver(const LocalDim &dim, Value value) override { return reduce(dist::ReduceKind::sum, dim, value); }
  Value maxOver(const LocalDim &dim, Value value) override { return reduce(dist::ReduceKind::max, dim, value); }
  OpBuilder &builder() override { return partitioner.builder; }
  void mark(Operation *made, StringRef suffix) override { partitioner.mark(made, op, suffix); }

private:
  ShardingAttr shardingOf(const LocalDim &dim) {
    return dim.operand
               ? sharding.operandSharding(op->getContext(), rule, static_cast<int>(dim.operand->getOperandNumber()))
               : recordedSharding(dim.result);
  }
  AxisListAttr axesOf(const LocalDim &dim) { return shardingOf(dim).getDims()[dim.dim]; }
  Value reduce(dist::ReduceKind kind, const LocalDim &dim, Value value) {
    return partitioner.allReduceNow(op, kind, value, axesOf(dim), textOf(shardingOf(dim)));
  }

  Partitioner &partitioner;
  Operation *op;
  const ShardingRule &rule;
  const OpSharding &sharding;
};

LogicalResult Partitioner::rewriteGeneric(Operation *op, ShardingRuleOpInterface ruleOp) {
  ShardingRule rule = ruleOp.getShardingRule();
  FailureOr<OpSharding> recorded = recordedOpSharding(op, rule, mesh);
  if (failed(recorded))
    return failure();
  const OpSharding &sharding = *recorded;
  SmallVector<Value> operands;
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    operands.push_back(convert(operand, sharding.operandSharding(context, rule, static_cast<int>(index))));

  NamedAttrList attributes(op->getAttrs());
  if (auto local = dyn_cast<LocalFormOpInterface>(op)) {
    PartOf part(*this, op, rule, sharding);
    SmallVector<Value> results;
    local.buildLocal(part, operands, results);
    for (auto [original, result] : llvm::zip(op->getResults(), results))
      define(original, recordedSharding(original), result);
    if (!results.empty())
      return success();
    local.addPlace(part, operands, attributes);
  }
  SmallVector<Type> types;
  for (Value result : op->getResults())
    types.push_back(localType(result.getType(), recordedSharding(result)));
  attributes.erase(dist::kShardings);
  attributes.erase(dist::kSplit);
  OperationState state(op->getLoc(), op->getName(), operands, types, attributes.getAttrs());
  Operation *made = builder.create(state);
  for (Value result : op->getResults())
    savePartsOfCopiesOnly(made, recordedSharding(result));
  for (auto [original, local] : llvm::zip_equal(op->getResults(), made->getResults()))
    define(original, recordedSharding(original), local);
  return success();
}

Value Partitioner::shardOffset(Operation *op, AxisListAttr axes, int64_t size) {
  auto type = RankedTensorType::get({}, builder.getI64Type());
  return mark(dist::ShardOffsetOp::create(builder, op->getLoc(), type, axes, size), op, ".offset").getResult();
}

Value Partitioner::allReduceNow(Operation *op, dist::ReduceKind kind, Value value, AxisListAttr axes, StringRef why) {
  ++exchanges;
  Value whole = local::allReduce({builder, builder, op->getLoc()}, kind, value, local::groupOf(context, axes.getAxes()),
                                 {getId(op), why.str()});
  mark(whole.getDefiningOp(), op);
  mark(whole.getDefiningOp()->getOperand(0).getDefiningOp(), op);
  return whole;
}

//===----------------------------------------------------------------------===//
// Reads of flat parameters
//===----------------------------------------------------------------------===//

/// Gives every op that uses a flat parameter, or what is computed from parameters alone, a read (and a computation) of
/// its own right before it, on its stage and in its direction. Saved from forward to backward, or kept for a later use,
/// the whole parameter would be there all the time.
class FlatReadSeparator {
public:
  FlatReadSeparator(const SymbolTable &symbols, FuncOp func) : symbols(symbols), block(func.getBody().front()) {}

  void run() {
    findDerived();
    IRMapping mapping;
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (derived.contains(&op))
        continue;
      separate(&op, mapping);
      // What measures a parameter shares the whole with the product that comes next.
      auto accumulate = dyn_cast<AccumulateOp>(op);
      if (!accumulate || !accumulate.getMax())
        mapping.clear();
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (derived.contains(&op) && op.use_empty())
        op.erase();
  }

private:
  /// Ops that depend on parameters and constants alone, on some flat parameter among them.
  void findDerived() {
    llvm::DenseSet<Operation *> floating;
    for (Operation &op : block) {
      if (isa<AccumulateOp, WriteOp, ReturnOp>(op) ||
          !llvm::all_of(op.getOperands(), [&](Value operand) { return floating.contains(operand.getDefiningOp()); }))
        continue;
      floating.insert(&op);
      auto read = dyn_cast<ReadOp>(op);
      bool isFlat = read && !flatAxesOf(symbols.lookup(read.getSource())).empty();
      if (isFlat ||
          llvm::any_of(op.getOperands(), [&](Value operand) { return derived.contains(operand.getDefiningOp()); }))
        derived.insert(&op);
    }
  }

  void separate(Operation *user, IRMapping &mapping) {
    OpBuilder builder(user);
    for (OpOperand &operand : user->getOpOperands())
      if (derived.contains(operand.get().getDefiningOp()))
        operand.set(clone(operand.get(), user, builder, mapping));
  }

  Value clone(Value value, Operation *user, OpBuilder &builder, IRMapping &mapping) {
    if (mapping.contains(value))
      return mapping.lookup(value);
    Operation *def = value.getDefiningOp();
    for (Value operand : def->getOperands())
      if (derived.contains(operand.getDefiningOp()))
        clone(operand, user, builder, mapping);
    Operation *copy = builder.clone(*def, mapping);
    for (StringRef name : {StringRef(kBackward), StringRef(dist::kStage)}) {
      copy->removeAttr(name);
      if (Attribute attribute = user->getAttr(name))
        copy->setAttr(name, attribute);
    }
    return mapping.lookup(value);
  }

  const SymbolTable &symbols;
  Block &block;
  llvm::DenseSet<Operation *> derived;
};

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

struct Partition : hyc::impl::PartitionBase<Partition> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto func = module.lookupSymbol<FuncOp>(kMicrobatch);
    dist::MeshOp mesh = dist::MeshOp::find(module);
    if (!func || !mesh) {
      module.emitError("has no ") << (func ? "dist.mesh" : "@microbatch") << " to partition";
      return signalPassFailure();
    }
    const auto &symbols = getAnalysis<SymbolTable>();
    FlatReadSeparator(symbols, func).run();
    Block *old = &func.getBody().front();
    Block *fresh = new Block();
    func.getBody().push_back(fresh);
    Partitioner partitioner(symbols, mesh, fresh);
    for (BlockArgument argument : old->getArguments()) {
      ShardingAttr sharding = loadedSharding(mesh, cast<RankedTensorType>(argument.getType()));
      func.setArgAttr(argument.getArgNumber(), dist::kSharding, sharding);
      partitioner.define(argument, sharding,
                         fresh->addArgument(partitioner.localType(argument.getType(), sharding), argument.getLoc()));
    }
    for (Operation &op : old->without_terminator())
      if (failed(partitioner.rewrite(&op)))
        return signalPassFailure();
    OpBuilder builder = OpBuilder::atBlockEnd(fresh);
    ReturnOp::create(builder, func.getLoc(), ValueRange());
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*old)))
      op.erase();
    old->erase();
    func.setFunctionType(builder.getFunctionType(fresh->getArgumentTypes(), TypeRange()));
    localizeStates(module, partitioner);
    exchanges += partitioner.exchanges;
  }

private:
  /// What a rank loads of an input, whatever its ops ask for: its own samples, whole. Every other split of an input is
  /// cut from these, or joined from its neighbours'.
  static ShardingAttr loadedSharding(dist::MeshOp mesh, RankedTensorType type) {
    SmallVector<SmallVector<StringAttr>> dims(type.getRank());
    if (type.getRank() > 0)
      llvm::append_range(dims[0], mesh.getBatchAxes().getAxes());
    return ShardingAttr::get(mesh.getContext(), dims);
  }

  /// Params and states are declared as what one rank holds.
  void localizeStates(ModuleOp module, Partitioner &partitioner) {
    auto localize = [&](auto symbol) {
      auto sharding = symbol->template getAttrOfType<ShardingAttr>(dist::kSharding);
      RankedTensorType whole = symbol.getTensorType(), local = partitioner.localType(whole, sharding);
      if (local == whole)
        return;
      symbol.setGlobalTypeAttr(TypeAttr::get(whole));
      symbol.setTypeAttr(TypeAttr::get(local));
    };
    for (auto param : module.getOps<ParamOp>())
      localize(param);
    for (auto state : module.getOps<StateOp>())
      localize(state);
  }
};
} // namespace
