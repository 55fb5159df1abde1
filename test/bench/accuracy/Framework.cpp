// Counts of kernels, and of bytes by the types of what each reads and writes.
#include "Framework.h"

using namespace hyc;
using namespace hyc::accuracy;

namespace {
/// What stands beside one fused kernel of hyc's: bytes of an element that are read and written more, and kernels that
/// are started more.
struct Unfused {
  double bytes = 0, kernels = 0;

  Unfused operator+(const Unfused &other) const { return {bytes + other.bytes, kernels + other.kernels}; }
  Unfused operator-(const Unfused &other) const { return {bytes - other.bytes, kernels - other.kernels}; }
  double seconds(double elements, const MachineRates &rates) const {
    return elements * bytes / (rates.memory * rates.memoryShare) + kernels * rates.launch;
  }
};

/// The loss of megatron/mpu/cross_entropy.py, of logits of 16 bits: cast to 32 (6 bytes read and written), their
/// maximum (4), subtracted (8), exponentiated (8), summed (4), divided (8); hyc's reads them once (2). With what finds
/// out which targets are a rank's, 18 kernels.
constexpr Unfused kLossForward = {36, 17};
/// Times the gradient (8), cast to 16 bits (6); hyc's reads and writes 16 bits (4).
constexpr Unfused kLossBackward = {10, 5};
/// Of a score, what hyc's definition of attention takes beside its two products, where it is no kernel of its own
/// ("decomposed"): its maximum (2 bytes read), exponentiated in 32 bits (6), divided (6), the mask of dropout made and
/// kept (7); backward by dropout, whose products are added up (7), and by softmax (6).
constexpr Unfused kScoresForward = {21, 4}, kScoresBackward = {13, 2};
/// megatron/fused_kernels/scaled_upper_triang_masked_softmax.h reads what is not masked, half, and writes all (3), then
/// dropout (5); backward dropout (5), and of the softmax two halves read and all written (4).
constexpr Unfused kFusedForward = {8, 2}, kFusedBackward = {9, 2};
/// The softmax of megatron/model/fused_softmax.py without its kernel: cast (6), scaled (8), masked (8), softmax (8),
/// cast (6), then dropout (5).
constexpr Unfused kSoftmaxForward = {41, 6};
/// Dropout (5), cast (6), softmax (12), masked (8), scaled (8), cast (6).
constexpr Unfused kSoftmaxBackward = {45, 6};

/// megatron/model/distributed.py of 2021: what a product gives in 16 bits (2 bytes written) is added to a gradient of
/// 32 in a kernel of its own (10), where hyc's product does so.
constexpr Unfused kGradientSum = {12, 1};

/// llm-foundry's LanguageCrossEntropy and LanguagePerplexity (composer/metrics/nlp.py), which
/// Trainer._eval_train_metrics gives the logits of every micro-batch under autocast: each casts them to 32 bits (6) and
/// takes the logarithm of their softmax (8).
constexpr Unfused kTrainMetrics = {28, 6};

void add(const Unfused &forward, const Unfused &backward, double elements, const MachineRates &rates,
         LayerCost &layer) {
  layer.forward += forward.seconds(elements, rates);
  layer.forwardStarts += forward.kernels * rates.dispatch;
  layer.backward += backward.seconds(elements, rates);
  layer.backwardStarts += backward.kernels * rates.dispatch;
}

/// Its kernel takes heads by fours, of all samples of a rank.
bool hasFusedSoftmax(const PublishedRow &row) {
  return row.layout.microBatch * row.shape.heads / row.layout.tp % 4 == 0;
}
}  // namespace

void hyc::accuracy::addUnfusedKernels(const PublishedRow &row, const MachineRates &rates, ModelCost &costs) {
  double tp = static_cast<double>(row.layout.tp), sequence = static_cast<double>(row.shape.sequence);
  double samples = static_cast<double>(row.layout.microBatch);
  double logits = samples * sequence * static_cast<double>(row.shape.vocabulary) / tp;
  add(kLossForward, kLossBackward, logits, rates, costs.layers.back());
  Unfused forward = (hasFusedSoftmax(row) ? kFusedForward : kSoftmaxForward) - kScoresForward;
  Unfused backward = (hasFusedSoftmax(row) ? kFusedBackward : kSoftmaxBackward) - kScoresBackward;
  if (row.layout.recompute != RecomputeMode::None)  // of the whole layer, or of its attention
    backward = backward + forward;
  double scores = samples * static_cast<double>(row.shape.heads) * sequence * sequence / tp;
  for (size_t block = 1; block + 1 < costs.layers.size(); ++block)
    add(forward, backward, scores, rates, costs.layers[block]);
}

void hyc::accuracy::addGradientSums(const MachineRates &rates, ModelCost &costs) {
  for (LayerCost &layer : costs.layers)
    add({}, {kGradientSum.bytes, kGradientSum.kernels * layer.tensors}, layer.gradients / 4, rates, layer);
}

void hyc::accuracy::awaitSums(const PublishedRow &row, const MachineRates &rates, ModelCost &costs) {
  double tp = static_cast<double>(row.layout.tp);
  double bytes = static_cast<double>(2 * row.layout.microBatch * row.shape.sequence * row.shape.hidden);
  double sum = rates.exchangeSeconds({{{row.layout.tp, 1}}}, bytes, 2 * bytes * (tp - 1) / tp);
  double sums = row.layout.recompute == RecomputeMode::Layer ? 4 : 2;  // of each block, and of its forward once more
  for (size_t block = 1; block + 1 < costs.layers.size(); ++block)
    costs.layers[block].backwardExchanges = std::max(costs.layers[block].backwardExchanges, sums * sum);
}

void hyc::accuracy::addTrainMetrics(const PublishedRow &row, const MachineRates &rates, ModelCost &costs) {
  double tokens = static_cast<double>(row.layout.microBatch * row.shape.sequence);
  add(kTrainMetrics, {}, tokens * static_cast<double>(row.shape.vocabulary), rates, costs.layers.back());
}

void hyc::accuracy::hideTensorExchanges(const MachineRates &rates, ModelCost &costs) {
  auto hide = [&](double kernels, double &exchanges) {
    exchanges = std::max(exchanges - kernels, (1 - rates.overlapShare) * exchanges);
  };
  for (LayerCost &layer : costs.layers) {
    hide(layer.forward, layer.forwardExchanges);
    hide(layer.backward, layer.backwardExchanges);
  }
}

double hyc::accuracy::addedByBroadcasts(const PublishedRow &row, const MachineRates &rates, const ModelCost &costs) {
  double bytes = 0, owners = static_cast<double>(row.layout.dp), part;
  for (const LayerCost &layer : costs.layers) bytes += layer.parameters;
  part = bytes / owners;
  RankGroup group{{{row.layout.dp, row.layout.tp}}};
  double broadcast = rates.exchangeSeconds(group, part, part, Traffic::AllGather);
  return owners * broadcast - rates.exchangeSeconds(group, bytes, bytes - part, Traffic::AllGather);
}

std::optional<std::vector<size_t>> hyc::accuracy::cutEvenly(const PublishedRow &row, const ModelCost &costs) {
  auto chunks = static_cast<size_t>(row.layout.pp * row.layout.virtualStages);
  size_t blocks = costs.layers.size() - 2;
  if (costs.layers.size() != static_cast<size_t>(row.shape.layers) + 2 || blocks % chunks != 0) return std::nullopt;
  std::vector<size_t> ends;
  for (size_t chunk = 1; chunk <= chunks; ++chunk) ends.push_back(1 + blocks / chunks * chunk);
  ++ends.back();
  return ends;
}
