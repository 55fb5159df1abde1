// From options to a request, and from the layouts that come back to one that was planned.
#include "Fit/LayoutChoice.h"

#include "Report/MemoryReport.h"
#include "Report/TextTable.h"
#include "hyc/Driver/OptionChecks.h"
#include "hyc/Support/ByteCount.h"
#include "hyc/Support/DriverError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <numeric>

using namespace llvm;
using namespace hyc;

/// Layouts whose exact time decides, where planning one takes little: estimates are that close.
static constexpr size_t kCompared = 3;
/// Above this a plan takes seconds.
static constexpr int64_t kRanksOfQuickPlans = 1024;
static constexpr size_t kMostPlans = 24;
/// What the page of the plan shows.
static constexpr size_t kMostCandidates = 64;
/// Layouts among which those to plan are chosen.
static constexpr size_t kMostListed = 4096;

bool hyc::leavesLayoutOpen(const CompileOptions &options) {
  bool isWhole = options.tp.isGiven() && options.pp.isGiven();
  return options.ranks->size() == 1 && options.planFile->empty() && !(isWhole && options.planCandidates == 0) &&
         !options.evaluates();
}

Expected<double> hyc::memoryLimit(const CompileOptions &options, const MachineRates &machine) {
  if (options.deviceMemory->empty())
    return machine.deviceMemory;
  Expected<int64_t> parsed = parseByteCount("device-memory", *options.deviceMemory);
  if (!parsed)
    return parsed.takeError();
  return static_cast<double>(*parsed);
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

static std::string describeFixed(const CompileOptions &options) {
  std::string text;
  CompileOptions asked = options;
  for (const VariedSetting &varied : getVariedSettings())
    if (SettingRef setting = varied.row().in(asked); originOf(setting) >= Origin::Config)
      text += (text.empty() ? "" : ", ") + sourceOf(setting) + " " + print(valueOf(setting));
  if (options.globalBatch.isGiven())
    text += (text.empty() ? "" : ", ") + options.globalBatch.getSource() + " " + std::to_string(*options.globalBatch);
  return text;
}

//===----------------------------------------------------------------------===//
// What comes back
//===----------------------------------------------------------------------===//

/// Where coordinates take different numbers of micro-batches, programs are made for the largest.
static CompileOptions optionsOf(const CompileOptions &options, const ScoredLayout &scored) {
  Layout layout = scored.layout;
  if (!scored.cost.shares.empty())
    layout.gradAccum = *llvm::max_element(scored.cost.shares);
  CompileOptions result = withLayout(options, layout.room > 0 ? withoutStateOffload(layout) : layout);
  result.rules.cuts = scored.cuts;
  result.rules.parameters = scored.placements;
  return result;
}

/// The clock of a plan has all coordinates take as many micro-batches.
static double secondsOf(const ScoredLayout &scored, const PlannedJob &job) {
  return scored.cost.shares.empty() ? job.seconds : scored.cost.seconds;
}

/// Of the rank that needs most; of ranks with less memory than the machine says, as if they had as much.
static double bytesOf(const PlannedJob &job, const MachineRates &machine) {
  double most = static_cast<double>(job.account.mostDeviceBytes());
  for (const StageAccount &stage : job.account.stages) {
    int64_t ranks = job.account.ranksPerStage();
    double own = machine.slowestAmong(stage.stage * ranks, ranks).deviceMemory;
    if (own > 0 && machine.deviceMemory > 0)
      most = std::max(most, static_cast<double>(stage.deviceBytes()) * machine.deviceMemory / own);
  }
  return most;
}

std::string hyc::flagsOf(const Layout &layout) {
  std::string flags = describeChange(Layout(), layout);
  flags.resize(StringRef(flags).split(" (on ").first.size());
  return flags.empty() ? "one rank" : flags;
}

namespace {
/// Plans layouts one after the other until enough of them fit.
class Planning {
public:
  Planning(const SearchRequest &request, const CompileOptions &options, const SearchMeans &means, size_t wanted,
           size_t &plans)
      : request(request), options(options), means(means), wanted(wanted), plans(plans) {}

  std::vector<ScoredLayout> run(ArrayRef<ScoredLayout> layouts) {
    std::vector<bool> isDone(layouts.size());
    // Those first whose estimate is below the limit by as much as estimates have been seen to be wrong.
    for (bool looksAtAll : {false, true})
      for (size_t index = 0; index < layouts.size() && fitting.size() < wanted && plans < kMostPlans; ++index) {
        bool isLikely = request.limit == 0 || layouts[index].cost.bytes * worst <= request.limit;
        if (isDone[index] || (!isLikely && (!looksAtAll || !fitting.empty())))
          continue;
        isDone[index] = true;
        plan(layouts[index]);
      }
    means.listener.tellProgress("");
    return std::move(fitting);
  }

  std::vector<PlannedJob> jobs;
  double worst = 1; ///< bytes of a plan over those that were estimated

private:
  void plan(const ScoredLayout &scored) {
    if (auto now = std::chrono::steady_clock::now(); now - last > std::chrono::seconds(1)) {
      last = now;
      means.listener.tellProgress("looking for a layout: " + std::to_string(plans) + " planned, " +
                                  std::to_string(fitting.size()) + " of " + std::to_string(wanted) + " found");
    }
    ScoredLayout placed = scored;
    std::optional<PlannedJob> job = scored.layout.room > 0 ? place(placed) : replan(scored);
    if (!job)
      return;
    double bytes = bytesOf(*job, means.machine);
    if (request.limit > 0 && bytes > request.limit) {
      worst = std::max(worst, bytes / scored.cost.bytes);
      return;
    }
    fitting.push_back(std::move(placed));
    jobs.push_back(std::move(*job));
  }

  std::optional<PlannedJob> replan(const ScoredLayout &scored) {
    ++plans;
    return means.replan(optionsOf(options, scored));
  }

  /// Moves states off the device until every stage has its limit: those that are chosen make others of a plan's buffers
  /// larger, so that a few plans are needed.
  std::optional<PlannedJob> place(ScoredLayout &scored) {
    std::optional<PlannedJob> onDevice = replan(scored), job = onDevice;
    if (!job)
      return std::nullopt;
    PlacementTerms terms{means.machine.host, means.machine.launch, scored.layout.gradAccum};
    std::vector<int64_t> excess(job->account.stages.size(), 0);
    for (int round = 0; job && round < kMostPlacements; ++round) {
      bool fits = true;
      for (auto [stage, over] : llvm::zip_equal(job->account.stages, excess)) {
        int64_t more = stage.deviceBytes() - limitOf(job->account, stage);
        fits &= more <= 0;
        over += std::max<int64_t>(0, more);
      }
      if (fits)
        return job;
      std::optional<std::vector<PlanRule>> rules = placeStates(onDevice->account, onDevice->movable, excess, terms);
      if (!rules)
        return std::nullopt;
      scored.placements = std::move(*rules);
      job = replan(scored);
    }
    return std::nullopt;
  }

  int64_t limitOf(const JobAccount &job, const StageAccount &stage) const {
    double own = means.machine.slowestAmong(stage.stage * job.ranksPerStage(), job.ranksPerStage()).deviceMemory;
    double share = own > 0 && means.machine.deviceMemory > 0 ? std::min(1.0, own / means.machine.deviceMemory) : 1;
    return static_cast<int64_t>(request.limit * share);
  }

  static constexpr int kMostPlacements = 5;

  const SearchRequest &request;
  const CompileOptions &options;
  const SearchMeans &means;
  size_t wanted;
  size_t &plans;
  std::vector<ScoredLayout> fitting;
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
};
} // namespace

std::vector<ScoredLayout> hyc::findFitting(CostModel &costs, SearchRequest request, const CompileOptions &options,
                                           const SearchMeans &means, size_t wanted, size_t &plans,
                                           std::vector<PlannedJob> *planned) {
  request.most = kMostListed;
  SearchResult found = searchLayouts(costs, request);
  Planning planning(request, options, means, wanted, plans);
  std::vector<ScoredLayout> fitting = planning.run(found.best);
  if (planned)
    *planned = std::move(planning.jobs);
  return fitting;
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
    table.add({flagsOf(scored.layout), planned, threeDigits(scored.cost.seconds * 1e3), share(scored.cost.exposed),
               share(scored.cost.idle), formatBytes(bytes), why});
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
    add(scored, "", static_cast<int64_t>(scored.cost.bytes), slower(scored.cost.seconds / estimated) + ", estimated");
  return table.str();
}

/// Of those found, so many of the fastest that were not planned and look as if they fit.
static std::vector<ScoredLayout> estimatesBeside(ArrayRef<ScoredLayout> layouts, ArrayRef<ScoredLayout> found,
                                                 double limit, size_t most) {
  std::vector<ScoredLayout> others;
  for (const ScoredLayout &scored : found) {
    if (others.size() == most)
      break;
    bool isPlanned = llvm::any_of(layouts, [&](const ScoredLayout &each) { return each.layout == scored.layout; });
    if (!isPlanned && (limit == 0 || scored.cost.bytes <= limit))
      others.push_back(scored);
  }
  return others;
}

static Candidate candidateOf(const ScoredLayout &scored, double limit) {
  const LayoutCost &cost = scored.cost;
  return {
      flagsOf(scored.layout),         cost.seconds, cost.computation, cost.exposed, cost.idle, cost.bytes, false, false,
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
    if (llvm::none_of(layouts, [&](const ScoredLayout &planned) { return planned.layout == scored.layout; }))
      candidates.push_back(candidateOf(scored, limit));
  llvm::stable_sort(candidates, [](const Candidate &a, const Candidate &b) {
    return std::tuple(!a.isTaken, a.isTooLarge, a.isTooLarge ? a.bytes : a.seconds) <
           std::tuple(!b.isTaken, b.isTooLarge, b.isTooLarge ? b.bytes : b.seconds);
  });
  candidates.resize(std::min(candidates.size(), kMostCandidates));
  return candidates;
}

static Error nothingLeft(const CompileOptions &options, const SearchRequest &request, const CostModel &costs) {
  std::string fixed = describeFixed(options);
  std::string batch = std::to_string(request.globalBatch) + " samples a step";
  if (int64_t own = costs.fixedBatch())
    batch += " of a model that takes " + std::to_string(own) + " at once";
  return usageError("--ranks is " + Twine(request.ranks) + ", but no layout of so many ranks divides " + batch +
                    " and " + Twine(costs.countLayers()) + " layers" + (fixed.empty() ? "" : " with " + fixed) +
                    "; give another --ranks" + (fixed.empty() ? " or --global-batch" : ", or leave one of those out"));
}

static Error nothingFits(const SearchResult &found, const SearchRequest &request, const CompileOptions &options,
                         size_t plans) {
  std::string fixed = describeFixed(options);
  return makeError(ExitCode::Data, "none of " + Twine(found.scored) + " layouts of " + Twine(request.ranks) +
                                       " ranks fits " + formatBytes(static_cast<int64_t>(request.limit)) +
                                       " of device memory (" +
                                       (options.deviceMemory->empty() ? "--machine" : "--device-memory") + "; " +
                                       Twine(found.tooLarge) + " need more in states and saved activations alone, " +
                                       Twine(plans) + " were planned); what comes closest needs about " +
                                       formatBytes(static_cast<int64_t>(found.closest->cost.bytes)) + ": " +
                                       flagsOf(found.closest->layout) + "; give more --ranks or memory" +
                                       (fixed.empty() ? "" : ", or leave out one of " + fixed));
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
         std::to_string(request.globalBatch) + " samples of a step by their speed\n";
}

static std::string summarize(const SearchResult &found, const SearchRequest &request, const CostModel &costs,
                             size_t plans) {
  std::string text;
  raw_string_ostream os(text);
  os << "of " << found.scored << " layouts (" << found.shapes << " shapes, " << costs.countProbes() << " probes), "
     << found.tooLarge << " cannot fit and " << plans << (plans == 1 ? " was" : " were") << " planned; "
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

Expected<std::optional<LayoutChoice>> hyc::chooseLayout(const CompileOptions &options, const SearchMeans &means) {
  Expected<double> limit = memoryLimit(options, means.machine);
  if (!limit)
    return limit.takeError();
  int64_t ranks = options.ranks->front();
  if (int64_t most = means.machine.mostRanks(); most > 0 && ranks > most)
    return usageError("--ranks is " + Twine(ranks) + ", but machine \"" + means.machine.name + "\" has " + Twine(most) +
                      " (its last tier); give fewer, or a file with a larger tier");
  std::unique_ptr<CostModel> costs = CostModel::create(means.source, planForSearch(options, ranks), means.machine);
  if (!costs)
    return std::optional<LayoutChoice>();
  SearchRequest request = requestOf(options, *costs, *limit);
  size_t shown = static_cast<size_t>(*options.planCandidates);
  size_t wanted = ranks > kRanksOfQuickPlans ? 1 : kCompared, plans = 0;
  request.most = kMostListed;
  request.movesSingly = ranks <= kRanksOfQuickPlans;
  SearchResult found = searchLayouts(*costs, request);
  if (found.scored == 0)
    return nothingLeft(options, request, *costs);
  Planning planning(request, options, means, wanted, plans);
  std::vector<ScoredLayout> layouts = planning.run(found.best);
  const std::vector<PlannedJob> &jobs = planning.jobs;
  if (layouts.empty())
    return nothingFits(found, request, options, plans);
  size_t chosen = 0;
  for (size_t index = 1; index < jobs.size(); ++index)
    if (secondsOf(layouts[index], jobs[index]) < secondsOf(layouts[chosen], jobs[chosen]))
      chosen = index;
  LayoutChoice choice{optionsOf(options, layouts[chosen]), "", secondsOf(layouts[chosen], jobs[chosen]),
                      layouts[chosen].cost.shares,
                      listCandidates(layouts, jobs, chosen, found.ofSplits, request.limit)};
  choice.summary = "found " + flagsOf(layouts[chosen].layout) + "\n" + describePlacements(layouts[chosen]) +
                   describeShares(layouts[chosen], request);
  if (shown > 0)
    choice.summary += tabulate(
        layouts, jobs, chosen,
        estimatesBeside(layouts, found.best, request.limit / planning.worst, shown - std::min(shown, layouts.size())),
        shown);
  choice.summary += summarize(found, request, *costs, plans);
  return std::optional<LayoutChoice>(std::move(choice));
}
