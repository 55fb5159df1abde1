// One node by a recipe: sizes that go together, operands that are there already or new ones, attributes.
#ifndef HYC_TEST_FUZZ_GRAPHS_NODEDRAFT_H
#define HYC_TEST_FUZZ_GRAPHS_NODEDRAFT_H

#include "OperatorRecipes.h"
#include "Random.h"
#include "lib/Import/ONNX/onnx_subset.pb.h"

#include <map>
#include <optional>

namespace hyc::fuzzing {

/// A value of the graph that a node may take.
struct DraftValue {
  std::string name;
  int32_t type;
  std::vector<int64_t> shape;
};

class NodeDraft {
public:
  NodeDraft(const OperatorRecipe &recipe, const std::vector<DraftValue> &values, int64_t batch, Random &random)
      : recipe(recipe), values(values), batch(batch), random(random) {}

  /// Adds the node as the last one, and what it takes beside `values`.
  void addTo(onnxfile::Graph &graph);

private:
  std::optional<std::string> takeExisting(const OperandRecipe &operand);
  std::string makeOperand(onnxfile::Graph &graph, const OperandRecipe &operand);
  bool unify(const OperandRecipe &operand, const std::vector<int64_t> &shape);
  std::vector<int64_t> chooseShape(const OperandRecipe &operand);
  int64_t sizeOf(char letter);
  std::vector<int64_t> broadcastTo(std::vector<int64_t> shape);
  std::vector<double> chooseValues(const OperandRecipe &operand, std::vector<int64_t> &shape);
  /// Values that follow from the first operand; changes `shape` to hold them.
  std::vector<double> deriveValues(const std::string &rule, std::vector<int64_t> &shape);
  std::vector<double> reshapeValues();
  double number(const std::string &range);
  int64_t evaluate(llvm::StringRef text) const;
  void setAttribute(onnxfile::Node &node, const AttributeRecipe &attribute);
  std::string nameNew(const onnxfile::Graph &graph) const;

  const OperatorRecipe &recipe;
  const std::vector<DraftValue> &values;
  int64_t batch;
  Random &random;
  std::map<char, int64_t> sizes;
  std::optional<std::vector<int64_t>> star;
  std::vector<int64_t> first; ///< sizes of the first operand
};

} // namespace hyc::fuzzing

#endif // HYC_TEST_FUZZ_GRAPHS_NODEDRAFT_H
