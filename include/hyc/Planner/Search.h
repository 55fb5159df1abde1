// Search: the layouts of a model on so many ranks, in the order of the time of a step that the cost model gives them.
//
// Everything that nobody has fixed is tried: every divisor of the ranks as tp and pp, every way of dividing the batch.
// A layout is passed over where its bound of memory from below is above the limit, and measures that only cost time
// (offload) where it fits well without. A micro-batch is not even probed where every layout with it takes longer, by a
// bound from below, than all that is listed. The order is the same every time: among equal times the plainer layout is
// first.
//
// The surprise: what comes out are estimates of memory. Who takes a layout up plans it and looks at the account.
#ifndef HYC_PLANNER_SEARCH_H
#define HYC_PLANNER_SEARCH_H

#include "hyc/Planner/CostModel.h"

namespace hyc {

struct SearchRequest {
  int64_t ranks = 1;
  int64_t globalBatch = 1; ///< samples of a step
  Layout fixed;            ///< values of what somebody has fixed
  std::vector<SettingRef (*)(Plan &)> isFixed;
  double limit = 0;   ///< bytes of a device; 0: none
  double seconds = 0; ///< after which the best so far is taken; 0: none
  size_t most = 1;    ///< layouts that are wanted
  /// Where states have to leave the device and nobody says which, no more of them do than do not fit (Layout::room).
  bool movesSingly = false;
};

struct ScoredLayout {
  Layout layout;
  LayoutCost cost;
  std::vector<std::string> cuts;         ///< as PlanRules has them
  std::vector<PlanRule> placements = {}; ///< of a layout that moves single states: which, once it was planned
};

struct SearchResult {
  std::vector<ScoredLayout> best;      ///< fastest first
  std::optional<ScoredLayout> closest; ///< where none fits: the one that needs least
  /// A few of those that may fit, also beyond the fastest: that which needs least first.
  std::vector<ScoredLayout> smallest;
  std::optional<Layout> unplannable; ///< the first shape of which no rank can have its part
  /// Of every tp, pp, dp and ZeRO stage that was scored: the fastest that may fit, else the one that needs least.
  std::vector<ScoredLayout> ofSplits;
  size_t shapes = 0;     ///< tp, pp, dp, virtual stages, micro-batch, splitting and recomputation
  size_t scored = 0;     ///< with ZeRO, offload and prefetching
  size_t tooLarge = 0;   ///< of those, by the bound of memory
  size_t impossible = 0; ///< shapes of which no rank can have its part
  size_t tooSlow = 0; ///< further shapes, by a bound of time: whatever else is chosen, faster ones fill all lists here
  bool ranOut = false;
};

SearchResult searchLayouts(CostModel &costs, const SearchRequest &request);

/// What no search tries, as a line for people.
llvm::StringRef describeUntried();

} // namespace hyc

#endif // HYC_PLANNER_SEARCH_H
