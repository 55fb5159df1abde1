// What the planner's cost model and a short formula predict of published rows.
#ifndef HYC_TEST_BENCH_ACCURACY_PREDICTION_H
#define HYC_TEST_BENCH_ACCURACY_PREDICTION_H

#include <map>

#include "PublishedRow.h"
#include "hyc/Planner/CostModel.h"
#include "mlir/IR/MLIRContext.h"

namespace hyc::accuracy {

/// What a calibration changes of a machine: its rates times these, and what a framework's host takes for each kernel.
struct Factors {
  double products = 1, memory = 1, link = 1, launch = 1;
  double dispatch = 0;  ///< seconds
  auto all() const { return std::tie(products, memory, link, launch, dispatch); }
};
MachineRates scaled(MachineRates rates, const Factors &factors);

/// Keeps a cost model for each model and machine. Ends the program where a machine's file cannot be read.
class Predictor {
 public:
  explicit Predictor(std::string machinesFolder);
  ~Predictor();

  /// Seconds of a step; nothing where no rank can have its part. What is recomputed is told in `row`.
  std::optional<double> predict(PublishedRow &row);
  /// All that is predicted from now on is of machines changed by these.
  void calibrate(const Factors &factors);
  const MachineRates &ratesOf(const std::string &machine);

 private:
  using Key = std::tuple<Shape, std::string, std::string, bool, double, bool>;
  static Key keyOf(const PublishedRow &row);
  MachineRates ratesFor(const Key &key);  ///< the machine as the factors and the row have it
  CostModel *costsOf(const PublishedRow &row);

  std::string folder;
  mlir::MLIRContext context;
  Factors factors;
  std::map<std::string, MachineRates> machines;  ///< as their files say
  struct Timed {
    std::unique_ptr<CostModel> costs;
    Factors by;  ///< what it was timed with last
  };
  std::map<Key, Timed> models;
  std::vector<std::string> configs;  ///< files that are read again for each micro-batch
};

/// Bytes of a rank's states and saved activations in Megatron-LM with a distributed optimizer, sequence parallelism and
/// attention that keeps no scores, without recomputation: section 4 of arXiv:2205.05198, where a token of a layer keeps
/// 34 × hidden, counted by what it is made of, so that it holds for gated layers and fewer key heads.
double heldByMegatron(const PublishedRow &row);

/// Operations, exchanges and the bubble with constants set by hand: what a cost model should beat.
double predictByFormula(const PublishedRow &row, const MachineRates &rates);

}  // namespace hyc::accuracy

#endif  // HYC_TEST_BENCH_ACCURACY_PREDICTION_H
