// Lets updates of states in the host's memory pass through windows of the device's, in programs for GPUs.
//
// A kernel reaches the host's memory, at a third of the rate of copies. So what an update works on there is copied to a
// window in front of it and what it changes is copied back behind it: while one window's kernels run the next one is
// filled and the last one emptied, each by the engine of its direction. An update is cut where a window is full, which
// no bit shows: element i of what it gives follows from element i of what it takes.
//
// The surprise: the windows take no memory that forward and backward have not had. They are temporaries of the arena
// of activations, none of which is alive while states are updated.
#include "FunctionLowering.h"
#include "dialects/Rank/Moves.h"
#include "hyc/Analysis/KernelCall.h"
#include "hyc/Analysis/Workspaces.h"
#include "hyc/Plan/Policies.h"
#include "hyc/Transforms/Rank/Passes.h"

namespace hyc {
#define GEN_PASS_DEF_STREAMUPDATES
#include "hyc/Transforms/Rank/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

/// What a window's begin and length are multiples of, in elements: what is behind it begins as well aligned as it does.
constexpr int64_t kPieceElements = 1024;
/// What is smaller than this part of a window stays where it is: starting its copies would cost as much as they save.
constexpr int64_t kLeastPart = 512;

/// What calls work on in the host's memory, as the first of them names it.
struct Staged {
  Value buffer;
  bool isRead = false, isWritten = false;
};

/// An update, with the rounding of what it has updated: calls over the same elements.
struct Unit {
  SmallVector<rank::CallOp, 2> calls;
  SmallVector<Staged, 4> staged;
  int64_t elements = 0;
  bool isCut = true; ///< it may be; how many elements of a shard there are is known at run time alone

  int64_t bytesPerElement() const {
    int64_t bytes = 0;
    for (const Staged &each : staged)
      bytes += cast<rank::BufferType>(each.buffer.getType()).getElementBytes();
    return bytes;
  }
};

/// Elements of a unit that are in one window, and where each of what it has staged is there.
struct Piece {
  const Unit *unit;
  int64_t begin, count;
  SmallVector<Value, 4> windows;

  bool isWhole() const { return begin == 0 && count == unit->elements; }
};

/// What fills one window.
struct Group {
  SmallVector<Piece> pieces;
  SmallVector<Value> fetches, evictions; // tickets
};

rank::BufferType typeOf(Value buffer) { return cast<rank::BufferType>(buffer.getType()); }

/// The state that a buffer is part of; a temporary is itself.
std::pair<StringRef, Value> memoryOf(Value buffer) {
  Value root = rootOf(buffer).first;
  auto address = root.getDefiningOp<rank::AddressOp>();
  return address ? std::pair(address.getSymbol(), Value()) : std::pair(StringRef(), root);
}

bool areSame(Value a, Value b) {
  return memoryOf(a) == memoryOf(b) && rootOf(a).second == rootOf(b).second && a.getType() == b.getType();
}

/// Whether operand `buffer` of a call over so many elements is one of those elements, and no number for all of them.
bool runsAlong(Value buffer, int64_t elements) { return typeOf(buffer).getNumElements() == elements; }

class FunctionStreamer {
public:
  FunctionStreamer(rank::FuncOp func, int64_t windowBytes)
      : func(func), program(func->getParentOfType<rank::ProgramOp>()), windowBytes(windowBytes),
        builder(func.getContext()) {}

  void run();
  int64_t streamed = 0;

private:
  FlatSymbolRefAttr windowArena();
  bool isOnHost(Value buffer) const;
  void add(rank::CallOp call);
  bool joins(rank::CallOp call) const;
  bool touchesEarlier(rank::CallOp call) const;
  void stage(Unit &unit, rank::CallOp call) const;
  void flush();
  SmallVector<Group> divide();
  Value part(Value buffer, const Piece &piece);
  void startFetches(Group &group);
  void compute(Group &group);
  void startEvictions(Group &group);
  void name(Operation *op, Value kept);
  Value startMove(StringRef kind, Value destination, Value source, Value kept);
  void wait(ArrayRef<Value> tickets);

  rank::FuncOp func;
  rank::ProgramOp program;
  int64_t windowBytes;
  OpBuilder builder;
  std::vector<Unit> units; ///< of calls that follow one another
};

FlatSymbolRefAttr FunctionStreamer::windowArena() {
  auto arena = program.lookupSymbol<rank::ArenaOp>(rank::kActivations);
  if (!arena) {
    OpBuilder atStart = OpBuilder::atBlockBegin(&program.getBody().front());
    arena = rank::ArenaOp::create(atStart, program.getLoc(), rank::kActivations, /*shared=*/false);
  }
  return FlatSymbolRefAttr::get(arena.getSymNameAttr());
}

bool FunctionStreamer::isOnHost(Value buffer) const {
  Value root = rootOf(buffer).first;
  StringRef arena;
  if (auto alloc = root.getDefiningOp<rank::AllocOp>())
    arena = alloc.getArena();
  else if (auto address = root.getDefiningOp<rank::AddressOp>())
    if (auto state = SymbolTable::lookupSymbolIn(program, address.getSymbolAttr().getAttr()))
      if (auto named = dyn_cast<rank::StateOp>(state))
        arena = named.getArena();
  return arena == rank::kHost;
}

/// Whether the call goes on with what the last unit has updated, over the same elements.
bool FunctionStreamer::joins(rank::CallOp call) const {
  if (units.empty() || !runsAlong(call.getOuts()[0], units.back().elements))
    return false;
  return llvm::any_of(units.back().calls, [&](rank::CallOp before) {
    return llvm::any_of(before.getOuts(), [&](Value out) {
      return llvm::any_of(call.getIns(), [&](Value in) { return areSame(in, out); });
    });
  });
}

/// Whether memory of the host that the call works on is another unit's, which may then be on its way.
bool FunctionStreamer::touchesEarlier(rank::CallOp call) const {
  return llvm::any_of(units, [&](const Unit &unit) {
    return llvm::any_of(unit.staged, [&](const Staged &staged) {
      return llvm::any_of(call->getOperands(),
                          [&](Value operand) { return memoryOf(operand) == memoryOf(staged.buffer); });
    });
  });
}

void FunctionStreamer::stage(Unit &unit, rank::CallOp call) const {
  unit.calls.push_back(call);
  KernelCall kernel(call);
  auto use = [&](Value buffer, bool isRead, bool isWritten) {
    if (!runsAlong(buffer, unit.elements))
      return;
    unit.isCut &= !typeOf(buffer).isShard();
    if (!isOnHost(buffer))
      return;
    auto known = llvm::find_if(unit.staged, [&](const Staged &staged) { return areSame(staged.buffer, buffer); });
    if (known == unit.staged.end())
      unit.staged.push_back({buffer, isRead, isWritten});
    else
      known->isWritten |= isWritten;
  };
  for (Value in : call.getIns())
    use(in, /*isRead=*/true, /*isWritten=*/false);
  for (auto [index, out] : llvm::enumerate(call.getOuts()))
    use(out, kernel.getKernel().outs[index].role == kernels::Role::kUpdated, /*isWritten=*/true);
}

void FunctionStreamer::add(rank::CallOp call) {
  if (joins(call))
    return stage(units.back(), call);
  if (touchesEarlier(call))
    flush();
  Unit &unit = units.emplace_back();
  unit.elements = typeOf(call.getOuts()[0]).getNumElements();
  stage(unit, call);
}

/// Windows as full as they can be. What stays where it is goes along with its neighbours.
SmallVector<Group> FunctionStreamer::divide() {
  SmallVector<Group> groups(1);
  int64_t room = windowBytes;
  for (Unit &unit : units) {
    int64_t bytes = unit.bytesPerElement();
    if (bytes * unit.elements < windowBytes / kLeastPart)
      unit.staged.clear();
    if (unit.staged.empty()) {
      groups.back().pieces.push_back({&unit, 0, unit.elements, {}});
      continue;
    }
    for (int64_t begin = 0; begin < unit.elements;) {
      int64_t count = unit.elements - begin, fitting = room / bytes;
      if (count > fitting && unit.isCut && (fitting >= kPieceElements || room == windowBytes)) {
        count = std::min(count, std::max<int64_t>(1, fitting / kPieceElements) * kPieceElements);
      } else if (count > fitting && room < windowBytes) {
        groups.emplace_back();
        room = windowBytes;
        continue;
      }
      groups.back().pieces.push_back({&unit, begin, count, {}});
      begin += count;
      room = std::max<int64_t>(0, room - count * bytes);
    }
  }
  return groups;
}

/// The elements of `buffer` that a piece has.
Value FunctionStreamer::part(Value buffer, const Piece &piece) {
  if (piece.isWhole())
    return buffer;
  auto [root, offset] = rootOf(buffer);
  return rank::ViewOp::create(builder, buffer.getLoc(), typeOf(buffer).withLayout({piece.count}, {1}), root,
                              offset + piece.begin);
}

/// Names a window or a move after what of the host's memory it is for.
void FunctionStreamer::name(Operation *op, Value kept) {
  auto [state, temporary] = memoryOf(kept);
  if (temporary)
    copyId(temporary.getDefiningOp(), op);
  else
    setId(op, state);
}

Value FunctionStreamer::startMove(StringRef kind, Value destination, Value source, Value kept) {
  auto move = rank::MoveOp::create(builder, kept.getLoc(), rank::TicketType::get(builder.getContext()), kind,
                                   destination, source);
  name(move, kept);
  return move.getTicket();
}

void FunctionStreamer::startFetches(Group &group) {
  for (Piece &piece : group.pieces)
    for (const Staged &staged : piece.unit->staged) {
      Value source = part(staged.buffer, piece);
      auto type =
          rank::BufferType::get(builder.getContext(), typeOf(source).getShape(), typeOf(source).getElementType(), {});
      auto window = rank::AllocOp::create(builder, source.getLoc(), type, windowArena());
      name(window, staged.buffer);
      piece.windows.push_back(window);
      if (staged.isRead)
        group.fetches.push_back(startMove("fetch", window, source, staged.buffer));
      ++streamed;
    }
}

void FunctionStreamer::compute(Group &group) {
  for (const Piece &piece : group.pieces)
    for (rank::CallOp call : piece.unit->calls) {
      SmallVector<Value> operands;
      for (Value operand : call->getOperands()) {
        auto isHere = [&](const Staged &staged) { return areSame(staged.buffer, operand); };
        auto found = llvm::find_if(piece.unit->staged, isHere);
        if (found != piece.unit->staged.end())
          operands.push_back(piece.windows[found - piece.unit->staged.begin()]);
        else
          operands.push_back(runsAlong(operand, piece.unit->elements) ? part(operand, piece) : operand);
      }
      builder.clone(*call)->setOperands(operands);
    }
}

void FunctionStreamer::startEvictions(Group &group) {
  for (Piece &piece : group.pieces)
    for (auto [staged, window] : llvm::zip_equal(piece.unit->staged, piece.windows))
      if (staged.isWritten)
        group.evictions.push_back(startMove("evict", part(staged.buffer, piece), window, staged.buffer));
}

void FunctionStreamer::wait(ArrayRef<Value> tickets) {
  for (Value ticket : tickets)
    rank::WaitOp::create(builder, ticket.getLoc(), ticket);
}

/// A window is filled while the one before is computed with and the one before that emptied: three are there at once.
void FunctionStreamer::flush() {
  SmallVector<Group> groups = divide();
  bool streams = llvm::any_of(units, [](const Unit &unit) { return !unit.staged.empty(); });
  if (streams) {
    // Behind all that the calls name.
    builder.setInsertionPoint(units.back().calls.back());
    startFetches(groups.front());
    for (size_t i = 0; i < groups.size(); ++i) {
      if (i >= 2)
        wait(groups[i - 2].evictions);
      if (i + 1 < groups.size())
        startFetches(groups[i + 1]);
      wait(groups[i].fetches);
      compute(groups[i]);
      startEvictions(groups[i]);
    }
    for (size_t i = groups.size() - std::min<size_t>(2, groups.size()); i < groups.size(); ++i)
      wait(groups[i].evictions);
    for (const Unit &unit : units)
      for (rank::CallOp call : unit.calls)
        call.erase();
  }
  units.clear();
}

void FunctionStreamer::run() {
  for (Operation &op : llvm::make_early_inc_range(func.getBlock())) {
    if (isa<rank::AddressOp, rank::ViewOp, rank::AllocOp>(op))
      continue;
    auto call = dyn_cast<rank::CallOp>(op);
    if (call && KernelCall(call).getKernel().isByElement)
      add(call);
    else if (!units.empty())
      flush();
  }
  if (!units.empty())
    flush();
}

struct StreamUpdates : hyc::impl::StreamUpdatesBase<StreamUpdates> {
  using StreamUpdatesBase::StreamUpdatesBase;

  void runOnOperation() override {
    FailureOr<int64_t> windowBytes = policyOf<&Plan::offloadWindow>(getOperation());
    if (failed(windowBytes))
      return signalPassFailure();
    // Device and host are one memory on the CPU target.
    if (!getOperation()->hasAttr(kTargetAttribute) || *windowBytes == 0)
      return;
    for (auto program : getOperation().getOps<rank::ProgramOp>()) {
      if (!program.lookupSymbol<rank::ArenaOp>(rank::kHost))
        continue;
      for (auto func : program.getOps<rank::FuncOp>()) {
        FunctionStreamer streamer(func, *windowBytes);
        streamer.run();
        streamedTensors += streamer.streamed;
      }
    }
  }
};

} // namespace
