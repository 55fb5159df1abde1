// Builders of exchanges that the passes of phase 4 share: a start, and the wait that belongs to it.
#ifndef HYC_LIB_TRANSFORMS_LOCAL_EXCHANGES_H
#define HYC_LIB_TRANSFORMS_LOCAL_EXCHANGES_H

#include "dialects/Dist/DistDialect.h"
#include "mlir/IR/Builders.h"

namespace hyc::local {

/// What asked for an exchange; goes into its `cause` and `why`.
struct Reason {
  llvm::StringRef cause;
  std::string why;
};

/// Where an exchange is started and where it is awaited.
struct ExchangePlace {
  mlir::OpBuilder &start, &wait;
  mlir::Location loc;
};

/// Combines `value` over the group.
mlir::Value allReduce(const ExchangePlace &at, dist::ReduceKind kind, mlir::Value value, dist::GroupAttr group,
                      const Reason &reason);

/// Joins shards of dimension `dim` into `whole` of its elements.
mlir::Value allGather(const ExchangePlace &at, mlir::Value shard, int64_t dim, int64_t whole, dist::GroupAttr group,
                      const Reason &reason);

/// Sums `value` over the group; every member gets its shard of dimension `dim`, of type `shard`.
mlir::Value reduceScatter(const ExchangePlace &at, mlir::Value value, int64_t dim, mlir::RankedTensorType shard,
                          dist::GroupAttr group, const Reason &reason);

/// From the dimension that is split over the group's axes to the one that is to be.
struct SplitMove {
  int64_t from, to;
};
mlir::Value allToAll(const ExchangePlace &at, mlir::Value value, SplitMove move, mlir::RankedTensorType result,
                     dist::GroupAttr group, const Reason &reason);

/// Sums `value` over the group; every member gets its flat shard, by its coordinate along `flat`, of the held type
/// `shard`.
mlir::Value reduceScatterFlat(const ExchangePlace &at, mlir::Value value, mlir::RankedTensorType shard,
                              dist::AxisListAttr flat, dist::GroupAttr group, const Reason &reason);

/// Starts to join flat shards into a tensor of type `whole`. The caller waits.
mlir::Value startAllGatherFlat(mlir::OpBuilder &start, mlir::Location loc, mlir::Value shard,
                               mlir::RankedTensorType whole, dist::AxisListAttr flat, const Reason &reason);

/// The type of the flat shards of `whole`.
mlir::RankedTensorType flatShardType(mlir::RankedTensorType whole, dist::AxisListAttr flat, dist::MeshOp mesh);

/// The group of `axes` within this rank's stage.
dist::GroupAttr groupOf(mlir::MLIRContext *context, llvm::ArrayRef<mlir::StringAttr> axes,
                        llvm::ArrayRef<int64_t> stages = {});

} // namespace hyc::local

#endif // HYC_LIB_TRANSFORMS_LOCAL_EXCHANGES_H
