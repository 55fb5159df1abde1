// Changes in the order of a step's time, each planned before it is named.
#include "Fit/MemoryFit.h"

#include "Report/MemoryReport.h"
#include "hyc/Support/ByteCount.h"
#include "hyc/Support/DriverError.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;
using namespace hyc;

static constexpr size_t kProposals = 3;
/// How many times as many ranks are looked at.
static constexpr int64_t kMostGrowth = 16;
static constexpr size_t kTensorsNamed = 4;

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
static std::string proposeWriting(const JobAccount &job, const CompileOptions &options, int64_t limit,
                                  const SearchMeans &means, size_t &plans) {
  if (llvm::none_of(job.stages, [](const StageAccount &stage) { return stage.findArena("constants"); }))
    return {};
  CompileOptions changed = options;
  changed.keepConstants = false;
  ++plans;
  std::optional<PlannedJob> planned = means.replan(changed);
  if (!planned || planned->account.mostDeviceBytes() > limit)
    return {};
  return "\n    --keep-constants=false: " + formatBytes(planned->account.mostDeviceBytes());
}

/// Changes that fit, one line each; more ranks only where these cannot do it.
static std::string findProposals(const CompileOptions &options, const Layout &from, int64_t limit,
                                 const SearchMeans &means, size_t &plans) {
  std::string text;
  std::unique_ptr<CostModel> costs =
      CostModel::create(means.source, planForSearch(options, from.ranks()), means.machine);
  if (!costs)
    return text;
  SearchRequest request;
  request.globalBatch = from.globalBatch();
  request.limit = static_cast<double>(limit);
  for (int64_t ranks = from.ranks(); ranks <= std::min<int64_t>(kMaxRanks, kMostGrowth * from.ranks()) && text.empty();
       ranks *= 2) {
    request.ranks = ranks;
    std::vector<PlannedJob> jobs;
    std::vector<ScoredLayout> found = findFitting(*costs, request, options, means, kProposals, plans, &jobs);
    for (const auto &[scored, job] : llvm::zip_equal(found, jobs))
      text += "\n    " + describeChange(from, scored.layout) + ": " + formatBytes(job.account.mostDeviceBytes());
  }
  return text;
}

/// The stage whose ranks need most device memory.
static const StageAccount &neediestStage(const JobAccount &job) {
  return *llvm::max_element(
      job.stages, [](const StageAccount &a, const StageAccount &b) { return a.deviceBytes() < b.deviceBytes(); });
}

Error hyc::checkFit(const JobAccount &job, const CompileOptions &options, int64_t microBatch,
                    const SearchMeans &means) {
  if (options.deviceMemory->empty())
    return Error::success();
  Expected<int64_t> parsed = parseByteCount("device-memory", *options.deviceMemory);
  if (!parsed)
    return parsed.takeError();
  int64_t limit = *parsed, need = job.mostDeviceBytes();
  if (need <= limit)
    return Error::success();
  const StageAccount &stage = neediestStage(job);
  std::string text = describeRanks(job, stage) + (job.ranksPerStage() > 1 ? " need " : " needs ") + formatBytes(need) +
                     " (" + std::to_string(need) + " bytes) of device memory" +
                     (job.ranksPerStage() > 1 ? " each" : "") + ", --device-memory is " + formatBytes(limit) +
                     describeNeed(job, stage);

  Layout from = layoutOf(options);
  from.tp = job.tp, from.pp = job.pp, from.dp = job.dp, from.microBatch = microBatch;
  size_t plans = 0;
  std::string proposals = proposeWriting(job, options, limit, means, plans);
  proposals += findProposals(options, from, limit, means, plans);
  if (!proposals.empty())
    text += "\n  what fits, fastest first, at the same global batch" +
            std::string(options.planFile->empty() ? "" : " (without --plan)") + ":" + proposals;
  else
    text += "\n  none of " + std::to_string(plans) +
            " choices that were planned fits; a smaller model, sequence or batch, or more ranks, is needed";
  return makeError(ExitCode::Data, text);
}
