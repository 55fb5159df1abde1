// Makes once a run what is the same in every step, and keeps it.
//
// The surprise: a value is known by the memory that it is made in. A buffer that one call writes, whole, and that all
// others only read is a value like one of SSA; whether it is constant then follows from that call alone. Of buffers
// that are written twice, in part, or by whoever is no call, nothing is said, and they stay.
#include "FunctionLowering.h"
#include "hyc/Analysis/KernelCall.h"
#include "hyc/Analysis/Likeness.h"
#include "hyc/Plan/Policies.h"
#include "hyc/Transforms/Rank/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

#include <map>

namespace hyc {
#define GEN_PASS_DEF_KEEPCONSTANTS
#include "hyc/Transforms/Rank/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

/// What a value lies in: a rank.alloc, or a rank.record, which functions name by addresses of their own.
struct Memory {
  SmallVector<Operation *, 2> writers, readers;
  SmallVector<rank::AddressOp, 2> addresses; ///< that name a record
  bool isOpen = false;                       ///< something else may happen to it than whole writes and reads
};

/// A result of a call of @prepare.
struct Source {
  int64_t number = -1; ///< of Keeper::made
  unsigned result = 0;
};

/// Equal calls, as one.
struct Made {
  Operation *call;
  SmallVector<Source> ins;
  SmallVector<rank::ConstantOp> kept; ///< by result; null: only calls of @prepare read it
  bool isNeeded = false;
};

rank::BufferType typeOf(Value buffer) { return cast<rank::BufferType>(buffer.getType()); }

/// Whether a call overwrites its results, whatever was there.
bool overwrites(Operation *op) {
  if (auto launch = dyn_cast<rank::LaunchOp>(op))
    return launch.getMode() == rank::WriteMode::overwrite;
  auto call = dyn_cast<rank::CallOp>(op);
  return call && call.getMode() == rank::WriteMode::overwrite && !call.getOuts().empty() &&
         llvm::none_of(KernelCall(call).getKernel().outs,
                       [](const kernels::OperandRow &row) { return row.name && row.role == kernels::Role::kUpdated; });
}

class Keeper {
public:
  explicit Keeper(rank::ProgramOp program) : program(program), symbols(program), builder(program.getContext()) {}

  void run();
  int64_t kept = 0, moved = 0;

private:
  void readMemory();
  void readUses(Operation *memory, Value buffer);
  Operation *memoryOf(Value buffer) const;
  bool isWhole(Value buffer) const;
  bool isValue(Value buffer) const;
  bool isSteady(Operation *call) const;
  void findSteady();
  int64_t numberOf(Operation *call);
  bool isReadByOthers(Value result) const;
  void findGoing();
  void keep(Source source, Operation *memory);
  FlatSymbolRefAttr arenaRef(StringRef name);
  rank::ConstantOp constantOf(Source source);
  void need(int64_t number);
  Value emitResult(const Made &one, size_t result);
  void emitPrepare();
  void erase();
  std::string uniqueName(Operation *call);

  rank::ProgramOp program;
  SymbolTable symbols;
  OpBuilder builder;
  DenseMap<StringAttr, rank::RecordOp> records; ///< that no other stage sees
  llvm::MapVector<Operation *, Memory> memories;
  SmallVector<Operation *> steady; ///< calls, each behind those that make what it reads
  DenseSet<Operation *> going;     ///< those of them that leave their functions
  std::vector<Made> made;
  std::map<Likeness, int64_t> numbers;   ///< in made
  DenseMap<Operation *, Source> sources; ///< of memory
};

//===----------------------------------------------------------------------===//
// What is steady
//===----------------------------------------------------------------------===//

/// The alloc or record that a buffer is a part of; null where it is something else, as a state.
Operation *Keeper::memoryOf(Value buffer) const {
  Value root = rootOf(buffer).first;
  if (auto address = root.getDefiningOp<rank::AddressOp>())
    return records.lookup(address.getSymbolAttr().getAttr());
  return root.getDefiningOp<rank::AllocOp>();
}

/// Whether `buffer` is all that lies in its memory.
bool Keeper::isWhole(Value buffer) const {
  auto [root, offset] = rootOf(buffer);
  return memoryOf(buffer) && offset == 0 && typeOf(buffer).isDense() && typeOf(root).isDense() &&
         !typeOf(root).isShard() && typeOf(buffer).getBytes() == typeOf(root).getBytes();
}

void Keeper::readUses(Operation *memory, Value buffer) {
  for (OpOperand &use : buffer.getUses()) {
    Operation *user = use.getOwner();
    if (isa<rank::ViewOp, rank::TurnOp>(user)) {
      readUses(memory, user->getResult(0));
      continue;
    }
    Memory &all = memories[memory];
    OperandRange written = rank::writtenBuffers(user);
    bool isWritten = use.getOperandNumber() < written.size();
    // What writes nothing is an exchange or a move.
    if (written.empty() || (isWritten && (!overwrites(user) || !isWhole(use.get()))))
      all.isOpen = true;
    else
      (isWritten ? all.writers : all.readers).push_back(user);
  }
}

/// Of memory that others see, or the host fills, nothing is known.
void Keeper::readMemory() {
  auto isOfStep = [](StringRef arena) { return arena == rank::kActivations || arena == rank::kFeeds; };
  for (auto record : program.getOps<rank::RecordOp>())
    if (isOfStep(record.getArena()))
      records[record.getSymNameAttr()] = record;
  for (auto transfer : program.getOps<rank::TransferOp>())
    records.erase(transfer.getRecordAttr().getAttr());
  for (auto func : program.getOps<rank::FuncOp>())
    func.getBody().walk([&](Operation *op) {
      if (auto alloc = dyn_cast<rank::AllocOp>(op); alloc && isOfStep(alloc.getArena()))
        readUses(alloc, alloc.getResult());
      auto address = dyn_cast<rank::AddressOp>(op);
      Operation *record = address ? memoryOf(address.getResult()) : nullptr;
      if (!record)
        return;
      memories[record].addresses.push_back(address);
      readUses(record, address.getResult());
    });
}

bool Keeper::isValue(Value buffer) const {
  auto found = memories.find(memoryOf(buffer));
  return found != memories.end() && !found->second.isOpen && found->second.writers.size() == 1;
}

/// Whether a call gives the same in every step: its results are values, and what it reads are steady ones.
bool Keeper::isSteady(Operation *call) const {
  return overwrites(call) && llvm::all_of(rank::writtenBuffers(call), [&](Value out) { return isValue(out); }) &&
         llvm::all_of(rank::readBuffers(call), [&](Value in) { return sources.contains(memoryOf(in)); });
}

/// Equal calls have equal numbers: of one kernel, with the same attributes, over the same types and equal values.
int64_t Keeper::numberOf(Operation *call) {
  Likeness all(call);
  all.addProperties(call);
  all.addTypes(call->getOperandTypes());
  SmallVector<Source> ins;
  for (Value in : rank::readBuffers(call)) {
    ins.push_back(sources.lookup(memoryOf(in)));
    all.addNumber(ins.back().number);
    all.addNumber(ins.back().result);
    all.addNumber(rootOf(in).second);
  }
  auto [entry, isNew] = numbers.try_emplace(all, made.size());
  if (isNew)
    made.push_back({call, ins, SmallVector<rank::ConstantOp>(rank::writtenBuffers(call).size())});
  return entry->second;
}

void Keeper::findSteady() {
  for (auto func : program.getOps<rank::FuncOp>())
    func.getBody().walk([&](Operation *call) {
      if (!isSteady(call))
        return;
      steady.push_back(call);
      int64_t number = numberOf(call);
      for (auto [result, out] : llvm::enumerate(rank::writtenBuffers(call)))
        sources[memoryOf(out)] = {number, static_cast<unsigned>(result)};
    });
}

//===----------------------------------------------------------------------===//
// What is kept
//===----------------------------------------------------------------------===//

bool Keeper::isReadByOthers(Value result) const {
  return llvm::any_of(memories.find(memoryOf(result))->second.readers,
                      [&](Operation *reader) { return !going.contains(reader); });
}

/// A call leaves its function unless somebody who stays reads a result of it that is no larger than a line.
void Keeper::findGoing() {
  for (Operation *call : llvm::reverse(steady))
    if (llvm::all_of(rank::writtenBuffers(call), [&](Value result) {
          return typeOf(result).getBytes() > rank::kAlignment || !isReadByOthers(result);
        }))
      going.insert(call);
}

/// The model's name of what the call makes, or one that nothing else has.
std::string Keeper::uniqueName(Operation *call) {
  StringRef id = getId(call);
  std::string base = id.empty() ? callName(call) : id.str(), name = base;
  for (unsigned i = 1; symbols.lookup(name); ++i)
    name = base + "." + std::to_string(i);
  return name;
}

FlatSymbolRefAttr Keeper::arenaRef(StringRef name) {
  if (!symbols.lookup(name)) {
    OpBuilder atStart = OpBuilder::atBlockBegin(&program.getBody().front());
    symbols.insert(rank::ArenaOp::create(atStart, program.getLoc(), name, /*shared=*/false));
  }
  return FlatSymbolRefAttr::get(program.getContext(), name);
}

rank::ConstantOp Keeper::constantOf(Source source) {
  Made &one = made[source.number];
  rank::ConstantOp &constant = one.kept[source.result];
  if (constant)
    return constant;
  need(source.number);
  FlatSymbolRefAttr arena = arenaRef(rank::kConstants);
  builder.setInsertionPoint(*program.getOps<rank::FuncOp>().begin());
  constant = rank::ConstantOp::create(builder, one.call->getLoc(), uniqueName(one.call), arena.getValue(),
                                      IntegerAttr(), typeOf(rank::writtenBuffers(one.call)[source.result]));
  symbols.insert(constant);
  ++kept;
  return constant;
}

void Keeper::need(int64_t number) {
  if (std::exchange(made[number].isNeeded, true))
    return;
  for (Source in : made[number].ins)
    need(in.number);
}

/// Whoever reads the memory reads the constant from here on.
void Keeper::keep(Source source, Operation *memory) {
  if (isa<rank::RecordOp>(memory))
    symbols.remove(memory); // the constant may have its name
  auto name = FlatSymbolRefAttr::get(constantOf(source).getSymNameAttr());
  if (auto alloc = dyn_cast<rank::AllocOp>(memory)) {
    builder.setInsertionPoint(alloc);
    Value address = rank::AddressOp::create(builder, alloc.getLoc(), alloc.getResult().getType(), name);
    alloc.replaceAllUsesWith(address);
  }
  auto &addresses = memories.find(memory)->second.addresses;
  for (rank::AddressOp address : addresses)
    address.setSymbolAttr(name);
  addresses.clear();
}

/// Where a call of @prepare writes a result of its.
Value Keeper::emitResult(const Made &one, size_t result) {
  Location loc = one.call->getLoc();
  rank::BufferType type = typeOf(rank::writtenBuffers(one.call)[result]);
  if (rank::ConstantOp constant = one.kept[result])
    return rank::AddressOp::create(builder, loc, type, FlatSymbolRefAttr::get(constant.getSymNameAttr()));
  return rank::AllocOp::create(builder, loc, type, arenaRef(rank::kActivations));
}

/// Calls in the order in which functions had them.
void Keeper::emitPrepare() {
  builder.setInsertionPointToEnd(&program.getBody().front());
  auto prepare = rank::FuncOp::create(builder, program.getLoc(), rank::kPrepare);
  builder.setInsertionPointToStart(&prepare.getBody().emplaceBlock());
  std::vector<SmallVector<Value>> results(made.size());
  for (auto [number, one] : llvm::enumerate(made)) {
    if (!one.isNeeded)
      continue;
    IRMapping inside;
    for (auto [result, out] : llvm::enumerate(rank::writtenBuffers(one.call)))
      inside.map(out, results[number].emplace_back(emitResult(one, result)));
    for (auto [source, in] : llvm::zip_equal(one.ins, rank::readBuffers(one.call))) {
      Value buffer = results[source.number][source.result];
      int64_t offset = rootOf(in).second;
      if (offset != 0 || buffer.getType() != in.getType())
        buffer = rank::ViewOp::create(builder, in.getLoc(), typeOf(in), buffer, offset);
      inside.map(in, buffer);
    }
    builder.clone(*one.call, inside);
  }
}

/// Views of what is gone.
void eraseViews(Value buffer) {
  for (Operation *view : llvm::make_early_inc_range(buffer.getUsers())) {
    eraseViews(view->getResult(0));
    view->erase();
  }
}

void Keeper::erase() {
  SmallVector<Operation *> gone;
  for (auto &[memory, uses] : memories)
    if (!uses.isOpen && uses.writers.size() == 1 && going.contains(uses.writers[0]))
      gone.push_back(memory);
  for (Operation *call : going)
    call->erase();
  for (Operation *memory : gone) {
    if (isa<rank::AllocOp>(memory))
      eraseViews(memory->getResult(0));
    for (rank::AddressOp address : memories.find(memory)->second.addresses) {
      eraseViews(address.getResult());
      address.erase();
    }
    memory->erase();
  }
}

void Keeper::run() {
  readMemory();
  findSteady();
  findGoing();
  for (Operation *call : steady)
    if (going.contains(call))
      for (Value result : rank::writtenBuffers(call))
        if (Operation *memory = memoryOf(result); isReadByOthers(result))
          keep(sources.lookup(memory), memory);
  moved = static_cast<int64_t>(going.size());
  if (kept > 0)
    emitPrepare();
  erase();
}

struct KeepConstants : hyc::impl::KeepConstantsBase<KeepConstants> {
  void runOnOperation() override {
    FailureOr<bool> keeps = policyOf<&Plan::keepConstants>(getOperation());
    if (failed(keeps))
      return signalPassFailure();
    if (!*keeps)
      return;
    for (auto program : getOperation().getOps<rank::ProgramOp>()) {
      Keeper keeper(program);
      keeper.run();
      kept += keeper.kept;
      moved += keeper.moved;
    }
  }
};

} // namespace
