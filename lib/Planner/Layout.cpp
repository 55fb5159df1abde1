// A layout as an edit of a plan, by one table.
#include "hyc/Planner/Layout.h"

using namespace llvm;
using namespace hyc;

template <auto Member, auto Field> static constexpr VariedSetting vary() {
  return {memberOfPlan<Member>, [](const Layout &layout) { return SettingValue(plain(layout.*Field)); },
          [](Layout &layout, const SettingValue &value) {
            layout.*Field = std::get<Plain<std::decay_t<decltype(layout.*Field)>>>(value);
          }};
}

using L = Layout;
static constexpr VariedSetting kVaried[] = {
    vary<&Plan::tp, &L::tp>(),
    vary<&Plan::pp, &L::pp>(),
    vary<&Plan::dp, &L::dp>(),
    vary<&Plan::virtualStages, &L::virtualStages>(),
    vary<&Plan::zero, &L::zero>(),
    vary<&Plan::prefetch, &L::prefetch>(),
    vary<&Plan::sequenceParallel, &L::sequenceParallel>(),
    vary<&Plan::recompute, &L::recompute>(),
    vary<&Plan::schedule, &L::schedule>(),
    vary<&Plan::offloadActivations, &L::offloadActivations>(),
    vary<&Plan::offloadOptimizer, &L::offloadOptimizer>(),
    vary<&Plan::offloadGradients, &L::offloadGradients>(),
    vary<&Plan::offloadParam, &L::offloadParam>(),
    vary<&Plan::microBatch, &L::microBatch>(),
    vary<&Plan::gradAccum, &L::gradAccum>(),
};

ArrayRef<VariedSetting> hyc::getVariedSettings() { return kVaried; }

Layout hyc::layoutOf(const CompileOptions &options) {
  Layout layout;
  for (const VariedSetting &varied : kVaried)
    varied.set(layout, valueOf(varied.row().in(options)));
  return layout;
}

Layout hyc::withoutStateOffload(Layout layout) {
  layout.offloadOptimizer = layout.offloadGradients = layout.offloadParam = OffloadPlace::None;
  layout.room = 0;
  return layout;
}

CompileOptions hyc::withLayout(CompileOptions options, const Layout &layout) {
  for (const VariedSetting &varied : kVaried)
    offerTo(varied.row().in(options), varied.get(layout), Origin::Flag, "--" + varied.row().flag.str());
  options.ranks = std::vector<int64_t>();
  options.globalBatch.offer(layout.globalBatch(), Origin::Flag, "--global-batch");
  // Cuts and shardings belong to another mesh.
  options.planFile = "";
  PlanRules mesh;
  mesh.axes = options.rules.axes;
  mesh.order = options.rules.order;
  options.rules = mesh;
  return options;
}

std::string hyc::describeChange(const Layout &from, const Layout &to) {
  if (to.room > 0)
    return describeChange(from, withoutStateOffload(to)) + " (some states on the host)";
  std::string text;
  for (const VariedSetting &varied : kVaried)
    if (SettingValue after = varied.get(to); after != varied.get(from)) {
      text += (text.empty() ? "--" : " --") + varied.row().flag.str();
      if (!std::holds_alternative<bool>(after))
        text += " " + print(after);
      else if (!std::get<bool>(after))
        text += "=false";
    }
  if (to.ranks() != from.ranks())
    text += " (on " + std::to_string(to.ranks()) + " ranks)";
  return text;
}
