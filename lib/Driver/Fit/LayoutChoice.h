// LayoutChoice: the search of lib/Planner as a command asks for it: what is fixed, what a device has, and each layout
// planned before it is taken up or named.
#ifndef HYC_LIB_DRIVER_FIT_LAYOUTCHOICE_H
#define HYC_LIB_DRIVER_FIT_LAYOUTCHOICE_H

#include "Fit/StatePlacement.h"
#include "hyc/Analysis/MemoryAccount.h"
#include "hyc/Driver/CompileListener.h"
#include "hyc/Planner/Search.h"
#include "llvm/Support/Error.h"

#include <functional>

namespace hyc {

/// What planning under some options told.
struct PlannedJob {
  JobAccount account;
  double seconds = 0; ///< of a step
  std::vector<MovableParam> movable = {};
};
/// Plans under other options, or gives nothing where they cannot be planned.
using Replan = std::function<std::optional<PlannedJob>(const CompileOptions &)>;

/// What a search has at hand.
struct SearchMeans {
  ModelSource source;
  MachineRates machine;
  Replan replan;
  const CompileListener &listener;
};

/// Whether the options leave a layout to be found: --ranks says how many, and no plan says the rest.
bool leavesLayoutOpen(const CompileOptions &options);

/// Most bytes of a device: --device-memory, else the machine's; 0: nobody says.
llvm::Expected<double> memoryLimit(const CompileOptions &options, const MachineRates &machine);

/// A layout that was considered, for people to compare.
struct Candidate {
  std::string flags;
  double seconds = 0;                            ///< of a step
  double computation = 0, exposed = 0, idle = 0; ///< of those, as the cost model has them
  double bytes = 0;                              ///< of a device
  bool isPlanned = false;                        ///< seconds and bytes are those of its programs, not estimates
  bool isTaken = false, isTooLarge = false;
};

struct LayoutChoice {
  CompileOptions options;            ///< with the layout
  std::string summary;               ///< lines on what was found, and what was not tried
  double seconds = 0;                ///< of a step
  std::vector<int64_t> shares;       ///< micro-batches of a step by coordinate of dp; empty: equal
  std::vector<Candidate> candidates; ///< the one that is taken, others by time, then what does not fit by bytes
};

/// The fastest layout that fits. Nothing where the model cannot be read or trained, which compiling tells better; an
/// error (65) tells that none fits, and which needs least; one of 64 that what is fixed leaves none.
llvm::Expected<std::optional<LayoutChoice>> chooseLayout(const CompileOptions &options, const SearchMeans &means);

/// All flags that make it of the defaults, or "one rank".
std::string flagsOf(const Layout &layout);

/// What layouts of so many ranks have in common.
Plan planForSearch(const CompileOptions &options, int64_t ranks);

/// As many layouts of so many ranks that fit as are wanted, fastest first, each planned; `plans` counts up.
std::vector<ScoredLayout> findFitting(CostModel &costs, SearchRequest request, const CompileOptions &options,
                                      const SearchMeans &means, size_t wanted, size_t &plans,
                                      std::vector<PlannedJob> *planned = nullptr);

} // namespace hyc

#endif // HYC_LIB_DRIVER_FIT_LAYOUTCHOICE_H
