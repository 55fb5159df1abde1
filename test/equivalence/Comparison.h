// One random graph, planned and partitioned over a mesh and executed by all its ranks, against one device: over tensors
// at phase 4 and over arenas of bytes at phase 5. Everything runs in f64, so that only a wrong program can differ by
// more than 1e-9.
#ifndef HYC_TEST_EQUIVALENCE_COMPARISON_H
#define HYC_TEST_EQUIVALENCE_COMPARISON_H

#include "RandomGraph.h"
#include "TrainedModule.h"
#include "hyc/Interpreter/Interpreter.h"
#include <functional>
#include <initializer_list>

namespace hyc::equivalence {

/// How one seed's graph is spread.
struct Layout {
  int64_t tp, pp, dp, microBatch, microBatches, steps;
  int64_t virtualStages = 1;
  std::string schedule, optimizer;
  std::string axes; ///< further options of hyc-create-mesh: " axes=ep:2"

  explicit Layout(uint64_t seed);
  bool uses(const char *name) const { return optimizer.find(name) != std::string::npos; }
  bool isLion() const { return uses("lion"); }
  std::string describe() const;
};

/// What became of a program that was changed after it was partitioned.
struct MutantOutcome {
  enum Kind { Sound, Hangs, Fails, Differs };
  Kind kind = Sound;   ///< when it is executed
  std::string refusal; ///< what the checks of phase 4 say against it; empty: nothing
  std::string failure; ///< what executing it told
  std::string kindName() const;
};

class Comparison {
public:
  explicit Comparison(uint64_t seed);

  uint64_t seed;
  Layout layout;
  RandomGraphOptions options;
  std::function<RandomGraph(uint64_t, const RandomGraphOptions &)> makeGraph = makeRandomGraph;
  /// Passes before differentiation, each with a comma.
  std::string beforeDifferentiation;
  /// Passes between differentiation and the optimizer, each with a comma: "hyc-convert-precision{precision=bf16},".
  std::string precision;
  /// Edits the plan before seeds are chosen: the module has its mesh and nothing else of phase 3.
  std::function<void(TrainedModule &)> edit;
  /// Of hyc-seed-shardings.
  std::string seeds;
  std::string zero;     ///< options of hyc-shard-states
  std::string policies; ///< of hyc-record-policies: "name=value,name=value"
  /// Of phase 5.

  /// Plans, partitions, executes and compares; records failures with the test framework.
  void run();
  /// Changes a copy of the partitioned program by each of `changes`, has it checked as phase 4 does at its end, and
  /// executes it whatever the checks said. The first outcome is that of the program as it is.
  std::vector<MutantOutcome> runChanged(const std::vector<std::function<void(mlir::ModuleOp)>> &changes);
  /// Whether phase 3 accepts the plan. If not, `diagnostics` says why.
  bool isAccepted(std::string &diagnostics);
  /// The partitioned module as text; empty after a failure.
  std::string partitionedText();
  /// Of the graph that this comparison makes.
  std::vector<std::string> graphParameters() const { return makeGraph(seed, options).parameters; }

private:
  std::string trainPipeline() const {
    return beforeDifferentiation + "hyc-differentiate," + precision + "hyc-attach-optimizer{" + layout.optimizer +
           "},hyc-verify-train";
  }
  bool plan(TrainedModule &module);
  void fitToLayers(int64_t layers);
  bool partition(TrainedModule &module);
  template <typename Ranks> void compareSteps(TrainedModule &whole, TrainedModule &parts, const std::string &phase);
  template <typename Ranks> void compareStep(interpreter::Interpreter &one, Ranks &all, int64_t step);
  std::string where() const { return "seed " + std::to_string(seed) + ": " + layout.describe() + ", " + seeds + zero; }

  RandomGraph graph;
};

/// Something that the partitioned text of at least `least` graphs has to contain, as a regular expression.
struct Feature {
  const char *pattern;
  int least;
};

/// Fails for each feature that the comparisons of the first `seeds` seeds do not show often enough.
void expectFeatures(std::initializer_list<Feature> features, uint64_t seeds,
                    const std::function<Comparison(uint64_t)> &comparisonOf);

/// The seeds that the environment variable `name` chooses, as FIRST:COUNT; 0:`count` where it is not set.
std::pair<uint64_t, uint64_t> chosenSeeds(const char *name, uint64_t count);

} // namespace hyc::equivalence

#endif // HYC_TEST_EQUIVALENCE_COMPARISON_H
