// Matching, ordering and arithmetic of collectives. Sums run in the order of world ranks.
#include "Mesh/CollectiveBoard.h"
#include "dialects/Dist/ExchangeKinds.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

//===----------------------------------------------------------------------===//
// What a start op says
//===----------------------------------------------------------------------===//

/// With everything that must agree between members.
static std::string spell(dist::ExchangeOpInterface start) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << dist::stringifyExchangeKind(start.getExchange());
  if (auto allReduce = dyn_cast<dist::AllReduceStartOp>(*start))
    stream << " " << dist::stringifyReduceKind(allReduce.getKind());
  stream << " of " << start.getOperandType() << " into " << start.getResultType();
  for (StringRef name : {"dim", "split", "concat", "distance"})
    if (auto number = start->getAttrOfType<IntegerAttr>(name))
      stream << " " << name << " " << number.getInt();
  if (auto flat = start->getAttrOfType<dist::AxisListAttr>("flat"))
    stream << " flat " << flat;
  stream << " over " << start.getExchangeGroup();
  if (!start.getCauseText().empty())
    stream << " (cause \"" << start.getCauseText() << "\")";
  return text;
}

CollectiveStart CollectiveStart::of(dist::ExchangeOpInterface op) {
  CollectiveStart start;
  start.op = op;
  start.group = op.getExchangeGroup();
  start.kind = op.getExchange();
  start.takesMaximum = op.getReduction() == dist::ReduceKind::max;
  auto number = [&](StringRef name) {
    auto attribute = op->getAttrOfType<IntegerAttr>(name);
    return attribute ? attribute.getInt() : int64_t(0);
  };
  bool hasOneDim = op->hasAttr("dim");
  start.cutDim = number(hasOneDim ? "dim" : "split");
  start.joinedDim = number(hasOneDim ? "dim" : "concat");
  start.distance = number("distance");
  start.flat = op->getAttrOfType<dist::AxisListAttr>("flat");
  llvm::append_range(start.operandShape, op.getOperandType().getShape());
  llvm::append_range(start.resultShape, op.getResultType().getShape());
  start.text = spell(op);
  return start;
}

static LogicalResult checkFlatShards(const CollectiveStart &start, int64_t flatParts) {
  bool gathers = dist::factsOf(start.kind).givesParts;
  int64_t whole = countElements(gathers ? start.resultShape : start.operandShape).value_or(-1);
  int64_t shard = (gathers ? start.operandShape : start.resultShape)[0],
          expected = dist::flatShardSize(whole, flatParts);
  if (shard == expected)
    return success();
  return start.op->emitError("has flat shards of ")
         << shard << " of " << whole << " elements, expected " << expected << " over " << start.flat;
}

/// A joined or cut dimension consists of as many shards as the group has members. In phase 5 what is both cut and
/// joined has one dimension, of which the parts are counted out.
static LogicalResult checkShards(const CollectiveStart &start, int64_t members, int64_t flatParts) {
  if (start.flat)
    return checkFlatShards(start, flatParts);
  if (start.kind == dist::ExchangeKind::shift && (start.distance < 1 || start.distance >= members))
    return start.op->emitError("shifts by ") << start.distance << " in a group of " << members;
  const dist::ExchangeFacts &facts = dist::factsOf(start.kind);
  if (facts.takesParts && facts.givesParts && start.cutDim == start.joinedDim)
    return success();
  auto check = [&](int64_t dim, int64_t whole, int64_t shard) -> LogicalResult {
    if (dist::shardSize(whole, members) == shard)
      return success();
    return start.op->emitError("dim ") << dim << " of " << whole << " has shards of " << shard << ", expected "
                                       << dist::shardSize(whole, members) << " for a group of " << members;
  };
  if (facts.takesParts &&
      failed(check(start.cutDim, start.operandShape[start.cutDim], start.resultShape[start.cutDim])))
    return failure();
  return success(!facts.givesParts || succeeded(check(start.joinedDim, start.resultShape[start.joinedDim],
                                                      start.operandShape[start.joinedDim])));
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
  if (dist::factsOf(first.kind).combines) {
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

/// Which of the parts of a tensor is the member's.
int64_t CollectiveBoard::partOf(const Collective &collective, size_t member) const {
  const CollectiveStart &start = collective.starts[member];
  return start.joinsInWorldOrder ? static_cast<int64_t>(member)
                                 : topology.getShardIndex(collective.members[member], start.group);
}

/// Gives every member its part of `total`.
void CollectiveBoard::scatter(Collective &collective, const Tensor &total) const {
  const CollectiveStart &first = collective.starts[0];
  int64_t size = first.resultShape[first.cutDim];
  for (size_t member = 0; member < collective.members.size(); ++member)
    collective.results.push_back(total.window(first.cutDim, partOf(collective, member) * size, size));
}

/// Gives `member` the parts of all members, joined; what pads the last ones is dropped.
void CollectiveBoard::join(Collective &collective, size_t member, ArrayRef<Tensor> parts) const {
  const CollectiveStart &start = collective.starts[member];
  Tensor whole(parts[0].getKind(), start.resultShape);
  SmallVector<int64_t> ones(start.resultShape.size(), 1);
  int64_t size = start.resultShape[start.joinedDim];
  for (auto [from, part] : llvm::enumerate(parts)) {
    int64_t shard = part.getDim(start.joinedDim), offset = std::min(size, partOf(collective, from) * shard);
    SmallVector<int64_t> offsets(start.resultShape.size(), 0);
    offsets[start.joinedDim] = offset;
    whole.insert(part.window(start.joinedDim, 0, std::min(shard, size - offset)), offsets, ones);
  }
  collective.results.push_back(whole);
}

void CollectiveBoard::combine(Collective &collective) const {
  const CollectiveStart &first = collective.starts[0];
  size_t count = collective.members.size();
  if (first.flat)
    return combineFlat(collective);
  switch (first.kind) {
  case dist::ExchangeKind::all_reduce:
    collective.results.assign(count, combineAll(collective.operands, first.takesMaximum));
    return;
  case dist::ExchangeKind::reduce_scatter:
    return scatter(collective, combineAll(collective.operands, /*isMax=*/false));
  case dist::ExchangeKind::all_gather:
    join(collective, 0, collective.operands);
    collective.results.resize(count, collective.results[0]);
    return;
  case dist::ExchangeKind::all_to_all:
    for (size_t member = 0; member < count; ++member) {
      int64_t size = static_cast<int64_t>(count), dim = first.cutDim;
      // In phase 5 the operand is the parts, one after the other, and so is the result.
      size = dim == first.joinedDim ? first.operandShape[dim] / size : first.resultShape[dim];
      SmallVector<Tensor> parts;
      for (const Tensor &operand : collective.operands)
        parts.push_back(operand.window(dim, partOf(collective, member) * size, size));
      join(collective, member, parts);
    }
    return;
  case dist::ExchangeKind::shift:
    for (size_t member = 0; member < count; ++member)
      collective.results.push_back(collective.operands[(member + count - static_cast<size_t>(first.distance)) % count]);
    return;
  }
}
