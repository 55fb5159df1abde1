// LayoutChoice: the search of lib/Planner as a command asks for it: what is fixed, what a device has, and each layout
// planned before it is taken up or named.
#ifndef HYC_LIB_DRIVER_FIT_LAYOUTCHOICE_H
#define HYC_LIB_DRIVER_FIT_LAYOUTCHOICE_H

#include "Fit/LayoutPlanning.h"

namespace hyc {

/// Whether the options leave a layout to be found: --ranks says how many, and no plan says the rest.
bool leavesLayoutOpen(const CompileOptions &options);

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

} // namespace hyc

#endif // HYC_LIB_DRIVER_FIT_LAYOUTCHOICE_H
