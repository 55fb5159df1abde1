// Tables of the account.
#include "Report/MemoryReport.h"

#include "Report/TextTable.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <map>

using namespace llvm;
using namespace hyc;

static constexpr size_t kMostStagesShown = 4;
static constexpr size_t kMostTensorsShown = 8;

std::string hyc::formatBytes(double bytes) {
  constexpr StringLiteral units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < std::size(units); ++unit)
    bytes /= 1024;
  int digits = unit == 0 || bytes >= 100 ? 0 : bytes >= 10 ? 1 : 2;
  std::string text;
  raw_string_ostream(text) << format("%.*f ", digits, bytes) << units[unit];
  return text;
}

std::string hyc::describeRanks(const JobAccount &job, const StageAccount &stage) {
  int64_t count = job.ranksPerStage(), first = stage.stage * count;
  if (count == 1)
    return "rank " + std::to_string(first);
  return "ranks " + std::to_string(first) + " to " + std::to_string(first + count - 1);
}

/// "gemm h.3.mlp.c_fc in backward micro-batch 0 slot 0"; what exists for the whole run has no op.
static std::string describePeak(const ArenaMoment &peak, const ArenaAccount &arena) {
  bool varies = any_of(arena.tensors, [](const AccountedTensor &tensor) {
    return tensor.kind == TensorKind::Record || tensor.kind == TensorKind::Temporary;
  });
  if (!varies)
    return "at all times";
  return peak.op.empty() ? peak.instruction : peak.op + " in " + peak.instruction;
}

/// "1.02": hundredths of a whole.
static std::string ratio(int64_t part, int64_t whole) {
  std::string text = "-";
  if (whole != 0) {
    text.clear();
    raw_string_ostream(text) << format("%.2f", static_cast<double>(part) / static_cast<double>(whole));
  }
  return text;
}

static std::string summarizeStage(const JobAccount &job, const StageAccount &stage) {
  TextTable table({"arena", "bytes at peak>", "", "peak op"});
  for (const ArenaAccount &arena : stage.arenas)
    table.add({arena.name, std::to_string(arena.bytes), formatBytes(arena.bytes), describePeak(arena.peak, arena)});
  table.add({"fixed", std::to_string(stage.fixedBytes), formatBytes(stage.fixedBytes), "code, stacks, heap"});
  table.add({"total", std::to_string(stage.totalBytes()), formatBytes(stage.totalBytes()), ""});
  std::string header = "memory of " + describeRanks(job, stage);
  if (job.stages.size() > 1)
    header += " (stage " + std::to_string(stage.stage) + ")";
  return header + ", each\n" + table.str();
}

std::string hyc::summarizeMemory(const JobAccount &job) {
  std::string text;
  if (job.stages.size() <= kMostStagesShown) {
    for (const StageAccount &stage : job.stages)
      text += summarizeStage(job, stage);
    return text;
  }
  const StageAccount &largest =
      *std::max_element(job.stages.begin(), job.stages.end(),
                        [](const StageAccount &a, const StageAccount &b) { return a.totalBytes() < b.totalBytes(); });
  return summarizeStage(job, largest) + "the largest of " + std::to_string(job.stages.size()) +
         " stages; report.txt has all\n";
}

static std::string reportArenas(const JobAccount &job) {
  TextTable table({"stage", "arena", "bytes>", "lower bound>", "ratio>", "memory", "peak"});
  for (const StageAccount &stage : job.stages) {
    std::string number = std::to_string(stage.stage);
    for (const ArenaAccount &arena : stage.arenas)
      table.add({number, arena.name, std::to_string(arena.bytes), std::to_string(arena.lowerBound),
                 ratio(arena.bytes, arena.lowerBound), arena.shared ? "shared" : "private",
                 describePeak(arena.peak, arena)});
    table.add({number, "fixed", std::to_string(stage.fixedBytes), "", "", "private", "code, stacks, heap"});
    table.add({number, "total", std::to_string(stage.totalBytes()), "", "", "", ""});
  }
  std::string text = "Arenas, per rank: their peak, and the most bytes alive at one moment, below which no placement "
                     "can go\n" +
                     table.str();
  for (const StageAccount &stage : job.stages) {
    auto [least, most] = std::minmax_element(stage.paddingBytes.begin(), stage.paddingBytes.end());
    if (stage.paddingBytes.empty() || *most == 0)
      continue;
    text += "stage " + std::to_string(stage.stage) + ": of these bytes, " + std::to_string(*least) + " to " +
            std::to_string(*most) + " are padding of shards, by rank\n";
  }
  return text;
}

static std::string reportAlive(const StageAccount &stage, const ArenaAccount &arena) {
  TextTable table({"", "bytes>", "copies>", "tensor", "type", "made by"});
  size_t shown = 0;
  int64_t rest = 0;
  for (const AliveTensor &alive : arena.peak.alive) {
    const AccountedTensor &tensor = arena.tensors[alive.tensor];
    if (shown++ < kMostTensorsShown)
      table.add({" ", std::to_string(tensor.item.bytes * alive.copies), std::to_string(alive.copies), tensor.name,
                 tensor.type, tensor.source.empty() ? getName(tensor.kind).str() : tensor.source});
    else
      rest += tensor.item.bytes * alive.copies;
  }
  std::string text = "stage " + std::to_string(stage.stage) + ", " + arena.name + ": " +
                     std::to_string(arena.peak.aliveBytes) + " bytes alive, " + describePeak(arena.peak, arena) + "\n" +
                     table.str();
  if (shown > kMostTensorsShown)
    text += "  and " + std::to_string(shown - kMostTensorsShown) + " more of " + std::to_string(rest) + " bytes\n";
  return text;
}

/// Sums by kind and axes, and the total of a rank of each stage.
static std::string reportVolume(const JobAccount &job) {
  TextTable table({"stage", "exchange", "over", "exchanges a step>", "bytes sent a step>", ""});
  for (const StageAccount &stage : job.stages) {
    std::map<std::pair<std::string, std::string>, std::pair<int64_t, double>> sums;
    double total = 0;
    for (const ExchangeAccount &exchange : stage.exchanges) {
      auto &[times, bytes] = sums[{exchange.kind, exchange.axes}];
      times += exchange.timesPerStep;
      bytes += exchange.sentBytesPerStep();
      total += exchange.sentBytesPerStep();
    }
    auto add = [&](const std::string &kind, const std::string &axes, const std::string &times, double bytes) {
      table.add({std::to_string(stage.stage), kind, axes, times, std::to_string(static_cast<int64_t>(bytes)),
                 formatBytes(bytes)});
    };
    for (const auto &[key, sum] : sums)
      add(key.first, key.second, std::to_string(sum.first), sum.second);
    if (!sums.empty())
      add("total", "", "", total);
  }
  if (table.empty())
    return "";
  return "\nVolume of communication, per rank and step, as the exchanges around a ring that move least send it\n" +
         table.str();
}

std::string hyc::reportMemory(const JobAccount &job) {
  std::string text = reportArenas(job) + reportVolume(job) + "\nAlive at the peaks\n";
  for (const StageAccount &stage : job.stages)
    for (const ArenaAccount &arena : stage.arenas)
      text += reportAlive(stage, arena);
  return text;
}
