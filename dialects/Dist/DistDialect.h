// The dist dialect: meshes, shardings, exchanges, schedules.
#ifndef HYC_DIALECTS_DIST_DISTDIALECT_H
#define HYC_DIALECTS_DIST_DISTDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <optional>
#include <string>

#include "dialects/Dist/DistDialect.h.inc"
#include "dialects/Dist/DistEnums.h.inc"
namespace hyc::dist {
class AxisListAttr;
class TransferAttr;
} // namespace hyc::dist
#define GET_ATTRDEF_CLASSES
#include "dialects/Dist/DistAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Dist/DistTypes.h.inc"
#include "dialects/Dist/ExchangeInterface.h.inc"
#define GET_OP_CLASSES
#include "dialects/Dist/DistOps.h.inc"

namespace hyc::dist {

// Names of the attributes that phase 3 hangs on ops of other dialects; see DistDialect.td.
inline constexpr llvm::StringLiteral kSharding = "dist.sharding";
inline constexpr llvm::StringLiteral kShardings = "dist.shardings";
inline constexpr llvm::StringLiteral kSplit = "dist.split";
inline constexpr llvm::StringLiteral kStage = "dist.stage";
inline constexpr llvm::StringLiteral kStages = "dist.stages";
inline constexpr llvm::StringLiteral kLifetime = "dist.lifetime";
inline constexpr llvm::StringLiteral kChannel = "dist.channel";
inline constexpr llvm::StringLiteral kReduction = "dist.reduction";
inline constexpr llvm::StringLiteral kPrefetch = "dist.prefetch";
inline constexpr llvm::StringLiteral kOwned = "dist.owned";
inline constexpr llvm::StringLiteral kFlat = "dist.flat";

/// The name of a phase-4 function: "forward.3" of chunk 3, "reduce.1" of stage 1.
std::string functionName(InstructionKind kind, int64_t chunkOrStage);

/// The chunk that an op or a phase-4 function belongs to; nothing where phase 3 has not said.
std::optional<int64_t> chunkOf(mlir::Operation *op);

/// Size of one shard of a dimension: ceil(size / parts).
inline int64_t shardSize(int64_t size, int64_t parts) { return (size + parts - 1) / parts; }

/// Flat shards are whole blocks of this many elements, those of the norm, so that no shard cuts one.
inline constexpr int64_t kFlatBlock = 1024;

/// Elements of one flat shard of `elements` over `parts` ranks.
inline int64_t flatShardSize(int64_t elements, int64_t parts) {
  return shardSize(shardSize(elements, kFlatBlock), parts) * kFlatBlock;
}

/// Shape of what one rank holds of a tensor; `flat` axes are left out (they cut the flattened result further).
llvm::SmallVector<int64_t> localShape(llvm::ArrayRef<int64_t> shape, ShardingAttr sharding, MeshOp mesh);

} // namespace hyc::dist

#endif // HYC_DIALECTS_DIST_DISTDIALECT_H
