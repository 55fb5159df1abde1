// Topology: which world rank sits where on the mesh, who shares a group, and which part of a tensor it holds.
//
// World rank = (stage · …axes major to minor…). On axes dp 2, tp 2 and 2 stages, rank 5 is stage 1, dp 0, tp 1.
#ifndef HYC_LIB_INTERPRETER_MESH_TOPOLOGY_H
#define HYC_LIB_INTERPRETER_MESH_TOPOLOGY_H

#include "dialects/Dist/DistDialect.h"
#include "hyc/Interpreter/Device.h"

namespace hyc::interpreter {

class Topology {
public:
  /// At most this many ranks are simulated.
  static constexpr int64_t kMostRanks = 4096;

  /// Fails after a diagnostic where there are too many ranks.
  static llvm::FailureOr<Topology> create(dist::MeshOp mesh);

  int64_t getNumRanks() const { return stages * ranksPerStage; }
  int64_t getNumStages() const { return stages; }
  /// Pieces that the model is cut into; chunk c is virtual stage c div stages of stage c mod stages.
  int64_t getNumChunks() const { return stages * virtualStages; }
  /// The chunk of a rank's stage whose function makes or takes what is transferred.
  int64_t getChunk(int64_t worldRank, dist::TransferAttr transfer) const {
    return transfer.getVirtualStage() * stages + getStage(worldRank);
  }
  /// The rank at the other side; nothing where the model begins or ends here.
  std::optional<int64_t> getPeer(int64_t worldRank, dist::TransferAttr transfer) const;
  int64_t getStage(int64_t worldRank) const { return worldRank / ranksPerStage; }
  /// The rank of the same coordinates in another stage.
  int64_t atStage(int64_t worldRank, int64_t stage) const { return stage * ranksPerStage + worldRank % ranksPerStage; }

  llvm::StringMap<AxisPosition> getAxes(int64_t worldRank) const;
  /// Those that split the samples of inputs.
  dist::AxisListAttr getBatchAxes() const { return batch; }
  bool hasAxis(mlir::StringAttr axis) const { return llvm::is_contained(axes, axis); }
  /// Coordinate along `list`, major to minor, and the number of those coordinates. Unknown axes have size 1.
  AxisPosition getPosition(int64_t worldRank, dist::AxisListAttr list) const;

  /// Members of the group as `worldRank` sees it, ascending.
  llvm::SmallVector<int64_t> getMembers(int64_t worldRank, dist::GroupAttr group) const;
  /// Which shard of a gathered dimension `worldRank` brings: stages major, then the group's axes as listed.
  int64_t getShardIndex(int64_t worldRank, dist::GroupAttr group) const;

  /// Which elements of a flattened local tensor are the rank's flat shard, and how many a full shard has.
  struct FlatShard {
    int64_t begin, count, size;
  };
  FlatShard getFlatShard(int64_t worldRank, int64_t elements, dist::AxisListAttr flat) const;

  /// What `worldRank` holds of `whole`; padding is zero.
  Tensor cut(const Tensor &whole, dist::ShardingAttr sharding, int64_t worldRank) const;
  /// Where in the whole tensor the rank's part starts, and how much of it is no padding.
  void locate(llvm::ArrayRef<int64_t> wholeShape, dist::ShardingAttr sharding, int64_t worldRank,
              llvm::SmallVectorImpl<int64_t> &offsets, llvm::SmallVectorImpl<int64_t> &sizes) const;

  /// "rank 5 (stage 1, dp 0, tp 1)".
  std::string describe(int64_t worldRank) const;

private:
  int64_t getCoordinate(int64_t worldRank, size_t axis) const { return worldRank / axisStrides[axis] % sizes[axis]; }

  llvm::SmallVector<mlir::StringAttr> axes;
  dist::AxisListAttr batch;
  llvm::SmallVector<int64_t> sizes, axisStrides;
  int64_t stages = 1, virtualStages = 1, ranksPerStage = 1;
};

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_MESH_TOPOLOGY_H
