// GraphText: writes hyc ops as text, one by one, and keeps the types straight.
#ifndef HYC_TEST_EQUIVALENCE_GRAPHTEXT_H
#define HYC_TEST_EQUIVALENCE_GRAPHTEXT_H

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace hyc::equivalence {

using Shape = std::vector<int64_t>;

struct GraphValue {
  std::string name; ///< "%v3"
  Shape shape;
  std::string element = "f32";
  std::string type() const;
};

class GraphText {
public:
  /// Ids of the ops and names of the parameters from here on start with this.
  void setScope(const std::string &newScope) { scope = newScope; }
  const std::string &getScope() const { return scope; }

  /// A parameter `scope.name` with normal values; `frozen` ones get no gradient. Returns its symbol.
  std::string parameter(const std::string &name, const Shape &shape, double mean, double stddev, bool frozen);
  GraphValue read(const std::string &symbol, const Shape &shape);
  GraphValue argument(const std::string &name, const Shape &shape, const std::string &element);

  /// An op whose operands and result have one type: "hyc.add".
  GraphValue same(const std::string &op, const std::vector<GraphValue> &operands);
  /// An op with a functional type. `text` is what stands between the op's name and its attributes, where $0, $1, … are
  /// the operands' names: (`hyc.reduce`, "sum $0 [1]").
  GraphValue apply(const std::string &op, const std::string &text, const std::vector<GraphValue> &operands,
                   const Shape &shape, const std::string &element = "f32");
  /// The same for an op that prints one type, its operand's and its result's.
  GraphValue applySame(const std::string &op, const std::string &text, const GraphValue &operand);
  std::vector<GraphValue> applyMany(const std::string &op, const std::string &text,
                                    const std::vector<GraphValue> &operands, const std::vector<GraphValue> &results);
  GraphValue constant(double value, const Shape &shape, const std::string &element = "f32");
  GraphValue iota(int64_t dim, const Shape &shape);

  GraphValue einsum(const std::string &spec, const GraphValue &lhs, const GraphValue &rhs);
  /// x times a number.
  GraphValue scaled(const GraphValue &x, double factor);
  GraphValue broadcast(const GraphValue &x, const std::string &dims, const Shape &shape);
  GraphValue reduce(const std::string &kind, const GraphValue &x, const std::vector<int64_t> &dims);

  /// A hyc.scan: from here to endScan ops belong to its step, which takes the carried values, an element of each
  /// sequence and the invariants. Returns these.
  std::vector<GraphValue> beginScan(const std::vector<GraphValue> &init, const std::vector<GraphValue> &sequences,
                                    const std::vector<GraphValue> &invariants);
  /// `yielded`: what a step carries on, then what is stacked. Returns what the last carries on, then the stacks.
  std::vector<GraphValue> endScan(bool isReverse, const std::vector<GraphValue> &yielded);

  /// The whole module: @train returns `results`.
  std::string finish(const std::vector<GraphValue> &results) const;

private:
  std::string nextId(const std::string &op);
  std::string nextName() { return "%v" + std::to_string(numValues++); }

  struct Scan {
    std::string before; ///< the body until it begins
    std::vector<GraphValue> init, sequences, invariants;
    std::string step; ///< the arguments of a step
  };

  std::string scope, symbols, arguments, body;
  Scan scan; ///< that is being written
  int numValues = 0, numIds = 0;
};

} // namespace hyc::equivalence

#endif // HYC_TEST_EQUIVALENCE_GRAPHTEXT_H
