// Writes a kernel's result over an operand that nothing reads afterwards.
#include "FunctionLowering.h"
#include "hyc/Analysis/KernelCall.h"
#include "hyc/Transforms/Rank/Passes.h"

namespace hyc {
#define GEN_PASS_DEF_REUSEOPERANDS
#include "hyc/Transforms/Rank/Passes.h.inc"
} // namespace hyc

using namespace mlir;
using namespace hyc;

namespace {

/// The last call of the block in which a buffer is made that uses it, views of it included. A started collective uses
/// it until its wait, what is repeated until all turns are over.
Operation *lastUse(Value buffer) {
  Operation *last = nullptr;
  SmallVector<Value> values{buffer};
  while (!values.empty())
    for (Operation *user : values.pop_back_val().getUsers()) {
      Operation *call = buffer.getParentBlock()->findAncestorOpInBlock(*user);
      if (!last || last->isBeforeInBlock(call))
        last = call;
      for (Value result : user->getResults())
        if (isa<rank::BufferType, rank::TicketType>(result.getType()))
          values.push_back(result);
    }
  return last;
}

/// Which input a result of `call` may overwrite: pairs of positions.
SmallVector<std::pair<unsigned, unsigned>> inPlacePairs(Operation *call) {
  SmallVector<std::pair<unsigned, unsigned>> pairs;
  if (auto library = dyn_cast<rank::CallOp>(call)) {
    const kernels::KernelDescription &kernel = KernelCall(library).getKernel();
    for (const kernels::Reuse &reuse : kernel.reuses)
      if (reuse.out)
        pairs.push_back(
            {static_cast<unsigned>(kernel.findOut(reuse.out)), static_cast<unsigned>(kernel.findIn(reuse.in))});
    return pairs;
  }
  auto launch = dyn_cast<rank::LaunchOp>(call);
  rank::KernelOp kernel = launch ? rank::lookupKernel(launch) : rank::KernelOp();
  if (!kernel)
    return pairs;
  unsigned ins = launch.getIns().size();
  for (unsigned out = 0; out < launch.getOuts().size(); ++out)
    for (unsigned in = 0; in < ins; ++in)
      if (kernel.getStrides()[in] == kernel.getStrides()[ins + out])
        pairs.push_back({out, in});
  return pairs;
}

struct ReuseOperands : hyc::impl::ReuseOperandsBase<ReuseOperands> {
  void runOnOperation() override {
    for (auto program : getOperation().getOps<rank::ProgramOp>()) {
      readRecords(program);
      for (auto func : program.getOps<rank::FuncOp>()) {
        addresses.clear();
        for (auto address : func.getBlock().getOps<rank::AddressOp>())
          addresses[address.getSymbolAttr().getAttr()].push_back(address);
        func.getBody().walk([&](Operation *call) { runOnCall(call); });
      }
    }
  }

  void readRecords(rank::ProgramOp program) {
    stayingRecords.clear();
    for (auto record : program.getOps<rank::RecordOp>())
      stayingRecords[record.getSymNameAttr()] = record;
    for (auto transfer : program.getOps<rank::TransferOp>())
      stayingRecords.erase(transfer.getRecordAttr().getAttr());
  }

  void runOnCall(Operation *call) {
    for (auto [outIndex, inIndex] : inPlacePairs(call)) {
      Value out = rank::writtenBuffers(call)[outIndex], in = rank::readBuffers(call)[inIndex];
      auto made = out.getDefiningOp<rank::AllocOp>();
      // What is made before the turns, or lives on after one, is not a call's to give away in one.
      bool isOfBlock = made && made->getBlock() == call->getBlock() && in.getParentBlock() == call->getBlock();
      if (!isOfBlock || out.getType() != in.getType() || isReadElsewhere(in, call) || !diesAt(in, made, call) ||
          !isFirstUse(out, call))
        continue;
      made.replaceAllUsesWith(in);
      made.erase();
      return;
    }
  }

  /// Whether another operand of the call sees the same memory, maybe other elements of it.
  bool isReadElsewhere(Value in, Operation *call) {
    auto symbolOf = [](Value buffer) {
      auto address = rootOf(buffer).first.getDefiningOp<rank::AddressOp>();
      return address ? address.getSymbol() : StringRef();
    };
    return llvm::count_if(call->getOperands(), [&](Value operand) {
             return rootOf(operand).first == in || (!symbolOf(in).empty() && symbolOf(operand) == symbolOf(in));
           }) != 1;
  }

  bool isFirstUse(Value out, Operation *call) {
    return llvm::all_of(out.getUsers(), [&](Operation *user) {
      Operation *other = call->getBlock()->findAncestorOpInBlock(*user);
      return other && !other->isBeforeInBlock(call);
    });
  }

  bool diesAt(Value in, rank::AllocOp made, Operation *call) {
    if (auto alloc = in.getDefiningOp<rank::AllocOp>())
      return alloc.getArena() == made.getArena() && lastUse(in) == call;
    // A record that only this stage's backward still needs.
    auto address = in.getDefiningOp<rank::AddressOp>();
    auto func = call->getParentOfType<rank::FuncOp>();
    rank::RecordOp record = address ? stayingRecords.lookup(address.getSymbolAttr().getAttr()) : rank::RecordOp();
    if (!record || func.getKind() != dist::InstructionKind::backward || record.getArena() != made.getArena())
      return false;
    return llvm::all_of(addresses[record.getSymNameAttr()], [&](rank::AddressOp other) {
      Operation *last = lastUse(other.getResult());
      return !last || !call->isBeforeInBlock(last);
    });
  }

  llvm::DenseMap<StringAttr, rank::RecordOp> stayingRecords;             ///< of the program, that no transfer names
  llvm::DenseMap<StringAttr, SmallVector<rank::AddressOp, 2>> addresses; ///< of the function, by what they name
};

} // namespace
