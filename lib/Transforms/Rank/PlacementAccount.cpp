// Names and types of what is placed, as reports show them.
#include "PlacementAccount.h"

#include "dialects/Hyc/OpId.h"
#include "dialects/Rank/Moves.h"
#include "hyc/Analysis/KernelCall.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace hyc;

/// "gemm h.0.mlp.c_fc", "layer_norm h.0.ln_1"; nothing for what only names an address.
static std::string describeCall(Operation &op) {
  std::string text = callName(&op);
  if (text.empty())
    return text;
  if (StringAttr id = getIdAttr(&op))
    text += " " + id.str();
  return text;
}

/// "forward micro-batch 2 slot 0", of a further entry "evaluate: forward micro-batch 2 slot 0".
static std::string describeInstruction(dist::InstructionAttr instruction, rank::EntryOp entry) {
  dist::InstructionKind kind = instruction.getKind();
  std::string text = (entry ? entry.getSymName() + ": " : "").str() + dist::stringifyInstructionKind(kind).str();
  if (instruction.getVirtualStage() != 0)
    text += " virtual stage " + std::to_string(instruction.getVirtualStage());
  if (kind == dist::InstructionKind::forward || kind == dist::InstructionKind::backward)
    text += " micro-batch " + std::to_string(instruction.getMicroBatch()) + " slot " +
            std::to_string(instruction.getSlot());
  return text;
}

static AccountedInstruction accountInstruction(dist::InstructionAttr instruction, rank::EntryOp entry) {
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

static AccountedInstruction accountPrepare() {
  AccountedInstruction accounted{rank::kPrepare.str()};
  accounted.kind = rank::kPrepare.str();
  return accounted;
}

StageAccount hyc::accountExecution(rank::ProgramOp program, const BufferLives &lives) {
  StageAccount account;
  account.stage = program.getStage();
  account.slots = program.getSlots();
  for (auto [func, ops] : llvm::zip_equal(lives.functions, lives.ops)) {
    AccountedFunction &function =
        account.functions.emplace_back(AccountedFunction{rank::FuncOp(func).getSymName().str(), {}});
    for (Operation *op : ops)
      function.ops.push_back(describeCall(*op));
  }
  for (const ExecutedInstruction &executed : lives.instructions) {
    AccountedInstruction accounted =
        executed.instruction ? accountInstruction(executed.instruction, executed.entry) : accountPrepare();
    accounted.function = executed.function;
    accounted.slot = executed.slot;
    accounted.begin = executed.begin;
    accounted.end = executed.end;
    account.instructions.push_back(std::move(accounted));
  }
  return account;
}

/// "4x128xf32"
std::string TensorAccounts::describe(rank::BufferType type) {
  std::string &element = elementTypes[type.getElementType()];
  if (element.empty())
    llvm::raw_string_ostream(element) << type.getElementType();
  std::string text;
  for (int64_t size : type.getShape())
    text += std::to_string(size) + 'x';
  return text + element;
}

void TensorAccounts::addSymbols(rank::ArenaOp arena, ArenaAccount &result) {
  auto add = [&](TensorKind kind, auto ops) {
    for (auto op : ops) {
      if (op.getArena() != arena.getSymName())
        continue;
      AccountedTensor tensor{kind, op.getSymName().str(), describe(op.getBufferType()), "", {}};
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

AccountedTensor TensorAccounts::ofTemporary(rank::AllocOp alloc, const ArenaItem &item) {
  AccountedTensor tensor{TensorKind::Temporary, "", describe(alloc.getResult().getType()), "", item};
  const AccountedFunction &function = functions[item.function];
  if (static_cast<size_t>(item.first) < function.ops.size())
    tensor.source = function.ops[item.first];
  StringAttr id = getIdAttr(alloc);
  tensor.name = id ? id.str() : tensor.source;
  return tensor;
}

AccountedTensor TensorAccounts::ofRecord(const RecordUses &uses, const ArenaItem &item) {
  rank::RecordOp record = uses.record;
  AccountedTensor tensor{TensorKind::Record, record.getSymName().str(), describe(record.getBufferType()), "", item};
  for (auto [function, span] : llvm::zip(functions, uses.inFunction))
    if (tensor.source.empty() && !span.empty() && static_cast<size_t>(span.first) < function.ops.size())
      tensor.source = function.ops[span.first];
  return tensor;
}
