// Layout: one whole choice of what a search may vary: the mesh, batches, ZeRO stage, recomputation, offload. An edit of
// a plan, and what messages call it.
#ifndef HYC_PLANNER_LAYOUT_H
#define HYC_PLANNER_LAYOUT_H

#include "hyc/Plan/SettingTable.h"
#include "llvm/ADT/ArrayRef.h"

#include <tuple>

namespace hyc {

struct Layout {
  int64_t tp = 1, pp = 1, dp = 1, virtualStages = 1, microBatch = 1, gradAccum = 1, zero = 0, prefetch = 0;
  bool sequenceParallel = false;
  Choice<RecomputeMode> recompute = RecomputeMode::None;
  Choice<PipelineSchedule> schedule = PipelineSchedule::OneForwardOneBackward;
  Choice<OffloadPlace> offloadActivations = OffloadPlace::None, offloadOptimizer = OffloadPlace::None,
                       offloadParam = OffloadPlace::None;
  Choice<OffloadPlace> offloadGradients = OffloadPlace::None; ///< only beside the optimizer
  /// Of a layout that moves no more of these states (optimizer first, then gradients, then parameters) off the device
  /// than what does not fit there: the bytes of the device; 0: all that is said above.
  double room = 0;

  int64_t ranks() const { return tp * pp * dp; }
  int64_t globalBatch() const { return microBatch * gradAccum * dp; }
  auto all() const {
    return std::tie(tp, pp, dp, virtualStages, microBatch, gradAccum, zero, prefetch, sequenceParallel, recompute,
                    schedule, offloadActivations, offloadOptimizer, offloadParam, offloadGradients, room);
  }
  bool operator==(const Layout &other) const { return all() == other.all(); }
};

/// A setting that the search varies, and the member of a layout that holds its value.
struct VariedSetting {
  SettingRef (*setting)(Plan &);
  SettingValue (*get)(const Layout &);
  void (*set)(Layout &, const SettingValue &);

  const SettingRow &row() const { return rowOf(setting); }
};
/// As `layout`, but its states on the device: rules of single parameters say which are not.
Layout withoutStateOffload(Layout layout);

/// In the order in which proposals name them.
llvm::ArrayRef<VariedSetting> getVariedSettings();

/// What the options say, given or not.
Layout layoutOf(const CompileOptions &options);

/// `options` with the layout's choice in place of what they say; a rule about the mesh stays.
CompileOptions withLayout(CompileOptions options, const Layout &layout);

/// The flags in which `to` differs from `from`: "--zero 3 --recompute layer".
std::string describeChange(const Layout &from, const Layout &to);

} // namespace hyc

#endif // HYC_PLANNER_LAYOUT_H
