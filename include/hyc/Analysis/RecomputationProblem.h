// Which ops to execute again in backward, so that few bytes are saved and few operations repeated.
//
// A forward graph: ops, and the values that they make. Backward needs some of the values. Each of those is saved, or
// its op is executed again, which needs the op's operands in turn. For any price of a byte against an operation, the
// best choice is a minimum cut (in the manner of Chen et al. 2016 turned into a flow problem): a node for "op is
// executed again", one for "value is there in backward", and
//
//   source -> op        capacity: the price of executing it again
//   op -> its value     capacity: the price of saving it (cut: saved; both on the sink's side: executed again)
//   operand -> op       infinite: who executes an op has its operands
//   value -> sink       infinite, where backward needs it
//
// Under a budget of bytes the price is searched for. The surprise: no price gives the choices between two corners of
// the convex hull of (bytes, operations). Equal layers all change at the same price, so that gap may be the whole
// range; it is filled group by group (layer by layer), then op by op.
#ifndef HYC_ANALYSIS_RECOMPUTATIONPROBLEM_H
#define HYC_ANALYSIS_RECOMPUTATIONPROBLEM_H

#include <cstdint>
#include <vector>

namespace hyc {

/// One choice and what follows from it.
struct Recomputation {
  std::vector<bool> repeated; ///< by op: executed again if what it makes is wanted
  int64_t savedBytes = 0;
  int64_t cost = 0; ///< of the ops that backward does execute
};

class RecomputationProblem {
public:
  /// A value that is never saved: its op is executed again wherever it is wanted (a view, a read).
  static constexpr int64_t kNeverSaved = -1;

  /// Adds an op after all that make its operands; `cost` and bytes are below 2^55 in sum. `group` counts up from 0.
  int addOp(int64_t cost, bool mayRepeat, int group, const std::vector<int> &operands);
  /// Adds a value that `op` makes; -1: it comes from outside and can only be saved.
  int addValue(int op, int64_t bytes);
  void need(int value) { values[value].isNeeded = true; }

  /// What a choice leads to: only what backward wants is executed or saved.
  Recomputation evaluate(std::vector<bool> repeated) const;
  /// The choice that minimises bytePrice · bytes + costPrice · cost.
  Recomputation minimize(int64_t bytePrice, int64_t costPrice) const;
  /// The least cost, and under this the fewest bytes.
  Recomputation saveFreely() const;
  /// The fewest bytes, and under these the least cost.
  Recomputation saveLeast() const;
  /// A choice of low cost that saves at most `bytes`; saveLeast() where none does.
  Recomputation saveWithin(int64_t bytes) const;

private:
  struct Op {
    int64_t cost;
    bool mayRepeat;
    int group;
    std::vector<int> operands;
  };
  struct Value {
    int op;
    int64_t bytes;
    bool isNeeded = false;
  };

  Recomputation minimizeWide(__int128 bytePrice, __int128 costPrice) const;
  void fillGroups(Recomputation &choice, const Recomputation &richer, int64_t bytes) const;
  void fillOps(Recomputation &choice, int64_t bytes) const;

  std::vector<Op> ops;
  std::vector<Value> values;
};

} // namespace hyc

#endif // HYC_ANALYSIS_RECOMPUTATIONPROBLEM_H
