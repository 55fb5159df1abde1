// Counts of kernels, and of bytes by the types of what each reads and writes.
#include "Framework.h"

using namespace hyc;
using namespace hyc::accuracy;

namespace {
/// What stands beside one fused kernel of hyc's: bytes of an element that are read and written more, and kernels that
/// are started more.
struct Unfused {
  double bytes = 0, kernels = 0;

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
/// The softmax of megatron/model/fused_softmax.py without its kernel: cast (6), scaled (8), masked (8), softmax (8),
/// cast (6); hyc's reads and writes 16 bits (4).
constexpr Unfused kSoftmaxForward = {32, 4};
/// Cast (6), softmax (12), masked (8), scaled (8), cast (6); hyc's reads two and writes one of 16 bits (6).
constexpr Unfused kSoftmaxBackward = {34, 4};

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
  if (hasFusedSoftmax(row)) return;
  Unfused backward = kSoftmaxBackward;
  if (row.layout.recompute != "none")  // of the whole layer, or of its attention
    backward = {backward.bytes + kSoftmaxForward.bytes, backward.kernels + kSoftmaxForward.kernels};
  double scores = samples * static_cast<double>(row.shape.heads) * sequence * sequence / tp;
  for (size_t block = 1; block + 1 < costs.layers.size(); ++block)
    add(kSoftmaxForward, backward, scores, rates, costs.layers[block]);
}

void hyc::accuracy::addTrainMetrics(const PublishedRow &row, const MachineRates &rates, ModelCost &costs) {
  double tokens = static_cast<double>(row.layout.microBatch * row.shape.sequence);
  add(kTrainMetrics, {}, tokens * static_cast<double>(row.shape.vocabulary), rates, costs.layers.back());
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
