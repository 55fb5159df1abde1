// Gives every buffer a fixed offset in its arena. When temporaries and records are alive is read off the schedule.
#include "dialects/Dist/AttributeText.h"
#include "dialects/Hyc/HycDialect.h"
#include "dialects/Rank/Moves.h"
#include "hyc/Analysis/KernelCall.h"
#include "hyc/Analysis/MemoryAccount.h"
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

/// First and last position of the ops of a function that use a buffer.
struct Span {
  int64_t first = INT64_MAX, last = -1;
  bool empty() const { return last < 0; }
  void add(int64_t position) {
    first = std::min(first, position);
    last = std::max(last, position);
  }
};

/// Places of a function's ops in the order in which they run; those that are repeated count once, and come before the
/// op that repeats them.
class Positions {
public:
  void read(rank::FuncOp func, SmallVectorImpl<Operation *> &ops) {
    func.getBody().walk([&](Operation *op) {
      positions.try_emplace(op, static_cast<int64_t>(ops.size()));
      ops.push_back(op);
    });
  }
  int64_t of(Operation *op) const { return positions.lookup(op); }

  /// How long a buffer is in use that lies in `block` or is placed from there: through views, from the start of a
  /// collective or a move to its wait, and through all turns where it outlives one.
  void addUses(Value buffer, Block *block, Span &span) const {
    for (Operation *user : buffer.getUsers()) {
      if (isa<rank::ViewOp, rank::TurnOp>(user)) {
        addUses(user->getResult(0), block, span);
        continue;
      }
      addUse(user, block, span);
      for (Value result : user->getResults())
        if (isa<rank::TicketType>(result.getType()))
          for (Operation *wait : result.getUsers())
            addUse(wait, block, span);
    }
  }

private:
  void addUse(Operation *user, Block *block, Span &span) const {
    Operation *whole = block->findAncestorOpInBlock(*user);
    span.add(of(whole));
    if (auto repeat = dyn_cast<rank::RepeatOp>(whole); repeat && !repeat.getBlock().empty())
      span.add(of(&repeat.getBlock().front()));
  }

  DenseMap<Operation *, int64_t> positions;
};

/// Everything that happens to one record: where functions use it, and in which transfers it takes part.
struct RecordUses {
  rank::RecordOp record;
  SmallVector<Span> inFunction; // by position in ProgramOp::getFunctionNames; of @prepare, which has none, the last
  SmallVector<rank::TransferOp, 1> transfers;

  bool isReceived() {
    return llvm::any_of(transfers, [](rank::TransferOp transfer) { return !transfer.getSend(); });
  }
  bool isSentBackward() {
    return llvm::any_of(transfers,
                        [](rank::TransferOp transfer) { return transfer.getSend() && transfer.getBackward(); });
  }
  bool takesPartIn(dist::TransferAttr step, StringAttr entry) {
    return llvm::any_of(transfers, [&](rank::TransferOp transfer) { return transfer.isMovedBy(step, entry); });
  }
};

struct Temporary {
  rank::AllocOp alloc; // until it is placed
  StringAttr arena;
  ArenaItem item;
};

/// Where a symbol lies.
struct SymbolPlace {
  FlatSymbolRefAttr arena;
  int64_t offset = 0;
  bool perSlot = false;
};

class ProgramPlacer {
public:
  ProgramPlacer(rank::ProgramOp program, dist::ScheduleOp schedule)
      : program(program), schedule(schedule), symbols(program) {}
  /// See the pass's options.
  void place(int64_t threads, bool poison);
  /// What was placed, where and for how long. Complete after place().
  StageAccount takeAccount() { return std::move(account); }

private:
  void readFunctions();
  void simulate();
  void simulate(ArrayAttr instructions, std::optional<int64_t> index, rank::EntryOp entry);
  void simulatePrepare();
  void runFunction(int64_t index, int64_t slot);
  void shareSlots();
  void useRecord(RecordUses &uses, ArenaItem &item, int64_t slot, int64_t begin, int64_t end, bool isProducer);
  int64_t placePersistent(rank::ArenaOp arena, int64_t &exactBytes);
  void placeArena(rank::ArenaOp arena);
  void accountSymbols(rank::ArenaOp arena, ArenaAccount &result);
  std::string describeType(rank::BufferType type);
  AccountedTensor accountTemporary(rank::AllocOp alloc, const ArenaItem &item);
  AccountedTensor accountRecord(const RecordUses &uses, const ArenaItem &item);
  void placeWorkspace(int64_t threads);
  void poisonAfter(int64_t function, int64_t position, Value buffer);
  void poisonRecords();
  void placeSymbol(rank::AddressOp address);
  void placePart(Operation *op);
  void rewriteAddresses();
  FlatSymbolRefAttr name(Operation *symbol) { return FlatSymbolRefAttr::get(SymbolTable::getSymbolName(symbol)); }

  rank::ProgramOp program;
  dist::ScheduleOp schedule;
  SymbolTable symbols;
  SmallVector<rank::FuncOp> functions;
  SmallVector<bool> isForward; // of functions
  SmallVector<FunctionExecution> executions;
  SmallVector<SmallVector<Operation *>> ops; // of functions, by position; those that place nothing stay
  SmallVector<Temporary> temporaries;
  llvm::MapVector<StringAttr, std::pair<RecordUses, ArenaItem>> records;
  llvm::DenseMap<StringAttr, SymbolPlace> places; // of symbols
  llvm::StringMap<int64_t> recordBytes;           // of arenas
  SmallVector<rank::StateOp> states;              ///< in the order in which they lie
  llvm::DenseMap<Type, std::string> elementTypes; ///< as text: few are of many tensors, and printing is long
  int64_t now = 0;                                ///< while the schedule is executed: positions so far
  bool poisons = false;
  StageAccount account;
};

/// "gemm h.0.mlp.c_fc", "layer_norm h.0.ln_1"; nothing for what only names an address.
std::string describeCall(Operation &op) {
  std::string text = callName(&op);
  if (text.empty())
    return text;
  if (StringAttr id = getIdAttr(&op))
    text += " " + id.str();
  return text;
}

/// "forward micro-batch 2 slot 0", of a further entry "evaluate: forward micro-batch 2 slot 0".
std::string describeInstruction(dist::InstructionAttr instruction, rank::EntryOp entry) {
  dist::InstructionKind kind = instruction.getKind();
  std::string text = (entry ? entry.getSymName() + ": " : "").str() + dist::stringifyInstructionKind(kind).str();
  if (instruction.getVirtualStage() != 0)
    text += " virtual stage " + std::to_string(instruction.getVirtualStage());
  if (kind == dist::InstructionKind::forward || kind == dist::InstructionKind::backward)
    text += " micro-batch " + std::to_string(instruction.getMicroBatch()) + " slot " +
            std::to_string(instruction.getSlot());
  return text;
}

AccountedInstruction accountInstruction(dist::InstructionAttr instruction, rank::EntryOp entry) {
  AccountedInstruction accounted{describeInstruction(instruction, entry)};
  dist::InstructionKind kind = instruction.getKind();
  accounted.entry = entry ? entry.getSymName().str() : "";
  accounted.kind = dist::stringifyInstructionKind(kind).str();
  if (!instruction.getTransfers().empty())
    accounted.microBatch = instruction.getTransfers().front().getMicroBatch();
  else if (kind == dist::InstructionKind::forward || kind == dist::InstructionKind::backward)
    accounted.microBatch = instruction.getMicroBatch();
  return accounted;
}

AccountedFunction describeFunction(rank::FuncOp func) {
  AccountedFunction result{func.getSymName().str(), {}};
  func.getBody().walk([&](Operation *op) { result.ops.push_back(describeCall(*op)); });
  return result;
}

void ProgramPlacer::readFunctions() {
  SmallVector<std::string> names = program.getFunctionNames();
  if (program.getPrepare())
    names.push_back(rank::kPrepare.str());
  for (auto record : program.getOps<rank::RecordOp>()) {
    auto &[uses, item] = records[record.getSymNameAttr()];
    uses.record = record;
    uses.inFunction.resize(names.size());
    item.bytes = record.getBufferType().getFootprint();
  }
  for (auto transfer : program.getOps<rank::TransferOp>())
    records[transfer.getRecordAttr().getAttr()].first.transfers.push_back(transfer);
  for (auto [index, name] : llvm::enumerate(names)) {
    auto func = symbols.lookup<rank::FuncOp>(name);
    functions.push_back(func);
    isForward.push_back(program.isForward(index));
    account.functions.push_back(describeFunction(func));
    Positions positions;
    positions.read(func, ops.emplace_back());
    for (Operation *op : ops.back()) {
      if (auto alloc = dyn_cast<rank::AllocOp>(op)) {
        Span span;
        positions.addUses(alloc.getResult(), op->getBlock(), span);
        ArenaItem item;
        item.bytes = alloc.getResult().getType().getFootprint();
        if (alloc->hasAttr(rank::kWholeBlocks)) {
          item.bytes = rank::wholeBlocks(item.bytes);
          item.alignment = rank::kBlockBytes;
        }
        item.function = index;
        item.first = span.empty() ? positions.of(op) : span.first;
        item.last = span.empty() ? positions.of(op) : span.last;
        temporaries.push_back({alloc, alloc.getArenaAttr().getAttr(), item});
      } else if (auto address = dyn_cast<rank::AddressOp>(op)) {
        if (auto record = records.find(address.getSymbolAttr().getAttr()); record != records.end())
          positions.addUses(address.getResult(), op->getBlock(), record->second.first.inFunction[index]);
      }
    }
  }
}

void ProgramPlacer::useRecord(RecordUses &uses, ArenaItem &item, int64_t slot, int64_t begin, int64_t end,
                              bool isProducer) {
  auto open = llvm::find_if(llvm::reverse(item.lives), [&](const RecordLife &life) { return life.slot == slot; });
  if (isProducer || open == item.lives.rend())
    item.lives.push_back({slot, begin, end});
  else
    open->end = std::max(open->end, end);
}

void ProgramPlacer::runFunction(int64_t index, int64_t slot) {
  executions.push_back({index, slot, now});
  for (auto &[name, entry] : records) {
    auto &[uses, item] = entry;
    const Span &span = uses.inFunction[index];
    // A record belongs to one chunk: forward makes it where it uses it at all.
    bool inForward = false;
    for (auto [other, use] : llvm::enumerate(uses.inFunction))
      inForward |= isForward[other] && !use.empty();
    if (!span.empty())
      useRecord(uses, item, slot, now + span.first, now + span.last,
                !uses.isReceived() && (isForward[index] || !inForward));
  }
  now += static_cast<int64_t>(ops[index].size()) + 1;
}

/// Executes one entry after the other, each once, noting when functions run and when records are alive: an entry needs
/// nothing of what another one has made.
void ProgramPlacer::simulate() {
  simulate(schedule.getInstructions(), std::nullopt, {});
  for (auto [index, entry] : llvm::enumerate(program.getOps<rank::EntryOp>()))
    simulate(entry.getInstructions(), static_cast<int64_t>(index), entry);
  if (program.getPrepare())
    simulatePrepare();
  shareSlots();
}

/// Last, though it runs first: what it makes for itself is dead when any entry begins, and what an entry makes is not
/// there yet, so that nothing follows from when it is.
void ProgramPlacer::simulatePrepare() {
  auto last = static_cast<int64_t>(functions.size()) - 1;
  AccountedInstruction accounted{rank::kPrepare.str()};
  accounted.kind = rank::kPrepare.str();
  accounted.begin = now;
  runFunction(last, /*slot=*/0);
  accounted.function = last;
  accounted.end = now;
  account.instructions.push_back(std::move(accounted));
}

void ProgramPlacer::simulate(ArrayAttr instructions, std::optional<int64_t> index, rank::EntryOp entry) {
  StringAttr entryName = entry ? entry.getSymNameAttr() : StringAttr();
  for (auto instruction : instructions.getAsRange<dist::InstructionAttr>()) {
    AccountedInstruction accounted = accountInstruction(instruction, entry);
    accounted.begin = now;
    if (int64_t position = program.getPosition(instruction, index); position >= 0) {
      runFunction(position, program.isOfMicroBatch(position) ? instruction.getSlot() : 0);
      accounted.function = executions.back().function;
      accounted.slot = executions.back().slot;
    } else if (instruction.getKind() == dist::InstructionKind::exchange) {
      for (dist::TransferAttr transfer : instruction.getTransfers())
        for (auto &[name, known] : records) {
          auto &[uses, item] = known;
          if (uses.takesPartIn(transfer, entryName))
            useRecord(uses, item, transfer.getSlot(), now, now, !transfer.getIsSend());
        }
      ++now;
    }
    accounted.end = now;
    account.instructions.push_back(std::move(accounted));
  }
}

/// One copy of a record serves all slots where no two are alive at once.
void ProgramPlacer::shareSlots() {
  for (auto &[name, entry] : records) {
    auto &[uses, item] = entry;
    SmallVector<RecordLife> lives(item.lives);
    llvm::sort(lives, [](const RecordLife &a, const RecordLife &b) { return a.begin < b.begin; });
    item.single = true;
    for (size_t i = 1; i < lives.size(); ++i)
      item.single &= lives[i - 1].end < lives[i].begin;
  }
}

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

/// "4x128xf32"
std::string ProgramPlacer::describeType(rank::BufferType type) {
  std::string &element = elementTypes[type.getElementType()];
  if (element.empty())
    llvm::raw_string_ostream(element) << type.getElementType();
  std::string text;
  for (int64_t size : type.getShape())
    text += std::to_string(size) + 'x';
  return text + element;
}

/// States, inputs, scalars and constants: they are there for the whole run.
void ProgramPlacer::accountSymbols(rank::ArenaOp arena, ArenaAccount &result) {
  auto add = [&](TensorKind kind, auto ops) {
    for (auto op : ops) {
      if (op.getArena() != arena.getSymName())
        continue;
      AccountedTensor tensor{kind, op.getSymName().str(), describeType(op.getBufferType()), "", {}};
      tensor.item.bytes = op.getBufferType().getBytes();
      if (arena->hasAttr(rank::kFile))
        tensor.item.bytes = rank::wholeBlocks(tensor.item.bytes);
      tensor.item.offset = op.getOffset().value_or(0);
      result.tensors.push_back(std::move(tensor));
    }
  };
  add(TensorKind::State, program.getOps<rank::StateOp>());
  add(TensorKind::Input, program.getOps<rank::InputOp>());
  add(TensorKind::Scalar, program.getOps<rank::ScalarOp>());
  add(TensorKind::Constant, program.getOps<rank::ConstantOp>());
}

AccountedTensor ProgramPlacer::accountTemporary(rank::AllocOp alloc, const ArenaItem &item) {
  AccountedTensor tensor{TensorKind::Temporary, "", describeType(alloc.getResult().getType()), "", item};
  const AccountedFunction &function = account.functions[item.function];
  if (static_cast<size_t>(item.first) < function.ops.size())
    tensor.source = function.ops[item.first];
  StringAttr id = getIdAttr(alloc);
  tensor.name = id ? id.str() : tensor.source;
  return tensor;
}

AccountedTensor ProgramPlacer::accountRecord(const RecordUses &uses, const ArenaItem &item) {
  rank::RecordOp record = uses.record;
  AccountedTensor tensor{TensorKind::Record, record.getSymName().str(), describeType(record.getBufferType()), "", item};
  for (auto [function, span] : llvm::zip(account.functions, uses.inFunction))
    if (tensor.source.empty() && !span.empty() && static_cast<size_t>(span.first) < function.ops.size())
      tensor.source = function.ops[span.first];
  return tensor;
}

void ProgramPlacer::placeArena(rank::ArenaOp arena) {
  int64_t exactBytes = 0, reserved = placePersistent(arena, exactBytes);
  SmallVector<ArenaItem> items;
  SmallVector<rank::AllocOp> allocs;
  SmallVector<rank::RecordOp> recordOps;
  for (auto &[name, entry] : records)
    if (entry.first.record.getArena() == arena.getSymName()) {
      items.push_back(entry.second);
      recordOps.push_back(entry.first.record);
    }
  for (Temporary &temporary : temporaries)
    if (temporary.arena == arena.getSymNameAttr()) {
      items.push_back(temporary.item);
      allocs.push_back(temporary.alloc);
    }
  ArenaExtent extent = placeItems(items, executions, program.getSlots(), reserved);

  ArenaAccount accounted;
  accounted.name = arena.getSymName().str();
  accounted.shared = arena.getShared();
  accounted.tensors.reserve(items.size() + states.size());
  accountSymbols(arena, accounted);
  for (auto [record, item] : llvm::zip(recordOps, items))
    accounted.tensors.push_back(accountRecord(records[record.getSymNameAttr()].first, item));
  for (auto [alloc, item] : llvm::zip_equal(allocs, ArrayRef(items).drop_front(recordOps.size())))
    accounted.tensors.push_back(accountTemporary(alloc, item));

  Builder builder(program.getContext());
  for (auto [record, item] : llvm::zip(recordOps, items)) {
    record.setOffsetAttr(builder.getI64IntegerAttr(item.offset));
    record.setSingle(!item.perSlot);
    places[record.getSymNameAttr()] = {name(arena), item.offset, item.perSlot};
  }
  for (auto [alloc, item] : llvm::zip_equal(allocs, ArrayRef(items).drop_front(recordOps.size()))) {
    OpBuilder at(alloc);
    // Reduce and apply have no slot: they count as slot 0, whose base is 0.
    bool perSlot = item.perSlot && program.isOfMicroBatch(item.function);
    auto place =
        rank::AtOp::create(at, alloc.getLoc(), alloc.getResult().getType(), arena.getSymName(), item.offset, perSlot);
    copyId(alloc, place);
    bool isUsed = !alloc->use_empty();
    alloc.replaceAllUsesWith(place.getResult());
    alloc.erase();
    if (isUsed && poisons)
      poisonAfter(item.function, item.last, place.getResult());
  }
  arena.setBytes(extent.bytes);
  arena.setLowerBound(extent.lowerBound - reserved + exactBytes);
  arena.setRecordBytes(extent.recordBytes);
  accounted.bytes = arena.getBytes();
  accounted.lowerBound = arena.getLowerBound();
  accounted.recordBytes = arena.getRecordBytes();
  findPeak(account, accounted);
  account.arenas.push_back(std::move(accounted));
}

/// One range for all calls that want scratch memory: no two of them run at once.
void ProgramPlacer::placeWorkspace(int64_t threads) {
  ArenaAccount accounted;
  accounted.name = rank::kWorkspace.str();
  for (auto [index, calls] : llvm::enumerate(ops))
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
  Operation *last = ops[function][position];
  OpBuilder builder(last->getContext());
  builder.setInsertionPointAfter(last);
  rank::CallOp::create(builder, last->getLoc(), "poison", ValueRange(buffer), ValueRange(), rank::WriteMode::overwrite);
}

/// Of records that backward is the last to use; others are sent on from there, or serve another stage's step.
void ProgramPlacer::poisonRecords() {
  for (auto &[name, entry] : records) {
    auto &[uses, item] = entry;
    size_t backward = 0; // by position in ProgramOp::getFunctionNames
    while (backward < functions.size() && (!program.isBackward(backward) || uses.inFunction[backward].empty()))
      ++backward;
    auto isUsed = [](const Span &span) { return !span.empty(); };
    if (backward >= functions.size() || uses.isSentBackward() ||
        llvm::any_of(ArrayRef(uses.inFunction).drop_front(backward + 1), isUsed))
      continue;
    Operation *last = ops[backward][uses.inFunction[backward].last];
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
  for (rank::FuncOp func : functions) {
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
  account.stage = program.getStage();
  account.slots = program.getSlots();
  readFunctions();
  states = orderedStates(program, symbols);
  simulate();
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
