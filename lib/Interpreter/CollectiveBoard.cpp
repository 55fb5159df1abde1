// Matching, ordering and arithmetic of collectives. Sums run in the order of world ranks.
#include "CollectiveBoard.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

//===----------------------------------------------------------------------===//
// What a start op says
//===----------------------------------------------------------------------===//

static std::string spell(Operation *start, Type result) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  StringRef name = start->getName().stripDialect();
  name.consume_back("_start");
  stream << name;
  if (auto allReduce = dyn_cast<dist::AllReduceStartOp>(start))
    stream << " " << dist::stringifyReduceKind(allReduce.getKind());
  stream << " of " << start->getOperand(0).getType() << " into " << result;
  if (auto dim = start->getAttrOfType<IntegerAttr>("dim"))
    stream << " dim " << dim.getInt();
  if (auto flat = start->getAttrOfType<dist::AxisListAttr>("flat"))
    stream << " flat " << flat;
  stream << " over " << start->getAttr("group");
  if (auto cause = start->getAttrOfType<StringAttr>("cause"))
    stream << " (cause \"" << cause.getValue() << "\")";
  return text;
}

CollectiveStart CollectiveStart::of(Operation *op) {
  CollectiveStart start;
  start.op = op;
  start.group = op->getAttrOfType<dist::GroupAttr>("group");
  start.kind = isa<dist::AllReduceStartOp>(op)   ? Kind::AllReduce
               : isa<dist::AllGatherStartOp>(op) ? Kind::AllGather
                                                 : Kind::ReduceScatter;
  if (auto allReduce = dyn_cast<dist::AllReduceStartOp>(op))
    start.takesMaximum = allReduce.getKind() == dist::ReduceKind::max;
  if (auto dim = op->getAttrOfType<IntegerAttr>("dim"))
    start.dim = dim.getInt();
  start.flat = op->getAttrOfType<dist::AxisListAttr>("flat");
  RankedTensorType result = cast<dist::PendingType>(op->getResult(0).getType()).getTensor();
  llvm::append_range(start.operandShape, cast<RankedTensorType>(op->getOperand(0).getType()).getShape());
  llvm::append_range(start.resultShape, result.getShape());
  start.text = spell(op, result);
  return start;
}

/// A gathered or scattered dimension is cut into as many shards as the group has members.
static LogicalResult checkShards(const CollectiveStart &start, int64_t members, int64_t flatParts) {
  if (start.kind == CollectiveStart::Kind::AllReduce)
    return success();
  if (start.flat) {
    bool gathers = start.kind == CollectiveStart::Kind::AllGather;
    int64_t whole = countElements(gathers ? start.resultShape : start.operandShape).value_or(-1);
    int64_t shard = (gathers ? start.operandShape : start.resultShape)[0],
            expected = dist::flatShardSize(whole, flatParts);
    if (shard == expected)
      return success();
    return start.op->emitError("has flat shards of ")
           << shard << " of " << whole << " elements, expected " << expected << " over " << start.flat;
  }
  bool gathers = start.kind == CollectiveStart::Kind::AllGather;
  int64_t whole = (gathers ? start.resultShape : start.operandShape)[start.dim];
  int64_t shard = (gathers ? start.operandShape : start.resultShape)[start.dim];
  if (dist::shardSize(whole, members) == shard)
    return success();
  return start.op->emitError("dim ") << start.dim << " of " << whole << " has shards of " << shard << ", expected "
                                     << dist::shardSize(whole, members) << " for a group of " << members;
}

//===----------------------------------------------------------------------===//
// Meeting
//===----------------------------------------------------------------------===//

FailureOr<std::shared_ptr<Collective>> CollectiveBoard::start(int64_t worldRank, const CollectiveStart &start,
                                                              const Tensor &operand) {
  SmallVector<int64_t> found = topology.getMembers(worldRank, start.group);
  std::vector<int64_t> members(found.begin(), found.end());
  if (!llvm::is_contained(members, worldRank))
    return start.op->emitError(topology.describe(worldRank) + " is no member of the group of its own " + start.text),
           failure();
  int64_t flatParts = start.flat ? topology.getPosition(worldRank, start.flat).size : 1;
  if (failed(checkShards(start, static_cast<int64_t>(members.size()), flatParts)))
    return failure();
  Group &group = groups[members];
  size_t position = group.started[worldRank]++;
  if (position == group.meetings.size()) {
    auto fresh = std::make_shared<Collective>();
    fresh->members = members;
    fresh->starts.resize(members.size());
    fresh->operands.resize(members.size());
    group.meetings.push_back(fresh);
  }
  std::shared_ptr<Collective> collective = group.meetings[position];
  for (auto [index, other] : llvm::enumerate(collective->starts))
    if (other.op && other.text != start.text) {
      auto error = start.op->emitError(topology.describe(worldRank)) << " starts " << start.text;
      error.attachNote(other.op->getLoc()) << "but as number " << position << " of the same group "
                                           << topology.describe(members[index]) << " started " << other.text;
      return failure();
    }
  size_t index = collective->indexOf(worldRank);
  collective->starts[index] = start;
  collective->operands[index] = operand;
  queues[worldRank].push_back(collective);
  completeWhatCan();
  return collective;
}

bool CollectiveBoard::isReady(const Collective &collective) const {
  for (auto [member, start] : llvm::zip_equal(collective.members, collective.starts))
    if (!start.op || queues[member].front().get() != &collective)
      return false;
  return true;
}

void CollectiveBoard::completeWhatCan() {
  for (bool progress = true; progress;) {
    progress = false;
    for (auto &queue : queues) {
      if (queue.empty() || !isReady(*queue.front()))
        continue;
      std::shared_ptr<Collective> collective = queue.front();
      combine(*collective);
      collective->isDone = true;
      collective->operands.clear();
      for (int64_t member : collective->members)
        queues[member].pop_front();
      progress = true;
    }
  }
}

std::string CollectiveBoard::describeWait(int64_t worldRank, const Collective &collective) const {
  std::string text = collective.starts[collective.indexOf(worldRank)].text;
  for (auto [member, start] : llvm::zip_equal(collective.members, collective.starts))
    if (!start.op)
      return text + ", which " + topology.describe(member) + " has not started";
  for (int64_t member : collective.members)
    if (const Collective *older = getUnfinished(member); older != &collective)
      return text + ", which " + topology.describe(member) + " has queued behind its " +
             older->starts[older->indexOf(member)].text;
  return text;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

static void combineInto(Tensor &total, const Tensor &term, bool isMax) {
  ElementKind kind = total.getKind();
  dispatchStorage(kind, [&](auto zero) {
    using T = decltype(zero);
    T *sum = total.mutableData<T>();
    const T *x = term.data<T>();
    for (int64_t i = 0, e = total.getNumElements(); i < e; ++i) {
      if (isMax)
        sum[i] = x[i] > sum[i] || x[i] != x[i] ? x[i] : sum[i];
      else if constexpr (std::is_integral_v<T>)
        sum[i] = wrapInteger(kind, static_cast<T>(static_cast<uint64_t>(sum[i]) + static_cast<uint64_t>(x[i])));
      else
        sum[i] += x[i];
    }
  });
}

static Tensor combineAll(ArrayRef<Tensor> operands, bool isMax) {
  Tensor total = operands[0];
  for (const Tensor &term : operands.drop_front())
    combineInto(total, term, isMax);
  total.roundElements(); // terms of 16 bits are added in f32
  return total;
}

/// Every member has the flat shard of its coordinate; members of equal coordinate have equal ones.
void CollectiveBoard::combineFlat(Collective &collective) const {
  const CollectiveStart &first = collective.starts[0];
  if (first.kind == CollectiveStart::Kind::ReduceScatter) {
    Tensor total = combineAll(collective.operands, /*isMax=*/false);
    total = total.reshaped({total.getNumElements()});
    int64_t size = first.resultShape[0];
    for (int64_t member : collective.members) {
      int64_t begin = topology.getPosition(member, first.flat).coordinate * size;
      collective.results.push_back(total.window(0, std::min(begin, total.getNumElements()), size));
    }
    return;
  }
  int64_t elements = *countElements(first.resultShape), size = first.operandShape[0];
  Tensor whole(collective.operands[0].getKind(), {elements});
  for (auto [operand, member] : llvm::zip_equal(collective.operands, collective.members)) {
    int64_t begin = std::min(elements, topology.getPosition(member, first.flat).coordinate * size);
    if (int64_t count = std::min(size, elements - begin); count > 0)
      whole.insert(operand.window(0, 0, count), {begin}, {1});
  }
  collective.results.assign(collective.members.size(), whole.reshaped(first.resultShape));
}

void CollectiveBoard::combine(Collective &collective) const {
  const CollectiveStart &first = collective.starts[0];
  size_t count = collective.members.size();
  if (first.kind == CollectiveStart::Kind::AllReduce) {
    collective.results.assign(count, combineAll(collective.operands, first.takesMaximum));
    return;
  }
  if (first.flat)
    return combineFlat(collective);
  const int64_t dim = first.dim;
  SmallVector<int64_t> shardIndices;
  for (auto [index, member] : llvm::enumerate(collective.members))
    shardIndices.push_back(first.joinsInWorldOrder ? static_cast<int64_t>(index)
                                                   : topology.getShardIndex(member, collective.starts[index].group));
  if (first.kind == CollectiveStart::Kind::ReduceScatter) {
    Tensor total = combineAll(collective.operands, /*isMax=*/false);
    for (int64_t index : shardIndices)
      collective.results.push_back(total.window(dim, index * first.resultShape[dim], first.resultShape[dim]));
    return;
  }
  Tensor whole(collective.operands[0].getKind(), first.resultShape);
  SmallVector<int64_t> ones(first.resultShape.size(), 1);
  for (auto [operand, index] : llvm::zip_equal(collective.operands, shardIndices)) {
    int64_t shard = operand.getDim(dim), offset = std::min(first.resultShape[dim], index * shard);
    SmallVector<int64_t> offsets(first.resultShape.size(), 0);
    offsets[dim] = offset;
    whole.insert(operand.window(dim, 0, std::min(shard, first.resultShape[dim] - offset)), offsets, ones);
  }
  collective.results.assign(count, whole);
}
