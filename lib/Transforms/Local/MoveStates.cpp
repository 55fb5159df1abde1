// Makes every move of a state between places explicit.
//
// An update runs on the host as soon as one of its states is kept there or on a disk, and so does what refreshes the
// parameter's copy in the compute type after it; a read runs on the device. A GPU's kernels reach the host's memory, so
// that there an update takes its states where they are, but for those on a disk, which come to the host's memory. What
// an op needs and is kept elsewhere is fetched before it; what an update has changed is written back after it. States
// on a disk stream: while one group of updates runs, the next group's states are on their way in and the last one's on
// their way out. Copies between memories are made where they are needed; hyc-overlap-moves starts them earlier where
// the plan says so.
//
// An update of several ops, such as LAMB's, is moved for op by op: what the first has used on the host and the next one
// finds on the device has to be back there in between.
//
// The surprise: of a state on a disk always all is moved that a rank keeps. Only memory is cut at any element.
#include "Exchanges.h"
#include "Moves.h"
#include "dialects/Dist/Placement.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/FlatStates.h"
#include "hyc/Analysis/Workspaces.h"
#include "hyc/Plan/Policies.h"
#include "hyc/Transforms/Local/Passes.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

namespace hyc {
#define GEN_PASS_DEF_MOVESTATES
#include "hyc/Transforms/Local/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;
using dist::AxisListAttr;

namespace {

/// One state that one op works on.
struct Need {
  Operation *user;
  FlatSymbolRefAttr name;
  Operation *state;
  bool written;

  StringRef place() const { return dist::placementOf(state); }
  bool isOnDevice() const { return place() == dist::kOnDevice; }
  bool isOnDisk() const { return place() == dist::kOnDisk; }
  RankedTensorType type() const { return cast<RankedTensorType>(state->getAttrOfType<TypeAttr>("type").getValue()); }
  /// Axes of the shard of a whole state that is all that is moved; null where all is.
  AxisListAttr flat() const {
    auto axes = user->getAttrOfType<AxisListAttr>(dist::kFlat);
    return axes && isa<UpdateOpInterface, RefreshOp>(user) && isOnDevice() && flatAxesOf(state).empty()
               ? axes
               : AxisListAttr();
  }
};

using Needs = SmallVector<Need, 4>;

/// Updates whose states are fetched and written back together.
struct Group {
  Operation *first = nullptr, *last = nullptr;
  Needs needs;
  int64_t elements = 0;

  template <typename Keep> Needs filtered(Keep keep) const {
    Needs kept;
    llvm::copy_if(needs, std::back_inserter(kept), keep);
    return kept;
  }
  /// Whether its last op is the update of this parameter.
  bool updates(const Need &param) const {
    auto update = dyn_cast<UpdateOpInterface>(last);
    return update && update.getParamAttr() == param.name;
  }
  bool worksOn(const Need &other) const {
    return llvm::any_of(needs, [&](const Need &need) { return need.name == other.name; });
  }
};

enum class Direction { Fetch, Evict };

/// How states move, as the module says.
struct MovePolicies {
  int64_t subGroup; ///< elements of parameters whose states move together
  bool readAhead, writeBehind;
  bool isForGpu; ///< what is on the device and what is on the host need not be in one place

  bool movesForUpdate(const Need &need) const { return need.isOnDisk() || (need.isOnDevice() && !isForGpu); }
  bool areInPlace(ArrayRef<Need> needs) const {
    return llvm::all_of(needs, [&](const Need &need) { return isForGpu ? !need.isOnDisk() : need.isOnDevice(); });
  }
};

class FunctionMover {
public:
  FunctionMover(FuncOp func, const SymbolTable &symbols, const MovePolicies &policies)
      : func(func), symbols(symbols), policies(policies), builder(func),
        mesh(dist::MeshOp::find(func->getParentOfType<ModuleOp>())) {}

  void run() {
    moveUpdates();
    moveSums();
    moveAccumulations();
    moveWrites();
    moveReads();
  }
  int64_t moves = 0;

private:
  Needs needsOf(Operation *op) const;
  SmallVector<Group> groupUpdates();
  void moveUpdates();
  void moveSums();
  void moveAccumulations();
  void moveWrites();
  void separateReads();
  void moveReads();
  SmallVector<Value> start(Direction direction, StringRef place, ArrayRef<Need> needs);
  void wait(ArrayRef<Value> tokens, Location loc);

  FuncOp func;
  const SymbolTable &symbols;
  const MovePolicies &policies;
  OpBuilder builder;
  dist::MeshOp mesh;
  llvm::DenseSet<Operation *> served; ///< reads that find what they need
};

Needs FunctionMover::needsOf(Operation *op) const {
  Needs needs;
  auto add = [&](FlatSymbolRefAttr name, bool written) {
    needs.push_back({op, name, symbols.lookup(name.getAttr()), written});
  };
  if (auto update = dyn_cast<UpdateOpInterface>(op)) {
    for (auto [index, name] : llvm::enumerate(update.getSymbols()))
      add(name, index == 0 ? update.changesParam() : index == 1 ? update.changesGradient() : true);
  } else if (auto refresh = dyn_cast<RefreshOp>(op)) {
    add(refresh.getParamAttr(), false);
    add(refresh.getCopyAttr(), true);
  } else if (auto squares = dyn_cast<SumOfSquaresOp>(op)) {
    for (auto name : squares.getStates().getAsRange<FlatSymbolRefAttr>())
      add(name, false);
  } else if (auto read = dyn_cast<ReadOp>(op)) {
    add(read.getSourceAttr(), false);
  } else if (auto write = dyn_cast<WriteOp>(op)) {
    add(write.getTargetAttr(), true);
  } else if (auto accumulate = dyn_cast<AccumulateOp>(op)) {
    add(accumulate.getTargetAttr(), true);
  }
  return needs;
}

/// "w.update" for an update of @w, "w" for a read of it.
static std::string causeOf(const Need &need) {
  if (auto param = need.user->getAttrOfType<FlatSymbolRefAttr>("param"))
    return (param.getValue() + ".update").str();
  return need.name.getValue().str();
}

SmallVector<Value> FunctionMover::start(Direction direction, StringRef place, ArrayRef<Need> needs) {
  SmallVector<Value> tokens;
  for (const Need &need : needs) {
    AxisListAttr flat = need.flat();
    auto pending =
        dist::PendingType::get(func.getContext(), flat ? local::flatShardType(need.type(), flat, mesh) : need.type());
    StringAttr where = builder.getStringAttr(place), cause = builder.getStringAttr(causeOf(need));
    Location loc = need.user->getLoc();
    tokens.push_back(
        direction == Direction::Fetch
            ? dist::FetchStartOp::create(builder, loc, pending, need.name, where, flat, cause).getPending()
            : dist::EvictStartOp::create(builder, loc, pending, need.name, where, flat, cause).getPending());
    ++moves;
  }
  return tokens;
}

void FunctionMover::wait(ArrayRef<Value> tokens, Location loc) {
  for (Value token : tokens)
    dist::WaitMoveOp::create(builder, loc, token);
}

//===----------------------------------------------------------------------===//
// Updates
//===----------------------------------------------------------------------===//

SmallVector<Group> FunctionMover::groupUpdates() {
  SmallVector<Group> groups;
  for (Operation &op : func.getBody().front()) {
    if (!isa<UpdateOpInterface, RefreshOp>(op))
      continue;
    Needs needs = needsOf(&op);
    bool isNeighbour = !groups.empty() && groups.back().last->getNextNode() == &op;
    auto isThere = [&](const Need &need) { return isNeighbour && groups.back().worksOn(need); };
    // A copy is refreshed where its master has been updated, in the same group.
    bool follows = isa<RefreshOp>(op) && isNeighbour && groups.back().updates(needs.front());
    if (!follows && policies.areInPlace(needs))
      continue;
    // Only neighbours make a group: what stands between them may use the states.
    if (!follows && (!isNeighbour || groups.back().elements >= policies.subGroup || llvm::any_of(needs, isThere)))
      groups.emplace_back().first = &op;
    Group &group = groups.back();
    group.last = &op;
    group.elements += follows ? 0 : needs.front().type().getNumElements();
    for (const Need &need : needs)
      if (policies.movesForUpdate(need) && !(follows && group.worksOn(need)))
        group.needs.push_back(need);
  }
  return groups;
}

/// What the group finds on the disk is read ahead; what it finds on the device is copied when it runs.
void FunctionMover::moveUpdates() {
  SmallVector<Group> groups = groupUpdates();
  llvm::DenseMap<Attribute, Operation *> lastUses;
  for (Operation &op : func.getBody().front())
    for (const Need &need : needsOf(&op))
      lastUses[need.name] = &op;
  auto onDevice = [](const Need &need) { return need.isOnDevice(); };
  auto writtenToDisk = [](const Need &need) { return need.written && need.isOnDisk(); };
  SmallVector<Value> readAhead, writtenBehind;
  for (size_t i = 0; i < groups.size(); ++i) {
    Group &group = groups[i];
    Location loc = group.first->getLoc();
    builder.setInsertionPoint(group.first);
    bool isAhead = i > 0 && policies.readAhead;
    // What the last group also works on is only read once that one is done with it.
    auto isShared = [&](const Need &need) { return i > 0 && groups[i - 1].worksOn(need); };
    if (i > 0 && llvm::any_of(groups[i - 1].needs, [&](const Need &need) {
          return need.written && need.isOnDisk() && group.worksOn(need);
        })) {
      wait(writtenBehind, loc);
      writtenBehind.clear();
    }
    SmallVector<Value> reads = std::move(readAhead);
    readAhead.clear();
    llvm::append_range(reads, start(Direction::Fetch, dist::kOnHost, group.filtered([&](const Need &need) {
                         return need.isOnDisk() && (!isAhead || isShared(need));
                       })));
    // The next group's disk reads begin before this one waits, so that the disk is never idle.
    if (policies.readAhead && i + 1 < groups.size())
      readAhead =
          start(Direction::Fetch, dist::kOnHost,
                groups[i + 1].filtered([&](const Need &need) { return need.isOnDisk() && !group.worksOn(need); }));
    wait(start(Direction::Fetch, dist::kOnHost, group.filtered(onDevice)), loc);
    wait(reads, loc);
    builder.setInsertionPointAfter(group.last);
    // A copy stands for the state until it is written back: whoever uses the state later finds it on the device.
    wait(start(Direction::Evict, dist::kOnHost, group.filtered([&](const Need &need) {
           return need.isOnDevice() && (need.written || group.last->isBeforeInBlock(lastUses.lookup(need.name)));
         })),
         loc);
    wait(writtenBehind, loc);
    writtenBehind = start(Direction::Evict, dist::kOnHost, group.filtered(writtenToDisk));
    if (!policies.writeBehind) {
      wait(writtenBehind, loc);
      writtenBehind.clear();
    }
  }
  if (writtenBehind.empty())
    return;
  // The last states are on their way while parameters are gathered; what is gathered from a disk has to be back there.
  Operation *end = groups.back().last;
  while (!isa<ReturnOp, ReadOp, WriteOp>(end))
    end = end->getNextNode();
  bool gathersNothing =
      isa<ReturnOp>(end) || llvm::none_of(func.getBody().front().getOps<WriteOp>(),
                                          [&](WriteOp write) { return needsOf(write).front().isOnDisk(); });
  builder.setInsertionPoint(gathersNothing ? func.getReturn().getOperation() : end);
  wait(writtenBehind, func.getLoc());
}

/// Norms between the parts of an update, such as LAMB's, are taken on the host, where the update itself runs, of what
/// lies there or on a disk.
void FunctionMover::moveSums() {
  for (auto squares : func.getBody().front().getOps<SumOfSquaresOp>()) {
    Needs needs = needsOf(squares);
    llvm::erase_if(needs, [](const Need &need) { return !need.isOnDisk(); });
    builder.setInsertionPoint(squares);
    wait(start(Direction::Fetch, dist::kOnHost, needs), squares.getLoc());
  }
}

//===----------------------------------------------------------------------===//
// Writes of what was gathered
//===----------------------------------------------------------------------===//

/// A parameter that is kept whole elsewhere is gathered on the device, one at a time: all of it is fetched, joined
/// where it lies, and written back. So are the sums of gradients.
void FunctionMover::moveWrites() {
  for (auto write : llvm::to_vector(func.getBody().front().getOps<WriteOp>())) {
    Need need = needsOf(write).front();
    if (need.isOnDevice())
      continue;
    Operation *first = write;
    Value value = write.getValue();
    while (auto convert = value.getDefiningOp<ConvertOp>())
      value = convert.getOperand();
    auto wait = value.getDefiningOp<dist::WaitOp>();
    Operation *exchange = wait ? wait.getPending().getDefiningOp() : nullptr;
    Value term = exchange ? exchange->getOperand(0) : Value();
    SmallVector<Operation *> before; // what the exchange needs, last first
    while (auto convert = term ? term.getDefiningOp<ConvertOp>() : ConvertOp()) {
      before.push_back(convert);
      term = convert.getOperand();
    }
    if (auto read = term ? term.getDefiningOp<ReadOp>() : ReadOp(); read && read.getSource() == write.getTarget()) {
      before.push_back(read);
      for (Operation *op : llvm::reverse(before))
        op->moveBefore(wait);
      exchange->moveBefore(wait);
      first = read;
      served.insert(read);
    }
    builder.setInsertionPoint(first);
    this->wait(start(Direction::Fetch, dist::kOnDevice, need), write.getLoc());
    builder.setInsertionPointAfter(write);
    this->wait(start(Direction::Evict, dist::kOnDevice, need), write.getLoc());
  }
}

//===----------------------------------------------------------------------===//
// Accumulation
//===----------------------------------------------------------------------===//

/// The op that may write its result into the state at once: an accumulation adds up in the order in which its producer
/// does where that has no other user, and in no other where the state is elsewhere.
static Operation *producerOf(AccumulateOp accumulate) {
  Value value = accumulate.getValue();
  Operation *first = accumulate;
  while (value.hasOneUse() && value.getDefiningOp() && isa<HycDialect>(value.getDefiningOp()->getDialect())) {
    first = value.getDefiningOp();
    if (!isa<ReshapeOp>(first))
      break;
    value = first->getOperand(0);
  }
  return first;
}

/// From where on the accumulation needs the state: from its producer, but for what else uses or moves the state between
/// the two.
static Operation *needsStateFrom(AccumulateOp accumulate) {
  Operation *producer = producerOf(accumulate), *place = accumulate;
  auto isOther = [&](Operation *op) {
    auto earlier = dyn_cast<AccumulateOp>(op);
    return local::touchesState(op, accumulate.getTargetAttr()) &&
           !(earlier && earlier.getTarget() == accumulate.getTarget());
  };
  while (place != producer && !isOther(place->getPrevNode()))
    place = place->getPrevNode();
  return place;
}

/// Accumulations into one state that share a copy of it: one of them was delayed behind another's producer, and a fetch
/// between the two would replace the copy by one that lacks what was added to it.
struct CopySpan {
  Operation *first;  ///< that needs the copy
  AccumulateOp last; ///< after which it is written back
};

static SmallVector<CopySpan> findCopySpans(ArrayRef<AccumulateOp> accumulations) {
  SmallVector<CopySpan> spans;
  llvm::DenseMap<Attribute, size_t> latest; // by state
  for (AccumulateOp accumulate : accumulations) {
    Operation *first = needsStateFrom(accumulate);
    auto [entry, isNew] = latest.try_emplace(accumulate.getTargetAttr(), spans.size());
    CopySpan *before = isNew ? nullptr : &spans[entry->second];
    if (before && first->isBeforeInBlock(before->last)) {
      before->first = first->isBeforeInBlock(before->first) ? first : before->first;
      before->last = accumulate;
    } else {
      entry->second = spans.size();
      spans.push_back({first, accumulate});
    }
  }
  return spans;
}

/// A gradient that is kept elsewhere is on the device while it is added to: fetched, added to where it lies, and
/// written back. So the sum has the bits of one that stays.
void FunctionMover::moveAccumulations() {
  SmallVector<AccumulateOp> accumulations;
  llvm::copy_if(func.getBody().front().getOps<AccumulateOp>(), std::back_inserter(accumulations),
                [&](AccumulateOp accumulate) { return !needsOf(accumulate).front().isOnDevice(); });
  for (const CopySpan &span : findCopySpans(accumulations)) {
    Operation *accumulate = span.last;
    Need need = needsOf(accumulate).front();
    builder.setInsertionPoint(span.first);
    wait(start(Direction::Fetch, dist::kOnDevice, need), accumulate->getLoc());
    builder.setInsertionPointAfter(accumulate);
    wait(start(Direction::Evict, dist::kOnDevice, need), accumulate->getLoc());
  }
}

//===----------------------------------------------------------------------===//
// Reads
//===----------------------------------------------------------------------===//

/// Gives every op that uses a parameter from elsewhere a read of its own right before it: a copy that waits for a later
/// use would be there all the time.
void FunctionMover::separateReads() {
  Block &block = func.getBody().front();
  for (auto read : llvm::to_vector(block.getOps<ReadOp>())) {
    if (needsOf(read).front().isOnDevice() || served.contains(read) || read->use_empty())
      continue;
    llvm::MapVector<Operation *, Operation *> readOf; // by user
    for (OpOperand &use : llvm::make_early_inc_range(read->getUses())) {
      Operation *user = block.findAncestorOpInBlock(*use.getOwner());
      Operation *&own = readOf[user];
      if (!own)
        own = OpBuilder(user).clone(*read);
      use.set(own->getResult(0));
    }
    read->erase();
  }
}

/// What computes, computes on the device. The next read from a disk is begun before this one is waited for.
void FunctionMover::moveReads() {
  separateReads();
  Needs reads;
  for (auto read : func.getBody().front().getOps<ReadOp>())
    if (Need need = needsOf(read).front(); !need.isOnDevice() && !served.contains(read))
      reads.push_back(need);
  SmallVector<Value> readAhead;
  for (size_t i = 0; i < reads.size(); ++i) {
    builder.setInsertionPoint(reads[i].user);
    SmallVector<Value> now =
        readAhead.empty() ? start(Direction::Fetch, dist::kOnDevice, reads[i]) : std::move(readAhead);
    readAhead.clear();
    if (policies.readAhead && i + 1 < reads.size() && reads[i + 1].isOnDisk() && reads[i + 1].name != reads[i].name)
      readAhead = start(Direction::Fetch, dist::kOnDevice, reads[i + 1]);
    wait(now, reads[i].user->getLoc());
  }
}

struct MoveStates : hyc::impl::MoveStatesBase<MoveStates> {
  using MoveStatesBase::MoveStatesBase;

  void runOnOperation() override {
    FailureOr<int64_t> subGroup = policyOf<&Plan::subGroup>(getOperation());
    FailureOr<bool> readAhead = policyOf<&Plan::readAhead>(getOperation()),
                    writeBehind = policyOf<&Plan::writeBehind>(getOperation());
    if (failed(subGroup) || failed(readAhead) || failed(writeBehind))
      return signalPassFailure();
    const MovePolicies policies{*subGroup, *readAhead, *writeBehind, getOperation()->hasAttr(kTargetAttribute)};
    const auto &symbols = getAnalysis<SymbolTable>();
    for (auto func : llvm::to_vector(getOperation().getOps<FuncOp>())) {
      FunctionMover mover(func, symbols, policies);
      mover.run();
      moves += mover.moves;
    }
  }
};
} // namespace
