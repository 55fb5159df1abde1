// CollectiveBoard: where ranks meet for collectives.
//
// The n-th collective that a rank starts in a group meets the n-th of every other member. Each rank also has one queue:
// a collective runs only when it is the oldest unfinished one of all its members, so that two groups entered in opposite
// orders block each other here as they would on devices.
#ifndef HYC_LIB_INTERPRETER_COLLECTIVEBOARD_H
#define HYC_LIB_INTERPRETER_COLLECTIVEBOARD_H

#include "Topology.h"
#include "mlir/IR/Operation.h"
#include <deque>
#include <map>
#include <memory>

namespace hyc::interpreter {

/// One meeting of a group's members.
struct Collective {
  std::vector<int64_t> members;          ///< world ranks, ascending
  std::vector<mlir::Operation *> starts; ///< each member's start op, null before it comes
  std::vector<Tensor> operands, results; ///< by member
  bool isDone = false;

  size_t indexOf(int64_t worldRank) const { return llvm::find(members, worldRank) - members.begin(); }
};

class CollectiveBoard {
public:
  explicit CollectiveBoard(const Topology &topology) : topology(topology), queues(topology.getNumRanks()) {}

  /// `worldRank` executes the start op with this operand. Fails, after a diagnostic at `op` that names the other side,
  /// where another member started something else.
  llvm::FailureOr<std::shared_ptr<Collective>> start(int64_t worldRank, mlir::Operation *op, const Tensor &operand);

  /// What `worldRank` waits for when it waits for `collective`.
  std::string describeWait(int64_t worldRank, const Collective &collective) const;

  /// The oldest collective that `worldRank` started and that has not completed, or null.
  const Collective *getUnfinished(int64_t worldRank) const {
    return queues[worldRank].empty() ? nullptr : queues[worldRank].front().get();
  }

private:
  struct Group {
    std::map<int64_t, size_t> started; ///< how many, by world rank
    std::vector<std::shared_ptr<Collective>> meetings;
  };

  void completeWhatCan();
  bool isReady(const Collective &collective) const;
  void combine(Collective &collective) const;

  const Topology &topology;
  std::map<std::vector<int64_t>, Group> groups; ///< by members
  std::vector<std::deque<std::shared_ptr<Collective>>> queues;
};

/// "all_reduce sum of tensor<4xf32> over <{tp}> (cause "fc2")".
std::string describeCollective(mlir::Operation *start);

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_COLLECTIVEBOARD_H
