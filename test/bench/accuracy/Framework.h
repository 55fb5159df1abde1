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

/// Adds kernels that add a gradient to those of earlier micro-batches, one a tensor, where hyc's product does so.
void addGradientSums(const MachineRates &rates, ModelCost &costs);

/// Lets backward wait for its sums over tp where they are made, as Megatron-LM did before its asynchronous linear
/// layers (megatron/mpu/layers.py).
void awaitSums(const PublishedRow &row, const MachineRates &rates, ModelCost &costs);

/// Adds the two metrics that Composer computes beside the loss, each a cross entropy of its own from the same logits.
void addTrainMetrics(const PublishedRow &row, const MachineRates &rates, ModelCost &costs);

/// Takes out of what the layers wait for the exchanges of tp that go on beside their products, in parts (Transformer
/// Engine's user buffers): each is done when the products are, which it slows down.
void hideTensorExchanges(const MachineRates &rates, ModelCost &costs);

/// Seconds of a step by which InternEvo's broadcasts of parameters take longer than one gather of them
/// (hybrid_zero_optim.py, broadcast_params): each of dp ranks sends its part to all others in a ring, one after the
/// other.
double addedByBroadcasts(const PublishedRow &row, const MachineRates &rates, const ModelCost &costs);

/// As many blocks in each chunk, the embedding before the first and the head behind the last: the ends of chunks.
/// Nothing where the blocks cannot be dealt out so.
std::optional<std::vector<size_t>> cutEvenly(const PublishedRow &row, const ModelCost &costs);

}  // namespace hyc::accuracy

#endif  // HYC_TEST_BENCH_ACCURACY_FRAMEWORK_H
