// Matching, ordering and arithmetic of collectives. Sums run in the order of world ranks.
#include "CollectiveBoard.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

//===----------------------------------------------------------------------===//
// What a start op says
//===----------------------------------------------------------------------===//

static dist::GroupAttr groupOf(Operation *start) { return start->getAttrOfType<dist::GroupAttr>("group"); }

static Type resultOf(Operation *start) { return cast<dist::PendingType>(start->getResult(0).getType()).getTensor(); }

std::string hyc::interpreter::describeCollective(Operation *start) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  StringRef name = start->getName().stripDialect();
  name.consume_back("_start");
  stream << name;
  if (auto allReduce = dyn_cast<dist::AllReduceStartOp>(start))
    stream << " " << dist::stringifyReduceKind(allReduce.getKind());
  stream << " of " << start->getOperand(0).getType() << " into " << resultOf(start);
  if (auto dim = start->getAttrOfType<IntegerAttr>("dim"))
    stream << " dim " << dim.getInt();
  stream << " over " << groupOf(start);
  if (auto cause = start->getAttrOfType<StringAttr>("cause"))
    stream << " (cause \"" << cause.getValue() << "\")";
  return text;
}

/// Whether two members mean the same exchange.
static bool agree(Operation *a, Operation *b) {
  for (StringRef attribute : {"kind", "dim", "cause"})
    if (a->getAttr(attribute) != b->getAttr(attribute))
      return false;
  return a->getName() == b->getName() && a->getOperand(0).getType() == b->getOperand(0).getType() &&
         resultOf(a) == resultOf(b);
}

/// A gathered or scattered dimension is cut into as many shards as the group has members.
static LogicalResult checkShards(Operation *op, int64_t members) {
  if (isa<dist::AllReduceStartOp>(op))
    return success();
  auto operand = cast<RankedTensorType>(op->getOperand(0).getType()), result = cast<RankedTensorType>(resultOf(op));
  int64_t dim = op->getAttrOfType<IntegerAttr>("dim").getInt();
  bool gathers = isa<dist::AllGatherStartOp>(op);
  int64_t whole = (gathers ? result : operand).getDimSize(dim), shard = (gathers ? operand : result).getDimSize(dim);
  if (dist::shardSize(whole, members) == shard)
    return success();
  return op->emitError("dim ") << dim << " of " << whole << " has shards of " << shard << ", expected "
                               << dist::shardSize(whole, members) << " for a group of " << members;
}

//===----------------------------------------------------------------------===//
// Meeting
//===----------------------------------------------------------------------===//

FailureOr<std::shared_ptr<Collective>> CollectiveBoard::start(int64_t worldRank, Operation *op, const Tensor &operand) {
  SmallVector<int64_t> found = topology.getMembers(worldRank, groupOf(op));
  std::vector<int64_t> members(found.begin(), found.end());
  if (!llvm::is_contained(members, worldRank))
    return op->emitError(topology.describe(worldRank) + " is no member of the group of its own " + describeCollective(op)),
           failure();
  if (failed(checkShards(op, static_cast<int64_t>(members.size()))))
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
    if (other && !agree(op, other)) {
      auto error = op->emitError(topology.describe(worldRank)) << " starts " << describeCollective(op);
      error.attachNote(other->getLoc()) << "but as number " << position << " of the same group "
                                        << topology.describe(members[index]) << " started " << describeCollective(other);
      return failure();
    }
  size_t index = collective->indexOf(worldRank);
  collective->starts[index] = op;
  collective->operands[index] = operand;
  queues[worldRank].push_back(collective);
  completeWhatCan();
  return collective;
}

bool CollectiveBoard::isReady(const Collective &collective) const {
  for (auto [member, start] : llvm::zip_equal(collective.members, collective.starts))
    if (!start || queues[member].front().get() != &collective)
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
  std::string text = describeCollective(collective.starts[collective.indexOf(worldRank)]);
  for (auto [member, start] : llvm::zip_equal(collective.members, collective.starts))
    if (!start)
      return text + ", which " + topology.describe(member) + " has not started";
  for (int64_t member : collective.members)
    if (const Collective *older = getUnfinished(member); older != &collective)
      return text + ", which " + topology.describe(member) + " has queued behind its " +
             describeCollective(older->starts[older->indexOf(member)]);
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
  return total;
}

void CollectiveBoard::combine(Collective &collective) const {
  Operation *first = collective.starts[0];
  size_t count = collective.members.size();
  if (auto allReduce = dyn_cast<dist::AllReduceStartOp>(first)) {
    collective.results.assign(count, combineAll(collective.operands, allReduce.getKind() == dist::ReduceKind::max));
    return;
  }
  int64_t dim = first->getAttrOfType<IntegerAttr>("dim").getInt();
  ArrayRef<int64_t> resultShape = cast<RankedTensorType>(resultOf(first)).getShape();
  SmallVector<int64_t> shardIndices;
  for (auto [member, start] : llvm::zip_equal(collective.members, collective.starts))
    shardIndices.push_back(topology.getShardIndex(member, groupOf(start)));
  if (isa<dist::ReduceScatterStartOp>(first)) {
    Tensor total = combineAll(collective.operands, /*isMax=*/false);
    for (int64_t index : shardIndices)
      collective.results.push_back(total.window(dim, index * resultShape[dim], resultShape[dim]));
    return;
  }
  Tensor whole(collective.operands[0].getKind(), resultShape);
  SmallVector<int64_t> ones(resultShape.size(), 1);
  for (auto [operand, index] : llvm::zip_equal(collective.operands, shardIndices)) {
    int64_t shard = operand.getDim(dim), offset = std::min(resultShape[dim], index * shard);
    SmallVector<int64_t> offsets(resultShape.size(), 0);
    offsets[dim] = offset;
    whole.insert(operand.window(dim, 0, std::min(shard, resultShape[dim] - offset)), offsets, ones);
  }
  collective.results.assign(count, whole);
}
