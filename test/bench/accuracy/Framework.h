// What the programs of published systems do otherwise than hyc's, as far as their sources tell: kernels that hyc has
// fused, layers that are dealt out evenly. Nothing here is fitted.
#ifndef HYC_TEST_BENCH_ACCURACY_FRAMEWORK_H
#define HYC_TEST_BENCH_ACCURACY_FRAMEWORK_H

#include <optional>

#include "PublishedRow.h"
#include "hyc/Planner/CostModel.h"

namespace hyc::accuracy {

/// Adds what Megatron-LM of 2021 computes in several kernels and hyc in one: its loss, and the softmax where its fused
/// kernel does not take the sizes. `costs` are those of the row's layout, the last layer with the loss.
void addUnfusedKernels(const PublishedRow &row, const MachineRates &rates, ModelCost &costs);

/// Adds the two metrics that Composer computes beside the loss, each a cross entropy of its own from the same logits.
void addTrainMetrics(const PublishedRow &row, const MachineRates &rates, ModelCost &costs);

/// As many blocks in each chunk, the embedding before the first and the head behind the last: the ends of chunks.
/// Nothing where the blocks cannot be dealt out so.
std::optional<std::vector<size_t>> cutEvenly(const PublishedRow &row, const ModelCost &costs);

}  // namespace hyc::accuracy

#endif  // HYC_TEST_BENCH_ACCURACY_FRAMEWORK_H
