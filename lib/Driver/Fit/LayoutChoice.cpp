// From options to a request, and from the layouts that come back to one that was planned.
#include "Fit/LayoutChoice.h"

#include "Fit/LayoutRefusal.h"
#include "Report/MemoryReport.h"
#include "Report/TextTable.h"
#include "hyc/Driver/OptionChecks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <numeric>

using namespace llvm;
using namespace hyc;

/// Layouts whose exact time decides, where planning one takes little: estimates are that close.
static constexpr size_t kCompared = 3;
/// Above this a plan takes seconds.
static constexpr int64_t kRanksOfQuickPlans = 1024;
/// What the page of the plan shows.
static constexpr size_t kMostCandidates = 64;
/// Layouts among which those to plan are chosen.
static constexpr size_t kMostListed = 4096;

bool hyc::leavesLayoutOpen(const CompileOptions &options) {
  bool isWhole = options.tp.isGiven() && options.pp.isGiven();
  return options.ranks->size() == 1 && options.planFile->empty() && !(isWhole && options.planCandidates == 0) &&
         !options.evaluates();
}

//===----------------------------------------------------------------------===//
// What is asked for
//===----------------------------------------------------------------------===//

static int64_t globalBatchOf(const CompileOptions &options, const CostModel &costs, int64_t ranks) {
  if (options.globalBatch.isGiven())
    return options.globalBatch;
  if (int64_t fixed = costs.fixedBatch())
    return fixed * *options.gradAccum;
  int64_t split = *options.tp * *options.pp; // those that nobody gave are 1
  return std::max<int64_t>(1, options.microBatch) * *options.gradAccum * (ranks / std::gcd(ranks, split));
}

static SearchRequest requestOf(const CompileOptions &options, const CostModel &costs, double limit) {
  SearchRequest request;
  request.ranks = options.ranks->front();
  request.globalBatch = globalBatchOf(options, costs, request.ranks);
  request.fixed = layoutOf(options);
  CompileOptions asked = options;
  for (const VariedSetting &varied : getVariedSettings())
    if (originOf(varied.row().in(asked)) >= Origin::Config)
      request.isFixed.push_back(varied.setting);
  request.limit = limit;
  request.seconds = options.planSeconds;
  return request;
}

//===----------------------------------------------------------------------===//
// What comes back
//===----------------------------------------------------------------------===//

/// The clock of a plan has all coordinates take as many micro-batches.
static double secondsOf(const ScoredLayout &scored, const PlannedJob &job) {
  return scored.cost.shares.empty() ? job.seconds : scored.cost.seconds;
}

std::string hyc::flagsOf(const Layout &layout) {
  std::string flags = describeChange(Layout(), baseOf(layout));
  flags.resize(StringRef(flags).split(" (on ").first.size());
  return (flags.empty() ? "one rank" : flags) + (layout.room > 0 ? " (some states on the host)" : "");
}

static std::string threeDigits(double value) {
  std::string text;
  raw_string_ostream(text) << format("%.3g", value);
  return text;
}

/// Layouts that were planned, then others by their estimates.
static std::string tabulate(ArrayRef<ScoredLayout> layouts, ArrayRef<PlannedJob> jobs, size_t chosen,
                            ArrayRef<ScoredLayout> others, size_t shown) {
  TextTable table({"layout", "step ms>", "estimated>", "exposed>", "bubble>", "device memory>", ""});
  double taken = secondsOf(layouts[chosen], jobs[chosen]);
  auto add = [&](const ScoredLayout &scored, const std::string &planned, int64_t bytes, const std::string &why) {
    auto share = [&cost = scored.cost](double part) { return threeDigits(100 * part / cost.seconds) + " %"; };
    table.add({flagsOf(compiledLayout(scored)), planned, threeDigits(scored.cost.seconds * 1e3),
               share(scored.cost.exposed), share(scored.cost.idle), formatBytes(bytes), why});
  };
  auto slower = [&](double seconds) { return "+" + threeDigits(100 * (seconds / taken - 1)) + " % time"; };
  for (auto [index, entry] : llvm::enumerate(llvm::zip_equal(layouts, jobs))) {
    const auto &[scored, job] = entry;
    double seconds = secondsOf(scored, job);
    if (index != chosen && index >= shown)
      continue;
    add(scored, threeDigits(seconds * 1e3), job.account.mostDeviceBytes(), index == chosen ? "taken" : slower(seconds));
  }
  double estimated = layouts[chosen].cost.seconds / taken;
  for (const ScoredLayout &scored : others)
    add(scored, "", static_cast<int64_t>(scored.cost.ownBytes),
        slower(scored.cost.seconds / estimated) + ", estimated");
  return table.str();
}

/// Whether it was planned, as it is or with other states on the device.
static bool isAmong(ArrayRef<ScoredLayout> planned, const ScoredLayout &scored) {
  return llvm::any_of(planned, [&](const ScoredLayout &each) { return baseOf(each.layout) == baseOf(scored.layout); });
}

/// Of those found, so many of the fastest that were not planned and look as if they fit.
static std::vector<ScoredLayout> estimatesBeside(ArrayRef<ScoredLayout> layouts, ArrayRef<ScoredLayout> found,
                                                 double limit, size_t most) {
  std::vector<ScoredLayout> others;
  for (const ScoredLayout &scored : found) {
    if (others.size() == most)
      break;
    if (!isAmong(layouts, scored) && !isAmong(others, scored) && (limit == 0 || scored.cost.bytes <= limit))
      others.push_back(scored);
  }
  return others;
}

static Candidate candidateOf(const ScoredLayout &scored, double limit) {
  const LayoutCost &cost = scored.cost;
  return {flagsOf(compiledLayout(scored)),
          cost.seconds,
          cost.computation,
          cost.exposed,
          cost.idle,
          cost.ownBytes,
          false,
          false,
          limit > 0 && cost.bytes > limit};
}

/// Those that were planned, and the best of every way to divide the ranks and states.
static std::vector<Candidate> listCandidates(ArrayRef<ScoredLayout> layouts, ArrayRef<PlannedJob> jobs, size_t chosen,
                                             ArrayRef<ScoredLayout> others, double limit) {
  std::vector<Candidate> candidates;
  for (auto [index, entry] : llvm::enumerate(llvm::zip_equal(layouts, jobs))) {
    const auto &[scored, job] = entry;
    Candidate candidate = candidateOf(scored, limit);
    candidate.seconds = secondsOf(scored, job);
    candidate.bytes = static_cast<double>(job.account.mostDeviceBytes());
    candidate.isPlanned = true;
    candidate.isTaken = index == chosen;
    candidate.isTooLarge = false;
    candidates.push_back(std::move(candidate));
  }
  for (const ScoredLayout &scored : others)
    if (!isAmong(layouts, scored))
      candidates.push_back(candidateOf(scored, limit));
  llvm::stable_sort(candidates, [](const Candidate &a, const Candidate &b) {
    return std::tuple(!a.isTaken, a.isTooLarge, a.isTooLarge ? a.bytes : a.seconds) <
           std::tuple(!b.isTaken, b.isTooLarge, b.isTooLarge ? b.bytes : b.seconds);
  });
  candidates.resize(std::min(candidates.size(), kMostCandidates));
  return candidates;
}

static std::string describePlacements(const ScoredLayout &scored) {
  if (scored.placements.empty())
    return "";
  return "of " + std::to_string(scored.placements.size()) +
         (scored.placements.size() == 1 ? " parameter" : " parameters") +
         " the host holds states, as their rules in plan.json say; all others fit on the device\n";
}

static std::string describeShares(const ScoredLayout &scored, const SearchRequest &request) {
  if (scored.cost.shares.empty())
    return "";
  std::string shares;
  for (int64_t share : scored.cost.shares)
    shares += (shares.empty() ? "" : ",") + std::to_string(share);
  return "ranks are not equally fast: hyc-run --batch-shares " + shares + " takes the " +
         std::to_string(request.globalBatch) + " samples of a step by their speed; without it each coordinate takes " +
         "the largest share, " + std::to_string(compiledLayout(scored).globalBatch()) + " samples in all\n";
}

static std::string summarize(const SearchResult &found, const SearchRequest &request, const CostModel &costs,
                             size_t planned) {
  std::string text;
  raw_string_ostream os(text);
  os << "of " << found.scored << " layouts (" << found.shapes << " shapes, " << costs.countProbes() << " probes), "
     << found.tooLarge << " cannot fit and " << planned << (planned == 1 ? " was" : " were") << " planned; "
     << (found.tooSlow > 0 ? std::to_string(found.tooSlow) + " shapes more take longer by a bound; " : "")
     << "not tried: " << describeUntried() << "\n";
  if (found.ranOut)
    os << "the search ended after --plan-seconds " << threeDigits(request.seconds)
       << ", with the best so far; another run may find another one\n";
  return text;
}

Plan hyc::planForSearch(const CompileOptions &options, int64_t ranks) {
  Layout layout = layoutOf(options);
  layout.tp = layout.pp = 1;
  layout.dp = ranks;
  CompileOptions base = withLayout(options, layout);
  base.threads = plannedThreads(base);
  return base;
}

/// The one that takes least time by its plan.
static size_t fastestOf(const LayoutPlanning &planning) {
  size_t chosen = 0;
  auto seconds = [&](size_t index) { return secondsOf(planning.fitting[index], planning.jobs[index]); };
  for (size_t index = 1; index < planning.jobs.size(); ++index)
    if (seconds(index) < seconds(chosen))
      chosen = index;
  return chosen;
}

static LayoutChoice choiceOf(const CompileOptions &options, const SearchRequest &request, const CostModel &costs,
                             const SearchResult &found, const LayoutPlanning &planning) {
  ArrayRef<ScoredLayout> layouts = planning.fitting;
  ArrayRef<PlannedJob> jobs = planning.jobs;
  auto shown = static_cast<size_t>(*options.planCandidates);
  size_t chosen = fastestOf(planning);
  const ScoredLayout &taken = layouts[chosen];
  LayoutChoice choice{optionsOf(options, taken), "", secondsOf(taken, jobs[chosen]), taken.cost.shares,
                      listCandidates(layouts, jobs, chosen, found.ofSplits, request.limit)};
  choice.summary =
      "found " + flagsOf(compiledLayout(taken)) + "\n" + describePlacements(taken) + describeShares(taken, request);
  if (shown > 0)
    choice.summary += tabulate(
        layouts, jobs, chosen,
        estimatesBeside(layouts, found.best, request.limit / planning.worst, shown - std::min(shown, layouts.size())),
        shown);
  choice.summary += summarize(found, request, costs, planning.planned);
  return choice;
}

Expected<std::optional<LayoutChoice>> hyc::chooseLayout(const CompileOptions &options, const SearchMeans &unlimited) {
  Expected<MachineRates> machine = withMemoryLimits(options, unlimited.machine);
  if (!machine)
    return machine.takeError();
  SearchMeans means{unlimited.source, std::move(*machine), unlimited.replan, unlimited.listener};
  if (Error error = checkSearch(options, means.machine))
    return error;
  int64_t ranks = options.ranks->front();
  std::unique_ptr<CostModel> costs = CostModel::create(means.source, planForSearch(options, ranks), means.machine);
  if (!costs)
    return std::optional<LayoutChoice>();
  SearchRequest request = requestOf(options, *costs, means.machine.deviceMemory);
  request.most = kMostListed;
  request.movesSingly = ranks <= kRanksOfQuickPlans;
  SearchResult found = searchLayouts(*costs, request);
  if (found.scored == 0)
    return nothingLeft(options, request, *costs, found, means);
  LayoutPlanning planning(request, options, means, ranks > kRanksOfQuickPlans ? 1 : kCompared);
  planning.run(found);
  if (planning.fitting.empty())
    return nothingFits(options, request, found, planning, means);
  return std::optional<LayoutChoice>(choiceOf(options, request, *costs, found, planning));
}
