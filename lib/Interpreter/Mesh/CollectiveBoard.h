// CollectiveBoard: where ranks meet for collectives.
//
// The n-th collective that a rank starts in a group meets the n-th of every other member. Each rank also has one queue:
// a collective runs only when it is the oldest unfinished one of all its members, so that two groups entered in
// opposite orders block each other here as they would on devices.
#ifndef HYC_LIB_INTERPRETER_MESH_COLLECTIVEBOARD_H
#define HYC_LIB_INTERPRETER_MESH_COLLECTIVEBOARD_H

#include "Mesh/Topology.h"
#include "mlir/IR/Operation.h"
#include <deque>
#include <map>
#include <memory>

namespace hyc::interpreter {

/// What one member asks for.
struct CollectiveStart {
  mlir::Operation *op = nullptr; ///< for diagnostics; null before the member comes
  dist::GroupAttr group;
  dist::ExchangeKind kind = dist::ExchangeKind::all_reduce;
  bool takesMaximum = false;
  bool joinsInWorldOrder = false; ///< shards are joined in the order of world ranks, not of the group's axes as listed
  int64_t cutDim = 0, joinedDim = 0; ///< of what has a part for each member, and of what gets one of each
  int64_t distance = 0;              ///< of a shift
  dist::AxisListAttr flat;           ///< null, or the axes by whose coordinate members have flat shards
  llvm::SmallVector<int64_t> operandShape, resultShape;
  /// "all_reduce sum of tensor<4xf32> over <{tp}> (cause "fc2")": members whose texts differ do not mean the same.
  std::string text;

  static CollectiveStart of(dist::ExchangeOpInterface start);
};

/// One meeting of a group's members.
struct Collective {
  std::vector<int64_t> members;          ///< world ranks, ascending
  std::vector<CollectiveStart> starts;   ///< by member
  std::vector<Tensor> operands, results; ///< by member
  bool isDone = false;

  size_t indexOf(int64_t worldRank) const { return llvm::find(members, worldRank) - members.begin(); }
};

class CollectiveBoard {
public:
  explicit CollectiveBoard(const Topology &topology) : topology(topology), queues(topology.getNumRanks()) {}

  /// `worldRank` starts a collective with this operand. Fails, after a diagnostic at the op that names the other side,
  /// where another member started something else.
  llvm::FailureOr<std::shared_ptr<Collective>> start(int64_t worldRank, const CollectiveStart &start,
                                                     const Tensor &operand);

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
  void combineFlat(Collective &collective) const;
  void scatter(Collective &collective, const Tensor &total) const;
  void join(Collective &collective, size_t member, llvm::ArrayRef<Tensor> parts) const;
  int64_t partOf(const Collective &collective, size_t member) const;

  const Topology &topology;
  std::map<std::vector<int64_t>, Group> groups; ///< by members
  std::vector<std::deque<std::shared_ptr<Collective>>> queues;
};

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_MESH_COLLECTIVEBOARD_H
