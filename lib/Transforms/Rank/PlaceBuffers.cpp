// Gives every buffer a fixed offset in its arena, by when it is alive (BufferLives.h).
#include "BufferLives.h"
#include "PlacementAccount.h"

#include "dialects/Dist/AttributeText.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/Moves.h"
#include "hyc/Analysis/Workspaces.h"
#include "hyc/Plan/Policies.h"
#include "hyc/Transforms/Rank/Passes.h"

#include "llvm/ADT/MapVector.h"

namespace hyc {
#define GEN_PASS_DEF_PLACEBUFFERS
#include "hyc/Transforms/Rank/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

/// Where a symbol lies.
struct SymbolPlace {
  FlatSymbolRefAttr arena;
  int64_t offset = 0;
  bool perSlot = false;
};

class ProgramPlacer {
public:
  ProgramPlacer(rank::ProgramOp program, dist::ScheduleOp schedule)
      : program(program), symbols(program), lives(program, schedule), account(accountExecution(program, lives)),
        tensors(program, account.functions) {}
  /// See the pass's options.
  void place(int64_t threads, bool poison);
  /// What was placed, where and for how long. Complete after place().
  StageAccount takeAccount() { return std::move(account); }

private:
  int64_t placePersistent(rank::ArenaOp arena, int64_t &exactBytes);
  void placeArena(rank::ArenaOp arena);
  void placeRecord(rank::RecordOp record, rank::ArenaOp arena, const ArenaItem &item);
  void placeTemporary(rank::AllocOp alloc, rank::ArenaOp arena, const ArenaItem &item);
  void placeWorkspace(int64_t threads);
  void poisonAfter(int64_t function, int64_t position, Value buffer);
  void poisonRecords();
  void placeSymbol(rank::AddressOp address);
  void placePart(Operation *op);
  void rewriteAddresses();
  FlatSymbolRefAttr name(Operation *symbol) { return FlatSymbolRefAttr::get(SymbolTable::getSymbolName(symbol)); }

  rank::ProgramOp program;
  SymbolTable symbols;
  BufferLives lives; // ops that are placed are gone, others stay
  StageAccount account;
  TensorAccounts tensors;
  llvm::DenseMap<StringAttr, SymbolPlace> places; // of symbols
  SmallVector<rank::StateOp> states;              // in the order in which they lie
  bool poisons = false;
};

/// A stable order in which gradients that are reduced over one group in one way are adjacent: what lies between two of
/// them is then padding, which an exchange of both may carry along.
static SmallVector<rank::StateOp> orderedStates(rank::ProgramOp program, const SymbolTable &symbols) {
  llvm::StringMap<std::string> groups;
  auto reduce = symbols.lookup<rank::FuncOp>(rank::functionName(dist::InstructionKind::reduce));
  for (auto start : reduce.getBlock().getOps<rank::StartOp>()) {
    auto address = start.getSource().getDefiningOp<rank::AddressOp>();
    auto row = start.getRow().getDefiningOp<rank::RowOp>();
    auto collective = row ? symbols.lookup<rank::CollectiveOp>(row.getEntry()) : rank::CollectiveOp();
    if (address && collective)
      groups[address.getSymbol()] += (collective.getKind() + textOf(collective.getGroup()) + " ").str();
  }
  llvm::MapVector<StringRef, SmallVector<rank::StateOp>> byGroup;
  for (auto state : program.getOps<rank::StateOp>())
    byGroup[groups.lookup(state.getSymName()).empty() ? StringRef() : StringRef(groups[state.getSymName()])].push_back(
        state);
  SmallVector<rank::StateOp> ordered;
  for (auto &entry : byGroup)
    ordered.append(entry.second);
  return ordered;
}

int64_t ProgramPlacer::placePersistent(rank::ArenaOp arenaOp, int64_t &exactBytes) {
  StringRef arena = arenaOp.getSymName();
  bool isFile = arenaOp->hasAttr(rank::kFile);
  SmallVector<Operation *> declared;
  auto add = [&](auto ops) {
    for (auto op : ops)
      if (op.getArena() == arena)
        declared.push_back(op);
  };
  add(states);
  add(program.getOps<rank::InputOp>());
  add(program.getOps<rank::ScalarOp>());
  add(program.getOps<rank::ConstantOp>());
  auto bytesOf = [&](Operation *symbol) {
    int64_t bytes = cast<rank::BufferType>(symbol->getAttrOfType<TypeAttr>("type").getValue()).getBytes();
    return isFile ? rank::wholeBlocks(bytes) : bytes;
  };
  // Parameters and what belongs to them keep the model's order; counters and inputs are packed without gaps.
  if (arena == rank::kFeeds || arena == rank::kHost || arena == rank::kCommunication)
    llvm::stable_sort(declared, [&](Operation *a, Operation *b) { return bytesOf(a) > bytesOf(b); });
  int64_t end = 0;
  Builder builder(program.getContext());
  for (Operation *symbol : declared) {
    int64_t bytes = bytesOf(symbol), alignment = isFile ? rank::kBlockBytes : placementAlignment(bytes);
    int64_t offset = (end + alignment - 1) / alignment * alignment;
    symbol->setAttr("offset", builder.getI64IntegerAttr(offset));
    places[SymbolTable::getSymbolName(symbol)] = {FlatSymbolRefAttr::get(arenaOp.getSymNameAttr()), offset};
    end = offset + bytes;
    exactBytes += bytes;
  }
  return end;
}

void ProgramPlacer::placeArena(rank::ArenaOp arena) {
  int64_t exactBytes = 0, reserved = placePersistent(arena, exactBytes);
  SmallVector<ArenaItem> items;
  SmallVector<rank::AllocOp> allocs;
  SmallVector<rank::RecordOp> recordOps;
  for (auto &[name, entry] : lives.records)
    if (entry.first.record.getArena() == arena.getSymName()) {
      items.push_back(entry.second);
      recordOps.push_back(entry.first.record);
    }
  for (Temporary &temporary : lives.temporaries)
    if (temporary.arena == arena.getSymNameAttr()) {
      items.push_back(temporary.item);
      allocs.push_back(temporary.alloc);
    }
  ArenaExtent extent = placeItems(items, lives.executions, program.getSlots(), reserved);

  ArenaAccount accounted;
  accounted.name = arena.getSymName().str();
  accounted.shared = arena.getShared();
  accounted.tensors.reserve(items.size() + states.size());
  tensors.addSymbols(arena, accounted);
  for (auto [record, item] : llvm::zip(recordOps, items))
    accounted.tensors.push_back(tensors.ofRecord(lives.records[record.getSymNameAttr()].first, item));
  for (auto [alloc, item] : llvm::zip_equal(allocs, ArrayRef(items).drop_front(recordOps.size())))
    accounted.tensors.push_back(tensors.ofTemporary(alloc, item));

  for (auto [record, item] : llvm::zip(recordOps, items))
    placeRecord(record, arena, item);
  for (auto [alloc, item] : llvm::zip_equal(allocs, ArrayRef(items).drop_front(recordOps.size())))
    placeTemporary(alloc, arena, item);
  arena.setBytes(extent.bytes);
  arena.setLowerBound(extent.lowerBound - reserved + exactBytes);
  arena.setRecordBytes(extent.recordBytes);
  accounted.bytes = arena.getBytes();
  accounted.lowerBound = arena.getLowerBound();
  accounted.recordBytes = arena.getRecordBytes();
  findPeak(account, accounted);
  account.arenas.push_back(std::move(accounted));
}

void ProgramPlacer::placeRecord(rank::RecordOp record, rank::ArenaOp arena, const ArenaItem &item) {
  record.setOffset(item.offset);
  record.setSingle(!item.perSlot);
  places[record.getSymNameAttr()] = {name(arena), item.offset, item.perSlot};
}

void ProgramPlacer::placeTemporary(rank::AllocOp alloc, rank::ArenaOp arena, const ArenaItem &item) {
  OpBuilder builder(alloc);
  // Reduce and apply have no slot: they count as slot 0, whose base is 0.
  bool perSlot = item.perSlot && program.isOfMicroBatch(item.function);
  auto place = rank::AtOp::create(builder, alloc.getLoc(), alloc.getResult().getType(), arena.getSymName(), item.offset,
                                  perSlot);
  copyId(alloc, place);
  bool isUsed = !alloc->use_empty();
  alloc.replaceAllUsesWith(place.getResult());
  alloc.erase();
  if (isUsed && poisons)
    poisonAfter(item.function, item.last, place.getResult());
}

/// One range for all calls that want scratch memory: no two of them run at once.
void ProgramPlacer::placeWorkspace(int64_t threads) {
  ArenaAccount accounted;
  accounted.name = rank::kWorkspace.str();
  for (auto [index, calls] : llvm::enumerate(lives.ops))
    for (auto [position, op] : llvm::enumerate(calls)) {
      int64_t bytes = workspaceBytes(op, threads);
      if (bytes == 0)
        continue;
      AccountedTensor tensor{TensorKind::Temporary,
                             account.functions[index].ops[position],
                             std::to_string(bytes) + "xi8",
                             account.functions[index].ops[position],
                             {}};
      tensor.item.bytes = bytes;
      tensor.item.function = index;
      tensor.item.first = tensor.item.last = position;
      tensor.item.offset = 0;
      accounted.bytes = std::max(accounted.bytes, bytes);
      accounted.tensors.push_back(std::move(tensor));
    }
  if (accounted.bytes == 0)
    return;
  accounted.lowerBound = accounted.bytes;
  OpBuilder builder = OpBuilder::atBlockBegin(&program.getBody().front());
  auto arena = rank::ArenaOp::create(builder, program.getLoc(), accounted.name, /*shared=*/false);
  arena.setBytes(accounted.bytes);
  arena.setLowerBound(accounted.lowerBound);
  program.setThreads(threads);
  findPeak(account, accounted);
  account.arenas.push_back(std::move(accounted));
}

/// Within a function the last op of a life is never one that only names an address.
void ProgramPlacer::poisonAfter(int64_t function, int64_t position, Value buffer) {
  Operation *last = lives.ops[function][position];
  OpBuilder builder(last->getContext());
  builder.setInsertionPointAfter(last);
  rank::CallOp::create(builder, last->getLoc(), "poison", ValueRange(buffer), ValueRange(), rank::WriteMode::overwrite);
}

/// Of records that backward is the last to use; others are sent on from there, or serve another stage's step.
void ProgramPlacer::poisonRecords() {
  for (auto &[name, entry] : lives.records) {
    auto &[uses, item] = entry;
    size_t backward = 0; // by position in ProgramOp::getFunctionNames
    while (backward < lives.functions.size() && (!program.isBackward(backward) || uses.inFunction[backward].empty()))
      ++backward;
    auto isUsed = [](const Span &span) { return !span.empty(); };
    if (backward >= lives.functions.size() || uses.isSentBackward() ||
        llvm::any_of(ArrayRef(uses.inFunction).drop_front(backward + 1), isUsed))
      continue;
    Operation *last = lives.ops[backward][uses.inFunction[backward].last];
    OpBuilder builder(last->getContext());
    builder.setInsertionPoint(last);
    auto place = rank::AddressOp::create(builder, last->getLoc(), uses.record.getBufferType(),
                                         FlatSymbolRefAttr::get(uses.record.getSymNameAttr()));
    poisonAfter(backward, uses.inFunction[backward].last, place.getResult());
  }
}

void ProgramPlacer::placeSymbol(rank::AddressOp address) {
  SymbolPlace known = places.lookup(address.getSymbolAttr().getAttr());
  OpBuilder builder(address);
  auto place = rank::AtOp::create(builder, address.getLoc(), address.getResult().getType(), known.arena.getValue(),
                                  known.offset, known.perSlot);
  setId(place, address.getSymbolAttr().getAttr());
  address.replaceAllUsesWith(place.getResult());
  address.erase();
}

/// Of a view or a turn's part, whose source has its place.
void ProgramPlacer::placePart(Operation *op) {
  auto source = op->getOperand(0).getDefiningOp<rank::AtOp>();
  auto type = cast<rank::BufferType>(op->getResult(0).getType());
  auto turn = dyn_cast<rank::TurnOp>(op);
  int64_t offset = turn ? turn.getOffset() : cast<rank::ViewOp>(op).getOffset(), bytes = type.getElementBytes();
  int64_t step = turn ? static_cast<int64_t>(turn.getStep()) * bytes : source.getStep();
  OpBuilder builder(op);
  auto place = rank::AtOp::create(builder, op->getLoc(), type, source.getArena(), source.getOffset() + offset * bytes,
                                  source.getPerSlot(), step, turn ? turn.getPeriod() : source.getPeriod());
  copyId(source, place);
  op->getResult(0).replaceAllUsesWith(place.getResult());
  op->erase();
}

/// rank.address, rank.turn and rank.view become rank.at: one op an address.
void ProgramPlacer::rewriteAddresses() {
  for (rank::FuncOp func : lives.functions) {
    // In order: what a part is of has its place by then.
    func.getBody().walk([&](Operation *op) {
      if (auto address = dyn_cast<rank::AddressOp>(op))
        placeSymbol(address);
      else if (isa<rank::ViewOp, rank::TurnOp>(op))
        placePart(op);
    });
    func.getBody().walk([](rank::AtOp place) {
      if (place->use_empty())
        place.erase();
    });
  }
}

void ProgramPlacer::place(int64_t threads, bool poison) {
  poisons = poison;
  states = orderedStates(program, symbols);
  SmallVector<rank::ArenaOp> arenas(program.getOps<rank::ArenaOp>());
  // First: it counts positions, which calls that poison move.
  if (threads > 0) {
    placeWorkspace(threads);
    account.fixedBytes = fixedBytes(threads) + readAheadBytes(program);
    program.setFixedBytes(account.fixedBytes);
  }
  for (rank::ArenaOp arena : arenas)
    placeArena(arena);
  if (poisons) {
    poisonRecords();
    program.setPoison(true);
  }
  sortArenas(account);
  rewriteAddresses();
}

struct PlaceBuffers : hyc::impl::PlaceBuffersBase<PlaceBuffers> {
  PlaceBuffers() = default;
  explicit PlaceBuffers(PlacementListener listener) : listener(std::move(listener)) {}

  void runOnOperation() override {
    FailureOr<int64_t> threads = policyOf<&Plan::threads>(getOperation());
    FailureOr<bool> poison = policyOf<&Plan::poison>(getOperation());
    if (failed(threads) || failed(poison))
      return signalPassFailure();
    std::map<int64_t, SnapshotBytes> snapshots = accountSnapshots(getOperation());
    for (auto program : getOperation().getOps<rank::ProgramOp>()) {
      dist::ScheduleOp schedule;
      for (auto candidate : getOperation().getOps<dist::ScheduleOp>())
        if (candidate.getStage() == program.getStage())
          schedule = candidate;
      bool complete = llvm::all_of(program.getFunctionNames(), [&](const std::string &name) {
        return bool(program.lookupSymbol<rank::FuncOp>(name));
      });
      if (!schedule || !complete) {
        program.emitError("stage ") << program.getStage() << " has no "
                                    << (schedule ? "forward, backward, reduce or apply function" : "dist.schedule");
        return signalPassFailure();
      }
      ProgramPlacer placer(program, schedule);
      placer.place(*threads, *poison);
      SnapshotBytes snapshot = snapshots[program.getStage()];
      if (*threads > 0) {
        program.setSnapshotBytes(snapshot.states);
        program.setCheckpointWriterBytes(snapshot.writer);
      }
      if (!listener)
        continue;
      StageAccount account = placer.takeAccount();
      account.exchanges = accountExchanges(program, schedule);
      account.padding = accountPadding(program);
      account.snapshot = snapshot;
      listener(std::move(account));
    }
  }

  PlacementListener listener;
};

} // namespace

std::unique_ptr<Pass> hyc::createPlaceBuffers(PlacementListener listener) {
  return std::make_unique<PlaceBuffers>(std::move(listener));
}
