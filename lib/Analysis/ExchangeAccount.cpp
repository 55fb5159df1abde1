// What crosses between ranks in one step, read off the programs and their schedules.
#include "dialects/Dist/AttributeText.h"
#include "dialects/Dist/ExchangeKinds.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Analysis/MemoryAccount.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace hyc;

double ExchangeAccount::sentBytesPerStep() const {
  double whole = static_cast<double>(bytes) * static_cast<double>(timesPerStep);
  if (kind == "send")
    return whole;
  return dist::sentBytes(*dist::symbolizeExchangeKind(kind), whole, members);
}

/// The function that gives what is sent.
static std::string senderOf(bool isBackward, int64_t virtualStage) {
  return rank::functionName(isBackward ? dist::InstructionKind::backward : dist::InstructionKind::forward,
                            virtualStage);
}

/// How often each function of a stage runs in one step, and how often what each gives is sent ("send forward").
static llvm::StringMap<int64_t> countInstructions(dist::ScheduleOp schedule) {
  llvm::StringMap<int64_t> counts;
  for (auto instruction : schedule.getInstructions().getAsRange<dist::InstructionAttr>()) {
    ++counts[rank::functionName(instruction.getKind(), instruction.getVirtualStage())];
    for (dist::TransferAttr transfer : instruction.getTransfers())
      if (transfer.getIsSend())
        ++counts["send " + senderOf(!transfer.isForward(), transfer.getVirtualStage())];
  }
  return counts;
}

ExchangeAccount hyc::accountExchange(rank::StartOp start, rank::CollectiveOp row, dist::MeshOp mesh) {
  ExchangeAccount exchange;
  exchange.kind = start.getKind().str();
  exchange.axes = textOf(row.getGroup());
  exchange.members = mesh ? mesh.countMembers(row.getGroup()) : std::max<int64_t>(1, row.getGroup().getStages().size());
  exchange.source = row.getCause().str();
  exchange.because = row.getWhy().str();
  auto type = cast<rank::BufferType>(start.getSource().getType());
  exchange.bytes = static_cast<int64_t>(start.getCount()) * type.getElementBytes();
  // Of what has parts the count is that of one.
  const dist::ExchangeFacts &facts = dist::factsOf(start.getExchange());
  if ((facts.takesParts || facts.givesParts) && !start.getFlat())
    exchange.bytes *= exchange.members;
  return exchange;
}

/// Calls `visit` with every started exchange that `func` reaches, through shared functions too.
static void visitStarts(const SymbolTable &symbols, rank::FuncOp func,
                        llvm::function_ref<void(rank::StartOp, rank::RowOp)> visit) {
  for (Operation &op : func.getBlock()) {
    if (auto start = dyn_cast<rank::StartOp>(op))
      visit(start, start.getRow().getDefiningOp<rank::RowOp>());
    auto invoke = dyn_cast<rank::InvokeOp>(op);
    auto callee = invoke ? symbols.lookup<rank::FuncOp>(invoke.getCallee()) : rank::FuncOp();
    if (!callee)
      continue;
    visitStarts(symbols, callee, [&](rank::StartOp start, rank::RowOp row) {
      auto argument = dyn_cast<BlockArgument>(start.getRow());
      if (!row && argument && argument.getOwner() == &callee.getBlock())
        row = invoke.getArguments()[argument.getArgNumber()].getDefiningOp<rank::RowOp>();
      visit(start, row);
    });
  }
}

static ExchangeAccount readSend(rank::TransferOp transfer, rank::RecordOp record, int64_t stage) {
  ExchangeAccount exchange;
  exchange.function = senderOf(transfer.getBackward(), transfer.getVirtualStage());
  exchange.kind = "send";
  exchange.axes = ("stage " + Twine(stage) + " to " + Twine(transfer.getPeer())).str();
  exchange.members = 2;
  exchange.bytes = record.getBufferType().getBytes();
  exchange.source = record.getSymName().str();
  return exchange;
}

std::vector<ExchangeAccount> hyc::accountExchanges(rank::ProgramOp program, dist::ScheduleOp schedule) {
  std::vector<ExchangeAccount> exchanges;
  SymbolTable symbols(program);
  llvm::StringMap<int64_t> counts = countInstructions(schedule);
  dist::MeshOp mesh = dist::MeshOp::find(program->getParentOfType<ModuleOp>());
  for (auto func : program.getOps<rank::FuncOp>()) {
    auto times = counts.find(func.getSymName());
    if (func.isShared() || times == counts.end())
      continue;
    visitStarts(symbols, func, [&](rank::StartOp start, rank::RowOp rowOp) {
      auto row = rowOp ? symbols.lookup<rank::CollectiveOp>(rowOp.getEntry()) : rank::CollectiveOp();
      if (!row)
        return;
      exchanges.push_back(accountExchange(start, row, mesh));
      exchanges.back().function = func.getSymName().str();
      exchanges.back().timesPerStep = times->second;
    });
  }
  for (auto transfer : program.getOps<rank::TransferOp>())
    if (auto record = symbols.lookup<rank::RecordOp>(transfer.getRecord());
        record && transfer.getSend() && !transfer.getEntry()) {
      exchanges.push_back(readSend(transfer, record, program.getStage()));
      exchanges.back().timesPerStep = counts.lookup("send " + exchanges.back().function);
    }
  return exchanges;
}
