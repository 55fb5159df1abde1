// The order of planning, and states that leave the device.
#include "Fit/LayoutPlanning.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace llvm;
using namespace hyc;

/// Layouts that are planned, by their time.
static constexpr size_t kMostPlanned = 24;
/// That fail for another reason than memory; of the largest meshes each takes seconds.
static constexpr size_t kMostFailures = 24;
/// Plans in which states are placed, each by the account of the one before.
static constexpr int kMostPlacements = 5;

Layout hyc::compiledLayout(const ScoredLayout &scored) {
  Layout layout = scored.layout;
  if (!scored.cost.shares.empty())
    layout.gradAccum = *llvm::max_element(scored.cost.shares);
  return layout;
}

Layout hyc::baseOf(const Layout &layout) { return layout.room > 0 ? withoutStateOffload(layout) : layout; }

CompileOptions hyc::optionsOf(const CompileOptions &options, const ScoredLayout &scored) {
  CompileOptions result = withLayout(options, baseOf(compiledLayout(scored)));
  result.rules.cuts = scored.cuts;
  result.rules.parameters = scored.placements;
  return result;
}

void LayoutPlanning::run(const SearchResult &found) {
  runPass(found.best, Pass::Likely, kMostPlanned);
  if (fitting.empty())
    runPass(found.best, Pass::Any, kMostPlanned);
  if (fitting.empty())
    runPass(found.smallest, Pass::Any, planned + found.smallest.size());
  if (fitting.empty())
    runPass(found.best, Pass::Failed, planned + kMostPlanned);
  means.listener.tellProgress("");
}

void LayoutPlanning::runPass(ArrayRef<ScoredLayout> layouts, Pass pass, size_t most) {
  // Where nothing fits by its estimate, the first that does is enough.
  size_t enough = pass == Pass::Likely ? wanted : 1;
  for (const ScoredLayout &scored : layouts) {
    if (fitting.size() >= enough || planned >= most || failures >= kMostFailures)
      return;
    if (isTaken(scored, pass))
      plan(scored);
  }
}

bool LayoutPlanning::isTaken(const ScoredLayout &scored, Pass pass) const {
  if (pass != Pass::Failed && failedMeshes.count(meshOf(scored.layout)))
    return false;
  // States leave the device until the rest fits, by the account and not by an estimate.
  return pass != Pass::Likely || request.limit == 0 || scored.layout.room > 0 ||
         scored.cost.bytes * worst <= request.limit;
}

void LayoutPlanning::tellProgress() {
  auto now = std::chrono::steady_clock::now();
  if (now - last <= std::chrono::seconds(1))
    return;
  last = now;
  means.listener.tellProgress("looking for a layout: " + std::to_string(planned) + " planned, " +
                              std::to_string(fitting.size()) + " of " + std::to_string(wanted) + " found");
}

void LayoutPlanning::plan(ScoredLayout scored) {
  Base *base = baseFor(scored);
  if (!base || base->isDone)
    return;
  if (scored.layout.room == 0) // it has been planned, and only does with states elsewhere
    return;
  base->isDone = true;
  PlannedJob onDevice = std::move(*base->onDevice);
  if (std::optional<PlannedJob> job = place(scored, onDevice))
    take(std::move(scored), std::move(*job));
}

LayoutPlanning::Base *LayoutPlanning::baseFor(const ScoredLayout &scored) {
  ScoredLayout plain = scored;
  plain.layout = baseOf(scored.layout);
  auto [found, isNew] = bases.try_emplace(plain.layout);
  Base &base = found->second;
  if (!isNew)
    return &base;
  tellProgress();
  std::optional<PlannedJob> job = replan(plain);
  base.isDone = !job;
  if (!job)
    return nullptr;
  ++planned;
  if (partOfLimit(*job) <= 1) {
    base.isDone = true;
    take(std::move(plain), std::move(*job));
    return &base;
  }
  noteTooLarge(plain, *job);
  base.onDevice = std::move(*job);
  return &base;
}

void LayoutPlanning::take(ScoredLayout scored, PlannedJob job) {
  fitting.push_back(std::move(scored));
  jobs.push_back(std::move(job));
}

double LayoutPlanning::partOfLimit(const PlannedJob &job) const {
  return tightestStage(options, means.machine, job.account).part;
}

void LayoutPlanning::noteTooLarge(const ScoredLayout &scored, const PlannedJob &job) {
  TightestStage tightest = tightestStage(options, means.machine, job.account);
  // What an estimate has left out as moved says nothing of the estimate.
  bool isWhole = scored.cost.bytes < request.limit * (1 - 1e-9) || scored.cost.bytes > request.limit * (1 + 1e-9);
  if (isWhole && scored.cost.bytes > 0)
    worst = std::max(worst, tightest.part * request.limit / scored.cost.bytes);
  double needed = static_cast<double>(tightest.stage->deviceBytes());
  if (!closest || tightest.part < closest->bytes / closest->limit.bytes)
    closest = LayoutTooLarge{compiledLayout(scored), needed, tightest.limit};
}

std::optional<PlannedJob> LayoutPlanning::replan(const ScoredLayout &scored) {
  Expected<PlannedJob> job = means.replan(optionsOf(options, scored));
  if (job)
    return std::move(*job);
  ++failures;
  failedMeshes.insert(meshOf(scored.layout));
  handleAllErrors(job.takeError(), [&](const DriverError &error) {
    if (!failure)
      failure = LayoutFailure{compiledLayout(scored), error.getCode(), error.getMessage()};
  });
  return std::nullopt;
}

/// Adds to the excess of each stage what it is above its limit, no more than can leave the device; of the last round
/// all of that. False where no stage can free more than before.
bool LayoutPlanning::addExcess(const JobAccount &job, ArrayRef<int64_t> movable, bool isLast,
                               std::vector<int64_t> &excess) const {
  bool isMore = false;
  for (size_t index = 0; index < excess.size(); ++index) {
    const StageAccount &stage = job.stages[index];
    DeviceLimit limit = limitOfStage(options, means.machine, stage.stage, job.ranksPerStage());
    if (!limit.isExceededBy(static_cast<double>(stage.deviceBytes())))
      continue;
    int64_t over = stage.deviceBytes() - static_cast<int64_t>(limit.bytes);
    int64_t next = isLast ? movable[index] : std::min(movable[index], excess[index] + over);
    isMore |= next > excess[index];
    excess[index] = next;
  }
  return isMore;
}

/// States that are chosen make others of a plan's buffers larger, so that a few plans are needed.
std::optional<PlannedJob> LayoutPlanning::place(ScoredLayout &scored, const PlannedJob &onDevice) {
  PlacementTerms terms{means.machine.host, means.machine.launch, scored.layout.gradAccum};
  std::vector<int64_t> excess(onDevice.account.stages.size(), 0);
  std::vector<int64_t> movable = movableBytes(onDevice.account, onDevice.movable);
  std::optional<PlannedJob> job = onDevice;
  for (int round = 1; round <= kMostPlacements; ++round) {
    if (!addExcess(job->account, movable, round == kMostPlacements, excess))
      return std::nullopt;
    std::optional<std::vector<PlanRule>> rules = placeStates(onDevice.account, onDevice.movable, excess, terms);
    if (!rules)
      return std::nullopt;
    scored.placements = std::move(*rules);
    job = replan(scored);
    if (!job)
      return std::nullopt;
    if (partOfLimit(*job) <= 1)
      return job;
    noteTooLarge(scored, *job);
  }
  return std::nullopt;
}
