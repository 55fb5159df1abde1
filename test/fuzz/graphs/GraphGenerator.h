// Small models that train: a few nodes of any operators, valid as far as the importer says, between data, parameters
// and a loss. The same seed gives the same model.
#ifndef HYC_TEST_FUZZ_GRAPHS_GRAPHGENERATOR_H
#define HYC_TEST_FUZZ_GRAPHS_GRAPHGENERATOR_H

#include "OperatorRecipes.h"
#include "Random.h"
#include "lib/Import/ONNX/onnx_subset.pb.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace hyc::fuzzing {

struct GraphOptions {
  std::string op; ///< every graph has a node of it; empty: of any
  int mostNodes = 4;
};

struct GeneratedGraph {
  onnxfile::Model model;
  std::vector<std::string> ops; ///< of the table, those of the nodes that were to be tried
  std::string loss;             ///< for --loss
  int64_t batch = 4;            ///< samples of all inputs
};

/// Nothing where no valid node of the operator was found in some tries.
std::optional<GeneratedGraph> generateGraph(uint64_t seed, const GraphOptions &options);

/// What the importer makes of each output, by name: an ONNX data type and sizes. Nothing where it refuses the model.
struct TensorFacts {
  int32_t type = 0;
  std::vector<int64_t> shape;
};
std::optional<std::vector<TensorFacts>> importOutputs(const onnxfile::Model &model, int64_t batch);

} // namespace hyc::fuzzing

#endif // HYC_TEST_FUZZ_GRAPHS_GRAPHGENERATOR_H
