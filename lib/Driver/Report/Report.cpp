// Exchanges are counted from the Local phase, where each still knows the sharding that asked for it.
#include "Report/Report.h"

#include "Report/FoldedTable.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

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

/// `{tp}` or `{} stages [0 to 15]` of `#dist.group<…>`.
static std::string describe(dist::GroupAttr group) {
  std::string text = print(group);
  StringRef inner = StringRef(text).split('<').second;
  return shortenNumbers(inner.drop_back());
}

/// How often each function runs in one step, by name.
static llvm::StringMap<int64_t> countCalls(ModuleOp module, dist::MeshOp mesh) {
  llvm::StringMap<int64_t> counts;
  for (auto schedule : module.getOps<dist::ScheduleOp>())
    for (auto instruction : schedule.getInstructions().getAsRange<dist::InstructionAttr>()) {
      int64_t chunk = mesh.getChunk(schedule.getStage(), instruction.getVirtualStage());
      ++counts[dist::functionName(instruction.getKind(), chunk)];
    }
  return counts;
}

static void addCollective(FoldedTable &table, FuncOp function, dist::ExchangeOpInterface op, int64_t times) {
  StringRef because = op.getWhyText();
  if (because.consume_front("#dist.sharding<"))
    because.consume_back(">");
  auto orDash = [](StringRef text) { return text.empty() ? std::string("-") : text.str(); };
  table.add({function.getSymName().str(), stringifyExchangeKind(op.getExchange()).str(),
             describe(op.getExchangeGroup()), std::to_string(op.getWholeBytes()), std::to_string(times), "1",
             orDash(op.getCauseText()), orDash(because)});
}

static std::string reportCollectives(ModuleOp module, const llvm::StringMap<int64_t> &counts) {
  FoldedTable table(
      {"*function", "exchange", "over", "bytes>", "times a step>", "+count>", "*asked for by", "because"});
  for (auto function : module.getOps<FuncOp>()) {
    int64_t times = counts.lookup(function.getSymName());
    for (auto op : function.getBody().front().getOps<dist::ExchangeOpInterface>())
      addCollective(table, function, op, times);
  }
  if (table.empty())
    return "No collectives: one rank a stage.\n";
  return table.str();
}

/// What crosses from each chunk to its neighbours, by their stages.
static std::string reportTransfers(ModuleOp module, dist::MeshOp mesh, const llvm::StringMap<int64_t> &counts) {
  FoldedTable table({"#from", "#to", "*value", "bytes>", "times a step>"});
  auto place = [&](int64_t chunk) {
    std::string text = "stage " + std::to_string(mesh.getStageOf(chunk));
    return mesh.getVirtualStages() == 1 ? text : text + "." + std::to_string(mesh.getVirtualStageOf(chunk));
  };
  for (auto function : module.getOps<FuncOp>()) {
    int64_t chunk = dist::chunkOf(function).value_or(0);
    bool isBackward = function.getSymName().starts_with("backward.");
    for (unsigned index = 0, e = function.getNumResults(); index < e; ++index)
      if (auto channel = function.getResultAttrOfType<StringAttr>(index, dist::kChannel))
        table.add({place(chunk), place(isBackward ? chunk - 1 : chunk + 1), channel.str(),
                   std::to_string(bytesOf(function.getResultTypes()[index])),
                   std::to_string(counts.lookup(function.getSymName()))});
  }
  return table.empty() ? "" : "\nTransfers between stages, per rank\n" + table.str();
}

std::string hyc::reportExchanges(ModuleOp local) {
  dist::MeshOp mesh = dist::MeshOp::find(local);
  llvm::StringMap<int64_t> counts = countCalls(local, mesh);
  return "Collectives, per rank\n" + reportCollectives(local, counts) + reportTransfers(local, mesh, counts);
}
