// Changes in the order of a step's time, each planned before it is named.
#include "Fit/MemoryFit.h"

#include "Fit/LayoutRefusal.h"
#include "Report/MemoryReport.h"
#include "hyc/Support/DriverError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace llvm;
using namespace hyc;

static constexpr size_t kProposals = 3;
/// How many times as many ranks are looked at.
static constexpr int64_t kMostGrowth = 16;
static constexpr size_t kTensorsNamed = 4;
/// Layouts among which those to plan are chosen.
static constexpr size_t kMostListed = 4096;

static std::string describeNeed(const JobAccount &job, const StageAccount &stage) {
  std::string text;
  std::vector<std::pair<const ArenaAccount *, AliveTensor>> largest;
  for (const ArenaAccount &arena : stage.arenas) {
    if (!arena.isOnDevice())
      continue;
    text += "\n  " + arena.name + " " + formatBytes(arena.bytes);
    if (!arena.peak.op.empty())
      text += ", peak at " + arena.peak.op + " in " + arena.peak.instruction;
    for (const AliveTensor &alive : arena.peak.alive)
      largest.push_back({&arena, alive});
  }
  auto bytesOf = [](const std::pair<const ArenaAccount *, AliveTensor> &entry) {
    return entry.first->tensors[entry.second.tensor].item.bytes * entry.second.copies;
  };
  llvm::stable_sort(largest, [&](const auto &a, const auto &b) { return bytesOf(a) > bytesOf(b); });
  text += "\n  fixed (code, stacks, heap) " + formatBytes(stage.fixedBytes);
  text += "\n  largest tensors alive at the peaks:";
  for (const auto &entry : ArrayRef(largest).take_front(kTensorsNamed)) {
    const AccountedTensor &tensor = entry.first->tensors[entry.second.tensor];
    text += "\n    " + formatBytes(bytesOf(entry)) + "  " + tensor.name + " (" + tensor.type +
            (entry.second.copies > 1 ? ", " + std::to_string(entry.second.copies) + " copies" : "") + ")";
  }
  return text;
}

/// The same layout without what is kept for the run, where that suffices.
static std::string proposeWriting(const JobAccount &job, const CompileOptions &options, const SearchMeans &means) {
  if (llvm::none_of(job.stages, [](const StageAccount &stage) { return stage.findArena(hyc::rank::kConstants); }))
    return {};
  CompileOptions changed = options;
  changed.keepConstants = false;
  Expected<PlannedJob> planned = means.replan(changed);
  if (!planned) {
    llvm::consumeError(planned.takeError());
    return {};
  }
  if (tightestStage(options, means.machine, planned->account).part > 1)
    return {};
  return "\n    --keep-constants=false: " + formatBytes(planned->account.mostDeviceBytes());
}

/// Flags of the command that a layout leaves nothing to do, beside which it would be refused, as " (without
/// --nvme-path)".
static std::string describeWithdrawn(const CompileOptions &options, const Layout &layout) {
  bool usesDisk = layout.offloadOptimizer == OffloadPlace::Nvme || layout.offloadParam == OffloadPlace::Nvme;
  std::vector<StringRef> flags;
  if (*options.partitionActivations && layout.recompute != RecomputeMode::Layer)
    flags.push_back("--partition-activations");
  if (!options.activationMemory->empty() && layout.recompute != RecomputeMode::Auto)
    flags.push_back("--activation-memory");
  if (!options.nvmePath->empty() && options.nvmePath.getOrigin() == Origin::Flag && !usesDisk)
    flags.push_back("--nvme-path");
  return flags.empty() ? "" : " (without " + join(flags, ", ") + ")";
}

namespace {
/// Changes that fit, one line each, or why there are none.
struct Proposals {
  std::string lines, lack;
};
} // namespace

/// More ranks only where these cannot do it.
static Proposals findProposals(const CompileOptions &options, const Layout &from, const SearchMeans &means) {
  Proposals proposals;
  std::unique_ptr<CostModel> costs =
      CostModel::create(means.source, planForSearch(options, from.ranks()), means.machine);
  if (!costs)
    return proposals;
  SearchRequest request;
  request.globalBatch = from.globalBatch();
  request.limit = means.machine.deviceMemory;
  request.most = kMostListed;
  int64_t most = std::min<int64_t>(kMaxRanks, kMostGrowth * from.ranks());
  for (int64_t ranks = from.ranks(); ranks <= most && proposals.lines.empty(); ranks *= 2) {
    request.ranks = ranks;
    SearchResult found = searchLayouts(*costs, request);
    LayoutPlanning planning(request, options, means, kProposals);
    planning.run(found);
    for (const auto &[scored, job] : llvm::zip_equal(planning.fitting, planning.jobs))
      proposals.lines += "\n    " + describeChange(from, compiledLayout(scored)) +
                         describeWithdrawn(options, compiledLayout(scored)) + ": " +
                         formatBytes(job.account.mostDeviceBytes());
    if (found.closest && planning.fitting.empty())
      proposals.lack = describeLack(options, request, found, planning, means);
  }
  return proposals;
}

Error hyc::checkFit(const JobAccount &job, const CompileOptions &options, int64_t microBatch,
                    const SearchMeans &unlimited) {
  Expected<MachineRates> machine = withMemoryLimits(options, unlimited.machine);
  if (!machine)
    return machine.takeError();
  SearchMeans means{unlimited.source, std::move(*machine), unlimited.replan, unlimited.listener};
  TightestStage tightest = tightestStage(options, means.machine, job);
  if (tightest.part <= 1)
    return Error::success();
  const StageAccount &stage = *tightest.stage;
  int64_t need = stage.deviceBytes();
  bool isOne = job.ranksPerStage() == 1;
  auto limit = static_cast<int64_t>(tightest.limit.bytes);
  std::string limitText = formatBytes(limit);
  if (limitText == formatBytes(need)) // it is a matter of a few
    limitText += " (" + std::to_string(limit) + " bytes)";
  std::string text = describeRanks(job, stage) + (isOne ? " needs " : " need ") + formatBytes(need) + " (" +
                     std::to_string(need) + " bytes) of device memory" + (isOne ? "" : " each") + ", " +
                     tightest.limit.source + (options.deviceMemory->empty() ? " has " : " is ") + limitText +
                     describeNeed(job, stage);

  Layout from = layoutOf(options);
  from.tp = job.tp, from.pp = job.pp, from.dp = job.dp, from.microBatch = microBatch;
  Proposals proposals = findProposals(options, from, means);
  proposals.lines.insert(0, proposeWriting(job, options, means));
  if (!proposals.lines.empty())
    text += "\n  what fits, fastest first, at the same global batch" +
            std::string(options.planFile->empty() ? "" : " (without --plan)") + ":" + proposals.lines;
  else
    text += (proposals.lack.empty() ? "" : "\n  " + proposals.lack) +
            "\n  a smaller model, sequence or batch, or more ranks or memory, is needed";
  return makeError(ExitCode::Data, text);
}
