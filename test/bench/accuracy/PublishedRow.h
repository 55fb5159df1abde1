// A step that somebody measured and published, as far as hyc can plan the same: model, machine, layout, seconds.
#ifndef HYC_TEST_BENCH_ACCURACY_PUBLISHEDROW_H
#define HYC_TEST_BENCH_ACCURACY_PUBLISHEDROW_H

#include <string>
#include <vector>

#include "hyc/Planner/Layout.h"

namespace hyc::accuracy {

/// A decoder's sizes.
struct Shape {
  int64_t hidden = 0, layers = 0, heads = 0, keyHeads = 0, inner = 0, vocabulary = 0, sequence = 0;
  bool isGated = false;  ///< three products in the MLP, RMS norm and rotary positions: a Llama; else a GPT-2
  double dropout = 0;
  auto all() const { return std::tie(hidden, layers, heads, keyHeads, inner, vocabulary, sequence, isGated, dropout); }
  bool operator<(const Shape &other) const { return all() < other.all(); }
  /// Of its products, what one token goes through.
  double parameters() const;
};

struct PublishedRow {
  std::string source;  ///< the file
  std::string group;   ///< rows that may be ranked: of one model, number of devices and global batch
  Shape shape;
  std::string machine;  ///< of share/machines
  std::string precision = "bf16";
  /// Scores of attention in memory, as before fused kernels; a loss of several kernels; each rank of tp sends a part to
  /// the next stage, and gathers within the host.
  bool keepsScores = false;
  bool addsGradients = false;         ///< in kernels of their own
  bool awaitsSums = false;            ///< over tp, where they are made
  bool tellsTrainMetrics = false;     ///< of every micro-batch, from its logits once more
  bool hidesTensorExchanges = false;  ///< those of tp go on in parts beside the products before and after them
  bool broadcastsParameters = false;  ///< after the update, from each rank that has a part, one after the other
  bool dividesEvenly = false;  ///< as many blocks in each chunk of stages, whatever the embedding and the loss take
  /// Of the products' rate, what their attention reached, where it is not what the machine's file says; 0: as there.
  double attentionShare = 0;
  bool hasWideNetwork = false;  ///< 1,600 Gb/s between hosts, which is not what its machine's file has
  Layout layout;
  /// Nobody tells what is recomputed: nothing where the device has memory for that (heldByMegatron), else whole layers.
  bool recomputesWhatMustBe = false;
  double seconds = 0;
  std::string leftOut;  ///< why hyc cannot plan the same; empty: it can

  std::string describe() const;
  std::string model() const;  ///< the same for rows of one model, precision and machine
};

/// Every row of every table of `folder`, in the order of files and lines.
std::vector<PublishedRow> readPublished(const std::string &folder);

}  // namespace hyc::accuracy

#endif  // HYC_TEST_BENCH_ACCURACY_PUBLISHEDROW_H
