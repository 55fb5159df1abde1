// Messages of searches that found nothing.
#include "Fit/LayoutRefusal.h"

#include "Fit/LayoutChoice.h"
#include "Report/MemoryReport.h"
#include "hyc/Support/DriverError.h"

using namespace llvm;
using namespace hyc;

std::string hyc::describeFixed(const CompileOptions &options) {
  std::string text;
  CompileOptions asked = options;
  for (const VariedSetting &varied : getVariedSettings())
    if (SettingRef setting = varied.row().in(asked); originOf(setting) >= Origin::Config)
      text += (text.empty() ? "" : ", ") + sourceOf(setting) + " " + print(valueOf(setting));
  if (options.globalBatch.isGiven())
    text += (text.empty() ? "" : ", ") + options.globalBatch.getSource() + " " + std::to_string(*options.globalBatch);
  return text;
}

Error hyc::checkSearch(const CompileOptions &options, const MachineRates &machine) {
  int64_t ranks = options.ranks->front(), most = machine.mostRanks();
  if (most > 0 && ranks > most)
    return usageError("--ranks is " + Twine(ranks) + ", but machine \"" + machine.name + "\" has " + Twine(most) +
                      (machine.kinds.empty() ? " (its last tier); give fewer, or a file with a larger tier"
                                             : " (its kinds together); give fewer, or a file with kinds of more"));
  if (*options.recompute == RecomputeMode::Auto)
    return usageError(options.recompute.getSource() +
                      " is auto, which the search for a layout of --ranks does not try; give --tp and --pp, or "
                      "another --recompute");
  return Error::success();
}

Error hyc::checkSearchIsAsked(const CompileOptions &options) {
  const char *flag = *options.planCandidates > 0 ? "--plan-candidates"
                     : *options.planSeconds > 0  ? "--plan-seconds"
                                                 : nullptr;
  if (!flag || leavesLayoutOpen(options) || options.ranks->size() > 1)
    return Error::success();
  std::string why = !options.planFile->empty() ? "--plan decides the layout; leave one of the two out"
                    : options.ranks->empty() ? "no layout is looked for without --ranks; give --ranks, or leave it out"
                    : options.evaluates()    ? "--entry is evaluate, which looks for no layout; leave it out"
                                             : options.tp.getSource() + " and " + options.pp.getSource() +
                                                   " leave no layout to look for; leave one of them out";
  return usageError(Twine(flag) + " is given, but " + why);
}

static std::string describeAll(const SearchRequest &request) {
  return std::to_string(request.ranks) + (request.ranks == 1 ? " rank" : " ranks");
}

/// Why the first layout that divides all there is cannot be compiled; empty where there is none.
static std::string describeUnplannable(const CompileOptions &options, const SearchResult &found,
                                       const SearchMeans &means) {
  if (!found.unplannable)
    return "";
  ScoredLayout scored{*found.unplannable, {}, {}};
  Expected<PlannedJob> job = means.replan(optionsOf(options, scored));
  return job ? "" : "the first that does, " + flagsOf(scored.layout) + ", fails: " + toString(job.takeError());
}

Error hyc::nothingLeft(const CompileOptions &options, const SearchRequest &request, const CostModel &costs,
                       const SearchResult &found, const SearchMeans &means) {
  std::string fixed = describeFixed(options), failed = describeUnplannable(options, found, means);
  std::string batch = std::to_string(request.globalBatch) + " samples a step";
  if (int64_t own = costs.fixedBatch())
    batch += " of a model that takes " + std::to_string(own) + " at once";
  if (request.globalBatch > kMaxBatch)
    batch += " into micro-batches and accumulations of at most " + std::to_string(kMaxBatch) + " each,";
  return usageError("--ranks is " + Twine(request.ranks) + ", but no layout of so many ranks " +
                    (failed.empty() ? "divides " : "that can be compiled divides ") + batch + " and " +
                    Twine(costs.countLayers()) + " layers" + (fixed.empty() ? "" : " with " + fixed) + "; " +
                    (failed.empty() ? "" : failed + "; ") + "give another --ranks" +
                    (fixed.empty() ? " or --global-batch" : ", or leave one of those out"));
}

std::string hyc::describeLack(const CompileOptions &options, const SearchRequest &request, const SearchResult &found,
                              const LayoutPlanning &planning, const SearchMeans &means) {
  std::optional<LayoutTooLarge> closest = planning.closest;
  bool isPlanned = closest.has_value();
  if (!isPlanned) {
    const Layout &layout = found.closest->layout;
    const LayoutCost &cost = found.closest->cost;
    closest = LayoutTooLarge{
        layout, cost.ownBytes,
        limitOfStage(options, means.machine, static_cast<int64_t>(cost.tightest), layout.tp * layout.dp)};
  }
  auto bytes = [](double value) { return formatBytes(static_cast<int64_t>(value)); };
  std::string scored = std::to_string(found.scored) + " layouts of " + describeAll(request);
  std::string planned = std::to_string(planning.planned) + (planning.planned == 1 ? " was" : " were") + " planned";
  // All that is known of the others is an estimate.
  bool isOfAll = planning.planned + found.tooLarge >= found.scored || !isPlanned;
  std::string text = isOfAll
                         ? "none of " + scored
                         : "of " + scored + " none of the " + std::to_string(planning.planned) + " that were planned";
  return text + " fits " + bytes(closest->limit.bytes) + " of device memory (" + closest->limit.source + "; " +
         std::to_string(found.tooLarge) + " need more in states and saved activations alone" +
         (isOfAll ? ", " + planned : "") + "); what comes closest needs " + (isPlanned ? "" : "about ") +
         bytes(closest->bytes) + ": " + flagsOf(closest->layout);
}

Error hyc::nothingFits(const CompileOptions &options, const SearchRequest &request, const SearchResult &found,
                       const LayoutPlanning &planning, const SearchMeans &means) {
  std::string fixed = describeFixed(options), failed;
  if (planning.failure)
    failed = flagsOf(planning.failure->layout) + ", fails: " + planning.failure->reason;
  // Of layouts that cannot be compiled, how much memory they need says nothing.
  if (planning.failure && !planning.closest)
    return makeError(planning.failure->code, "of " + Twine(found.scored) + " layouts of " + describeAll(request) +
                                                 " none of the " + Twine(planning.failures) +
                                                 " that were tried can be compiled; the first, " + failed +
                                                 "; give another --ranks, or say --tp, --pp and --zero");
  return makeError(ExitCode::Data, describeLack(options, request, found, planning, means) +
                                       "; give more --ranks or memory" +
                                       (fixed.empty() ? "" : ", or leave out one of " + fixed) +
                                       (failed.empty() ? ""
                                                       : " (" + std::to_string(planning.failures) +
                                                             " more cannot be compiled; the first, " + failed + ")"));
}
