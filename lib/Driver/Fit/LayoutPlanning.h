// LayoutPlanning: layouts of a search planned one after the other, until enough of them fit.
//
// Estimates of memory are some per cent wrong, so the order is: by time, what fits by its estimate after those that
// have been seen to be too low; where nothing fits so far, all by time; then what needs least. A layout counts once,
// however many plans its states take to be placed. One that cannot be planned for another reason than memory does not
// count: others of its mesh wait until all else has been looked at.
//
// The surprise: layouts that differ in which states may leave the device are one here. What leaves it is chosen by the
// exact account, and may be nothing.
#ifndef HYC_LIB_DRIVER_FIT_LAYOUTPLANNING_H
#define HYC_LIB_DRIVER_FIT_LAYOUTPLANNING_H

#include "Fit/DeviceLimits.h"
#include "Fit/StatePlacement.h"
#include "hyc/Driver/CompileListener.h"
#include "hyc/Planner/Search.h"
#include "hyc/Support/DriverError.h"
#include "llvm/Support/Error.h"

#include <chrono>
#include <functional>
#include <map>
#include <set>

namespace hyc {

/// What planning under some options told.
struct PlannedJob {
  JobAccount account;
  double seconds = 0; ///< of a step
  std::vector<MovableParam> movable = {};
};
/// Plans under other options; the error is the first reason why they cannot be planned.
using Replan = std::function<llvm::Expected<PlannedJob>(const CompileOptions &)>;

/// What a search has at hand.
struct SearchMeans {
  ModelSource source;
  MachineRates machine;
  Replan replan;
  const CompileListener &listener;
};

/// The layout that programs are made for: where coordinates of dp take different numbers of micro-batches, the largest.
Layout compiledLayout(const ScoredLayout &scored);
CompileOptions optionsOf(const CompileOptions &options, const ScoredLayout &scored);
/// The layout but for which of its states may leave the device.
Layout baseOf(const Layout &layout);

/// One that was planned and does not fit.
struct LayoutTooLarge {
  Layout layout;
  double bytes = 0;
  DeviceLimit limit;
};

/// One that cannot be planned, whatever memory there is.
struct LayoutFailure {
  Layout layout;
  ExitCode code = ExitCode::Data;
  std::string reason;
};

class LayoutPlanning {
public:
  /// `means` has a machine with limits (withMemoryLimits).
  LayoutPlanning(const SearchRequest &request, const CompileOptions &options, const SearchMeans &means, size_t wanted)
      : request(request), options(options), means(means), wanted(wanted) {}

  void run(const SearchResult &found);

  std::vector<ScoredLayout> fitting; ///< fastest first, by estimates
  std::vector<PlannedJob> jobs;      ///< of each
  size_t planned = 0;                ///< layouts of which there is an account
  double worst = 1;                  ///< bytes of a plan over those that were estimated

  std::optional<LayoutTooLarge> closest; ///< that is least above its limit
  std::optional<LayoutFailure> failure;  ///< the first
  size_t failures = 0;

private:
  /// Which layouts a pass over them takes.
  enum class Pass { Likely, Any, Failed };
  void runPass(llvm::ArrayRef<ScoredLayout> layouts, Pass pass, size_t most);
  bool isTaken(const ScoredLayout &scored, Pass pass) const;
  void plan(ScoredLayout scored);
  void tellProgress();
  /// What there is already of the base of a layout, or a plan of it; null where it cannot be planned.
  struct Base;
  Base *baseFor(const ScoredLayout &scored);
  std::optional<PlannedJob> replan(const ScoredLayout &scored);
  /// Moves states off the device until every stage has its limit.
  std::optional<PlannedJob> place(ScoredLayout &scored, const PlannedJob &onDevice);
  bool addExcess(const JobAccount &job, llvm::ArrayRef<int64_t> movable, bool isLast,
                 std::vector<int64_t> &excess) const;
  void take(ScoredLayout scored, PlannedJob job);
  void noteTooLarge(const ScoredLayout &scored, const PlannedJob &job);
  double partOfLimit(const PlannedJob &job) const;

  struct Base {
    std::optional<PlannedJob> onDevice; ///< nothing where it fits
    bool isDone = false;                ///< there is nothing left to try of it
  };
  struct IsBefore {
    bool operator()(const Layout &a, const Layout &b) const { return a.all() < b.all(); }
  };
  using Mesh = std::tuple<int64_t, int64_t, int64_t>;
  static Mesh meshOf(const Layout &layout) { return {layout.tp, layout.pp, layout.dp}; }

  const SearchRequest &request;
  const CompileOptions &options;
  const SearchMeans &means;
  size_t wanted;
  std::map<Layout, Base, IsBefore> bases;
  std::set<Mesh> failedMeshes;
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
};

} // namespace hyc

#endif // HYC_LIB_DRIVER_FIT_LAYOUTPLANNING_H
