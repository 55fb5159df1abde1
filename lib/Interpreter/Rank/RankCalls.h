// What one call of a rank function does to memory: products, elementwise kernels, library kernels.
#ifndef HYC_LIB_INTERPRETER_RANK_RANKCALLS_H
#define HYC_LIB_INTERPRETER_RANK_RANKCALLS_H

#include "Rank/Memory.h"
#include "dialects/Rank/RankDialect.h"

namespace hyc::interpreter {

/// Where a buffer lies at run time.
struct Address {
  Arena *arena = nullptr;
  int64_t offset = 0;
};

/// The elements of this rank's flat shard that exist, of a dense whole at `address`.
Extent shardRegion(Address address, rank::BufferType shard, const llvm::StringMap<AxisPosition> &axes);

/// One execution of one call.
struct RankCall {
  Memory &memory;
  Arithmetic arithmetic;
  const llvm::DenseMap<mlir::Value, Address> &addresses;
  const llvm::StringMap<AxisPosition> &axes;
  bool isFirst; ///< the step's first forward, or backward: `first` overwrites

  /// Of a shard only the elements that exist.
  Extent regionOf(mlir::Value buffer) const;
  /// The same memory under another dense shape.
  Extent denseAt(mlir::Value buffer, llvm::ArrayRef<int64_t> shape) const;
  /// From the beginning of the buffer, with strides of its own.
  Extent stridedAt(mlir::Value buffer, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides) const;
  ElementKind kindOf(mlir::Value buffer) const;

  llvm::FailureOr<Tensor> load(mlir::Operation *op, mlir::Value buffer) const {
    return memory.load(op, regionOf(buffer));
  }
  /// Stores, or adds to what is there, as `mode` says.
  llvm::LogicalResult store(mlir::Operation *op, const Extent &region, Tensor value, rank::WriteMode mode) const;
  llvm::LogicalResult store(mlir::Operation *op, mlir::Value buffer, const Tensor &value) const {
    return memory.store(op, regionOf(buffer), value);
  }
};

llvm::LogicalResult executeGemm(RankCall &call, rank::GemmOp op);
llvm::LogicalResult executeLaunch(RankCall &call, rank::LaunchOp op);
llvm::LogicalResult executeLibraryKernel(RankCall &call, rank::CallOp op);

} // namespace hyc::interpreter

#endif // HYC_LIB_INTERPRETER_RANK_RANKCALLS_H
