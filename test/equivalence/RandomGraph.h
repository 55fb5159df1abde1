// Random training graphs: phase 1 modules whose @train returns a loss sum and a count, for holding a partitioned
// program against one device.
//
// A seed stands for one graph. Sizes are odd where that can hurt, values have several users, parameters are sometimes
// tied or frozen, and what no op has used by the end feeds the loss.
#ifndef HYC_TEST_EQUIVALENCE_RANDOMGRAPH_H
#define HYC_TEST_EQUIVALENCE_RANDOMGRAPH_H

#include "hyc/Interpreter/Device.h"
#include <string>
#include <vector>

namespace hyc::equivalence {

struct GraphInput {
  std::string name;
  std::vector<int64_t> shape; ///< the first dimension counts the samples of one global micro-batch
  int64_t bound = 0;          ///< integers below it; 0 means f32
  bool mayBeIgnored = false;  ///< labels: some are -100
};

struct RandomGraph {
  std::string module;
  std::vector<GraphInput> inputs;
  std::vector<std::string> parameters;
};

struct RandomGraphOptions {
  int64_t samples = 4;      ///< of one global micro-batch
  int64_t headMultiple = 1; ///< attention has a multiple of this many heads, which tensor parallelism has to divide
  int64_t blocks = 6;       ///< how many blocks the body has
  int64_t widthFactor = 1;  ///< widths and vocabulary are this many times larger
  int64_t sizeMultiple = 1; ///< sequence, widths and vocabulary are rounded up to multiples of it
  bool drops = false;       ///< whether blocks have dropout, and attention its own
  bool slides = false;      ///< whether blocks have windows, orders, running sums and products
  bool recurs = false;      ///< whether blocks have scans over the sequence
  int64_t tiedPercent = 20; ///< of weights whose shape another has already that are that other one
};

RandomGraph makeRandomGraph(uint64_t seed, const RandomGraphOptions &options);

/// Values for `microBatches` global micro-batches of the graph.
interpreter::NamedTensors makeRandomBatch(const RandomGraph &graph, uint64_t seed, int64_t microBatches);

} // namespace hyc::equivalence

#endif // HYC_TEST_EQUIVALENCE_RANDOMGRAPH_H
