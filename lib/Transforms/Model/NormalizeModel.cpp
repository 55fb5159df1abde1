// NormalizeModel: one order of ops and parameters, one choice of letters, one numbering of ids.
#include "dialects/Hyc/EinsumLetters.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Support/OpIds.h"
#include "hyc/Transforms/Model/Passes.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace hyc;

namespace hyc {
#define GEN_PASS_DEF_NORMALIZEMODEL
#include "hyc/Transforms/Model/Passes.h.inc"
} // namespace hyc

namespace {
/// The ops that `root` follows from, each after its operands, the operands' in their order; a worklist, since models
/// are deeper than the stack.
void collectInOrder(Operation *root, llvm::SetVector<Operation *> &order) {
  SmallVector<std::pair<Operation *, unsigned>> path{{root, 0}};
  while (!path.empty()) {
    auto &[op, next] = path.back();
    if (next == op->getNumOperands()) {
      order.insert(op);
      path.pop_back();
      continue;
    }
    Operation *operand = op->getOperand(next++).getDefiningOp();
    if (operand && !order.contains(operand))
      path.push_back({operand, 0});
  }
}

/// Has each write, with what it alone needs, follow the last op that it depends on or whose operand it replaces: what
/// is written early is kept alive no longer than that.
void orderWrites(Block &block) {
  for (auto write : llvm::to_vector(block.getOps<WriteOp>())) {
    llvm::SetVector<Operation *> cone;
    collectInOrder(write, cone);
    llvm::SmallPtrSet<Operation *, 8> alone; // what nothing but this write follows from
    for (Operation *op : llvm::reverse(cone))
      if (op == write || llvm::all_of(op->getUsers(), [&](Operation *user) { return alone.contains(user); }))
        alone.insert(op);
    Operation *after = nullptr;
    auto follow = [&](Operation *op) {
      if (op && !alone.contains(op) && (!after || after->isBeforeInBlock(op)))
        after = op;
    };
    for (Operation *op : cone)
      follow(op);
    for (auto read : block.getOps<ReadOp>())
      if (read.getSource() == write.getTarget())
        for (Operation *user : read->getUsers())
          follow(user);
    if (!after)
      continue; // of constants and its own old value: anywhere
    for (Operation *op : cone)
      if (alone.contains(op)) {
        op->moveAfter(after);
        after = op;
      }
  }
}

/// Reads stand in front of the first op that wants them, and what one op follows from in front of it.
void orderOps(FuncOp function) {
  Block &block = function.getBody().front();
  llvm::SetVector<Operation *> order;
  collectInOrder(block.getTerminator(), order);
  // What nobody reads keeps its place among its like; its operands are above.
  for (Operation &op : block)
    collectInOrder(&op, order);
  Operation *terminator = block.getTerminator();
  for (Operation *op : order)
    if (op != terminator)
      op->moveBefore(terminator);
  orderWrites(block);
}

void orderParameters(ModuleOp module, FuncOp function) {
  llvm::SetVector<Operation *> order;
  SymbolTable symbols(module);
  function.walk([&](ReadOp read) {
    if (auto param = symbols.lookup<ParamOp>(read.getSource()))
      order.insert(param);
  });
  // In front of the others, which nothing reads.
  for (Operation *param : llvm::reverse(order))
    param->moveBefore(&module.getBody()->front());
}

/// Letters in the order of the alphabet as they come in the operands.
void renameLetters(EinsumOp op) {
  llvm::SmallDenseMap<char, char> names;
  std::string spec = op.getSpec().str();
  for (char &letter : spec)
    if (llvm::isAlpha(letter))
      letter = names.try_emplace(letter, kEinsumLetters[names.size()]).first->second;
  op.setSpec(spec);
}

/// What only rearranges a value belongs to the module that made the value: exporters disagree about it.
StringRef ownerOf(Operation *op) {
  Operation *owner = op;
  while (isa<ReshapeOp, SplitOp, SliceOp, TransposeOp>(owner))
    if (Operation *operand = owner->getOperand(0).getDefiningOp(); operand && !getIdPath(operand).empty())
      owner = operand;
    else
      break;
  return getIdPath(owner);
}

/// Numbers the ids that end in their op's mnemonic in the order of the ops; those that a person chose stay.
void numberIds(FuncOp function) {
  SmallVector<std::pair<Operation *, std::string>> generated;
  for (Operation &op : function.getBody().front().without_terminator()) {
    StringRef path = getIdPath(&op), id = getId(&op);
    if (!path.empty() && path != id)
      generated.push_back({&op, ownerOf(&op).str()});
  }
  for (auto &[op, path] : generated)
    eraseId(op);
  OpIds ids(function->getParentOfType<ModuleOp>());
  for (auto &[op, path] : generated)
    ids.assign(op, path);
}

struct NormalizeModel : hyc::impl::NormalizeModelBase<NormalizeModel> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<FuncOp>()) {
      orderOps(function);
      orderParameters(getOperation(), function);
      function.walk(renameLetters);
      numberIds(function);
    }
  }
};
} // namespace
