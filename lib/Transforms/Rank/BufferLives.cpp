// Executing the schedule and the entries, one after the other, with positions of ops as the clock.
#include "BufferLives.h"

#include "dialects/Rank/Moves.h"

using namespace mlir;
using namespace hyc;

//===----------------------------------------------------------------------===//
// Inside of a function
//===----------------------------------------------------------------------===//

namespace {

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

} // namespace

bool RecordUses::isReceived() {
  return llvm::any_of(transfers, [](rank::TransferOp transfer) { return !transfer.getSend(); });
}

bool RecordUses::isSentBackward() {
  return llvm::any_of(transfers,
                      [](rank::TransferOp transfer) { return transfer.getSend() && transfer.getBackward(); });
}

bool RecordUses::takesPartIn(dist::TransferAttr step, StringAttr entry) {
  return llvm::any_of(transfers, [&](rank::TransferOp transfer) { return transfer.isMovedBy(step, entry); });
}

BufferLives::BufferLives(rank::ProgramOp program, dist::ScheduleOp schedule) : program(program) {
  SmallVector<std::string> names = program.getFunctionNames();
  if (program.getPrepare())
    names.push_back(rank::kPrepare.str());
  readRecords(names.size());
  for (const std::string &name : names)
    readFunction(program.lookupSymbol<rank::FuncOp>(name));

  // Each entry once: it needs nothing of what another one has made.
  execute(schedule.getInstructions(), std::nullopt, {});
  for (auto [index, entry] : llvm::enumerate(program.getOps<rank::EntryOp>()))
    execute(entry.getInstructions(), static_cast<int64_t>(index), entry);
  if (program.getPrepare())
    executePrepare();
  shareSlots();
}

void BufferLives::readRecords(size_t functionCount) {
  for (auto record : program.getOps<rank::RecordOp>()) {
    auto &[uses, item] = records[record.getSymNameAttr()];
    uses.record = record;
    uses.inFunction.resize(functionCount);
    item.bytes = record.getBufferType().getFootprint();
  }
  for (auto transfer : program.getOps<rank::TransferOp>())
    records[transfer.getRecordAttr().getAttr()].first.transfers.push_back(transfer);
}

void BufferLives::readFunction(rank::FuncOp func) {
  auto index = static_cast<int64_t>(functions.size());
  functions.push_back(func);
  isForward.push_back(program.isForward(index));
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

//===----------------------------------------------------------------------===//
// From function to function
//===----------------------------------------------------------------------===//

static void useRecord(ArenaItem &item, int64_t slot, int64_t begin, int64_t end, bool isProducer) {
  auto open = llvm::find_if(llvm::reverse(item.lives), [&](const RecordLife &life) { return life.slot == slot; });
  if (isProducer || open == item.lives.rend())
    item.lives.push_back({slot, begin, end});
  else
    open->end = std::max(open->end, end);
}

void BufferLives::runFunction(int64_t index, int64_t slot) {
  executions.push_back({index, slot, now});
  for (auto &[name, entry] : records) {
    auto &[uses, item] = entry;
    const Span &span = uses.inFunction[index];
    // A record belongs to one chunk: forward makes it where it uses it at all.
    bool inForward = false;
    for (auto [other, use] : llvm::enumerate(uses.inFunction))
      inForward |= isForward[other] && !use.empty();
    if (!span.empty())
      useRecord(item, slot, now + span.first, now + span.last, !uses.isReceived() && (isForward[index] || !inForward));
  }
  now += static_cast<int64_t>(ops[index].size()) + 1;
}

/// Last, though it runs first: what it makes for itself is dead when any entry begins, and what an entry makes is not
/// there yet, so that nothing follows from when it is.
void BufferLives::executePrepare() {
  auto last = static_cast<int64_t>(functions.size()) - 1;
  ExecutedInstruction executed{dist::InstructionAttr(), rank::EntryOp(), last, /*slot=*/0, /*begin=*/now};
  runFunction(last, executed.slot);
  executed.end = now;
  instructions.push_back(executed);
}

void BufferLives::execute(ArrayAttr scheduled, std::optional<int64_t> index, rank::EntryOp entry) {
  StringAttr entryName = entry ? entry.getSymNameAttr() : StringAttr();
  for (auto instruction : scheduled.getAsRange<dist::InstructionAttr>()) {
    ExecutedInstruction executed{instruction, entry};
    executed.begin = now;
    if (int64_t position = program.getPosition(instruction, index); position >= 0) {
      executed.function = position;
      executed.slot = program.isOfMicroBatch(position) ? instruction.getSlot() : 0;
      runFunction(position, executed.slot);
    } else if (instruction.getKind() == dist::InstructionKind::exchange) {
      for (dist::TransferAttr transfer : instruction.getTransfers())
        for (auto &[name, known] : records) {
          auto &[uses, item] = known;
          if (uses.takesPartIn(transfer, entryName))
            useRecord(item, transfer.getSlot(), now, now, !transfer.getIsSend());
        }
      ++now;
    }
    executed.end = now;
    instructions.push_back(executed);
  }
}

/// One copy of a record serves all slots where no two are alive at once.
void BufferLives::shareSlots() {
  for (auto &[name, entry] : records) {
    auto &[uses, item] = entry;
    SmallVector<RecordLife> lives(item.lives);
    llvm::sort(lives, [](const RecordLife &a, const RecordLife &b) { return a.begin < b.begin; });
    item.single = true;
    for (size_t i = 1; i < lives.size(); ++i)
      item.single &= lives[i - 1].end < lives[i].begin;
  }
}
