// Sums over layers: where a model is cut into stages, and what a layout costs. docs/planning.md has the formulas, and
// what they leave out.
#ifndef HYC_LIB_PLANNER_LAYOUTCOSTS_H
#define HYC_LIB_PLANNER_LAYOUTCOSTS_H

#include "hyc/Planner/CostModel.h"

namespace hyc {

/// All that is summed up.
inline constexpr double LayerCost::*kFigures[] = {
    &LayerCost::forward,       &LayerCost::backward,        &LayerCost::forwardExchanges, &LayerCost::backwardExchanges,
    &LayerCost::forwardStarts, &LayerCost::backwardStarts,  &LayerCost::operations,       &LayerCost::update,
    &LayerCost::parameters,    &LayerCost::gradients,       &LayerCost::optimizer,        &LayerCost::saved,
    &LayerCost::transient,     &LayerCost::communication,   &LayerCost::workspace,        &LayerCost::other,
    &LayerCost::crossing,      &LayerCost::largestGradient, &LayerCost::largestParameter, &LayerCost::tensors,
    &LayerCost::divisible,     &LayerCost::divisibleBytes,  &LayerCost::updateLaunching,  &LayerCost::updateLaunches};

/// See CostModel::cut.
std::vector<size_t> cutLayers(const ModelCost &model, const Layout &layout, const MachineRates &rates);

/// See CostModel::sum.
std::vector<StageCost> sumStages(const ModelCost &model, const Layout &layout, const std::vector<size_t> &ends,
                                 const MachineRates &rates);

/// See CostModel::costOf. `base`: what all layouts have in common.
LayoutCost costOfLayout(const ModelCost &model, const Layout &layout, const std::vector<StageCost> &stages,
                        const MachineRates &rates, const Plan &base);

/// See CostModel::leastSeconds.
std::optional<double> leastSecondsOf(double operations, const Layout &layout, int64_t pieces,
                                     const MachineRates &rates);

} // namespace hyc

#endif // HYC_LIB_PLANNER_LAYOUTCOSTS_H
