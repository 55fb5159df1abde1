// Exchanges are counted from the Local phase, where each still knows the sharding that asked for it.
#include "Report.h"

#include "TextTable.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <map>

using namespace mlir;
using namespace hyc;

template <typename T> static std::string print(const T &value) {
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return text;
}

static int64_t bytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() * ((tensor.getElementTypeBitWidth() + 7) / 8);
}

/// `{tp}` or `{} stages 0, 1` of `#dist.group<…>`.
static std::string describe(dist::GroupAttr group) {
  std::string text = print(group);
  StringRef inner = StringRef(text).split('<').second;
  return inner.drop_back().str();
}

namespace {
/// How often each of a stage's functions runs in one step.
struct StageCounts {
  int64_t forward = 0, backward = 0;

  int64_t of(StringRef function) const {
    if (function.starts_with("forward."))
      return forward;
    return function.starts_with("backward.") ? backward : 1;
  }
};
} // namespace

static std::map<int64_t, StageCounts> countCalls(ModuleOp module) {
  std::map<int64_t, StageCounts> counts;
  for (auto schedule : module.getOps<dist::ScheduleOp>())
    for (auto instruction : schedule.getInstructions().getAsRange<dist::InstructionAttr>()) {
      StageCounts &stage = counts[schedule.getStage()];
      stage.forward += instruction.getKind() == dist::InstructionKind::forward;
      stage.backward += instruction.getKind() == dist::InstructionKind::backward;
    }
  return counts;
}

static int64_t stageOf(FuncOp function) {
  auto stage = function->getAttrOfType<IntegerAttr>(dist::kStage);
  return stage ? stage.getInt() : 0;
}

static void addCollective(TextTable &table, FuncOp function, Operation *op, int64_t times) {
  auto text = [&](StringRef name) {
    auto value = op->getAttrOfType<StringAttr>(name);
    return value ? value.str() : std::string("-");
  };
  StringRef kind = op->getName().stripDialect();
  kind.consume_back("_start");
  std::string because = text("why");
  StringRef sharding = because;
  if (sharding.consume_front("#dist.sharding<") && sharding.consume_back(">"))
    because = sharding.str();
  // Of the whole, whichever side of the exchange has it.
  int64_t bytes = std::max(bytesOf(op->getOperand(0).getType()),
                           bytesOf(cast<dist::PendingType>(op->getResult(0).getType()).getTensor()));
  table.add({function.getSymName().str(), kind.str(), describe(op->getAttrOfType<dist::GroupAttr>("group")),
             std::to_string(bytes), std::to_string(times), text("cause"), because});
}

static std::string reportCollectives(ModuleOp module, const std::map<int64_t, StageCounts> &counts) {
  TextTable table({"function", "exchange", "over", "bytes>", "times a step>", "asked for by", "because"});
  for (auto function : module.getOps<FuncOp>()) {
    auto stage = counts.find(stageOf(function));
    int64_t times = stage == counts.end() ? 1 : stage->second.of(function.getSymName());
    for (Operation &op : function.getBody().front())
      if (isa<dist::AllReduceStartOp, dist::AllGatherStartOp, dist::ReduceScatterStartOp>(op))
        addCollective(table, function, &op, times);
  }
  if (table.empty())
    return "No collectives: one rank a stage.\n";
  return table.str();
}

/// What crosses from each stage to its neighbours.
static std::string reportTransfers(ModuleOp module, const std::map<int64_t, StageCounts> &counts) {
  TextTable table({"from", "to", "value", "bytes>", "times a step>"});
  for (auto function : module.getOps<FuncOp>()) {
    int64_t stage = stageOf(function);
    auto found = counts.find(stage);
    int64_t times = found == counts.end() ? 1 : found->second.of(function.getSymName());
    bool isBackward = function.getSymName().starts_with("backward.");
    for (unsigned index = 0, e = function.getNumResults(); index < e; ++index)
      if (auto channel = function.getResultAttrOfType<StringAttr>(index, dist::kChannel))
        table.add({"stage " + std::to_string(stage), "stage " + std::to_string(isBackward ? stage - 1 : stage + 1),
                   channel.str(), std::to_string(bytesOf(function.getResultTypes()[index])), std::to_string(times)});
  }
  return table.empty() ? "" : "\nTransfers between stages, per rank\n" + table.str();
}

std::string hyc::reportExchanges(ModuleOp local) {
  std::map<int64_t, StageCounts> counts = countCalls(local);
  return "Collectives, per rank\n" + reportCollectives(local, counts) + reportTransfers(local, counts);
}
