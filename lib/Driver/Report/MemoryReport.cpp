// Tables of the account.
#include "Report/MemoryReport.h"

#include "Report/FoldedTable.h"
#include "Report/TextTable.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <map>
#include <set>

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

static std::string reportPadding(const StageAccount &stage) {
  auto [least, most] =
      std::minmax_element(stage.padding.begin(), stage.padding.end(),
                          [](const PaddedRanks &a, const PaddedRanks &b) { return a.bytes < b.bytes; });
  if (stage.padding.empty() || most->bytes == 0)
    return "";
  return "of these bytes, " + std::to_string(least->bytes) + " to " + std::to_string(most->bytes) +
         " are padding of shards, by rank\n";
}

/// "stage 3", "stages 1 to 14".
static std::string describeStages(const std::set<int64_t> &stages) {
  return (stages.size() == 1 ? "stage " : "stages ") + describeNumbers(stages);
}

static std::string reportArenas(const JobAccount &job) {
  FoldedTable table({"#stage", "arena", "bytes>", "lower bound>", "ratio>", "memory", "*peak"});
  std::map<std::string, std::set<int64_t>> padding; // stages by what is said of them
  for (const StageAccount &stage : job.stages) {
    std::string number = std::to_string(stage.stage);
    for (const ArenaAccount &arena : stage.arenas)
      table.add({number, arena.name, std::to_string(arena.bytes), std::to_string(arena.lowerBound),
                 ratio(arena.bytes, arena.lowerBound), arena.shared ? "shared" : "private",
                 describePeak(arena.peak, arena)});
    table.add({number, "fixed", std::to_string(stage.fixedBytes), "", "", "private", "code, stacks, heap"});
    table.add({number, "total", std::to_string(stage.totalBytes()), "", "", "", ""});
    table.add({number, "(snapshot)", std::to_string(stage.snapshot.total()), "", "", "private",
               "beside the total, where checkpoints are written while training goes on"});
    table.add({number, "(copies)", std::to_string(stage.snapshot.copies), "", "", "hyc-run's",
               "of each rank, on its host and on the next, with --copy neighbour"});
    padding[reportPadding(stage)].insert(stage.stage);
  }
  table.condense(/*group=*/1, /*by=*/2);
  std::string text = "Arenas, per rank: their peak, and the most bytes alive at one moment, below which no placement "
                     "can go\n" +
                     table.str();
  for (const auto &[said, stages] : padding)
    if (!said.empty())
      text += describeStages(stages) + ": " + said;
  return text;
}

namespace {
/// What is alive at the peak of one arena, of all stages where that is the same.
struct AliveBlock {
  std::set<int64_t> stages;
  std::string arena;
  int64_t bytes = 0;
  std::string general, exact; ///< with and without '*' for the numbers of layers
};
} // namespace

static AliveBlock describeAlive(const StageAccount &stage, const ArenaAccount &arena) {
  FoldedTable table({"", "+bytes>", "copies>", "+count>", "*tensor", "type", "*made by"});
  for (const AliveTensor &alive : arena.peak.alive) {
    const AccountedTensor &tensor = arena.tensors[alive.tensor];
    table.add({" ", std::to_string(tensor.item.bytes * alive.copies), std::to_string(alive.copies), "1", tensor.name,
               tensor.type, tensor.source.empty() ? getName(tensor.kind).str() : tensor.source});
  }
  table.sortBy(/*by=*/1);
  size_t kinds = table.size();
  int64_t rest = table.truncate(kMostTensorsShown, /*by=*/1);
  std::string more;
  if (kinds > kMostTensorsShown)
    more = "  and " + std::to_string(kinds - kMostTensorsShown) + " more kinds of " + std::to_string(rest) + " bytes\n";
  std::string bytes = std::to_string(arena.peak.aliveBytes) + " bytes alive, ", peak = describePeak(arena.peak, arena);
  NumberedName name = NumberedName::of(peak);
  return {{stage.stage},
          arena.name,
          arena.peak.aliveBytes,
          bytes + name.before + (name.number < 0 ? "" : "*") + name.after + "\n" + table.str(/*general=*/true) + more,
          bytes + peak + "\n" + table.str() + more};
}

/// Stages that are alike are one block; of an arena that has more blocks than that, the first, the largest and the
/// last.
static std::string reportAlive(const JobAccount &job) {
  std::vector<AliveBlock> blocks;
  std::map<std::string, size_t> known;
  std::map<std::string, std::vector<size_t>> ofArena;
  for (const StageAccount &stage : job.stages)
    for (const ArenaAccount &arena : stage.arenas) {
      AliveBlock block = describeAlive(stage, arena);
      auto [entry, isNew] = known.try_emplace(arena.name + "\n" + block.general, blocks.size());
      if (!isNew) {
        blocks[entry->second].stages.insert(stage.stage);
        continue;
      }
      ofArena[arena.name].push_back(blocks.size());
      blocks.push_back(std::move(block));
    }
  std::string text;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const AliveBlock &block = blocks[i];
    const std::vector<size_t> &all = ofArena[block.arena];
    size_t largest = *std::max_element(all.begin(), all.end(),
                                       [&](size_t a, size_t b) { return blocks[a].bytes < blocks[b].bytes; });
    if (all.size() <= kMostStagesShown || i == all.front() || i == all.back() || i == largest)
      text += describeStages(block.stages) + ", " + block.arena + ": " +
              (block.stages.size() == 1 ? block.exact : block.general);
    else if (i == all[1] || (all[1] == largest && i == all[2]))
      text += "and " + std::to_string(all.size() - (largest == all.front() || largest == all.back() ? 2 : 3)) +
              " other kinds of stages, " + block.arena + ": memory.json has them\n";
  }
  return text;
}

/// "to the next stage" of "stage 3 to 4", so that stages are alike.
static std::string describeAxes(const ExchangeAccount &exchange) {
  int64_t from = 0, to = 0;
  StringRef rest = exchange.axes;
  if (exchange.kind != "send" || !rest.consume_front("stage ") || rest.consumeInteger(10, from) ||
      !rest.consume_front(" to ") || rest.consumeInteger(10, to))
    return shortenNumbers(exchange.axes);
  return to == from + 1 ? "to the next stage" : to == from - 1 ? "to the stage before" : exchange.axes;
}

/// Sums by kind and axes, and the total of a rank of each stage.
static std::string reportVolume(const JobAccount &job) {
  FoldedTable table({"#stage", "exchange", "over", "exchanges a step>", "bytes sent a step>", ""});
  for (const StageAccount &stage : job.stages) {
    std::map<std::pair<std::string, std::string>, std::pair<int64_t, double>> sums;
    double total = 0;
    for (const ExchangeAccount &exchange : stage.exchanges) {
      auto &[times, bytes] = sums[{exchange.kind, describeAxes(exchange)}];
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

/// Of several sizes: what each has alive at most in the arenas that they share, and in which they differ.
static std::string reportSizes(const JobAccount &job) {
  FoldedTable table({"#stage", "arena", "entry", "bytes alive at most>", ""});
  bool hasSizes = false;
  for (const StageAccount &stage : job.stages)
    for (const ArenaAccount &arena : stage.arenas) {
      std::vector<std::pair<std::string, int64_t>> peaks = peaksOfEntries(stage, arena);
      bool differs = any_of(
          peaks, [&](const auto &peak) { return peak.first != "evaluate" && peak.second != peaks.front().second; });
      for (const auto &[entry, bytes] : peaks) {
        hasSizes |= !entry.empty() && entry != "evaluate";
        if (differs)
          table.add({std::to_string(stage.stage), arena.name, entry.empty() ? "largest" : entry, std::to_string(bytes),
                     formatBytes(static_cast<double>(bytes))});
      }
    }
  if (!hasSizes)
    return "";
  return "\nArenas by size: states are there once, and what one size uses another does when its steps come\n" +
         table.str();
}

std::string hyc::reportMemory(const JobAccount &job) {
  return reportArenas(job) + reportSizes(job) + reportVolume(job) + "\nAlive at the peaks\n" + reportAlive(job);
}
