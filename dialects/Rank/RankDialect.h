// The rank dialect: a mirror of the runtime's API. Start with RankOps.td; RATIONALE.md tells why.
#ifndef HYC_DIALECTS_RANK_RANKDIALECT_H
#define HYC_DIALECTS_RANK_RANKDIALECT_H

#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/InputSources.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Rank/RankDialect.h.inc"
#include "dialects/Rank/RankEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Rank/RankAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Rank/RankTypes.h.inc"
namespace hyc::rank {
class YieldOp;
} // namespace hyc::rank
#define GET_OP_CLASSES
#include "dialects/Rank/RankOps.h.inc"

namespace hyc::rank {

/// Every offset that placement gives is a multiple of this: a cache line.
inline constexpr int64_t kAlignment = 64;

inline int64_t alignedBytes(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// Bytes of one element; booleans take one.
int64_t elementBytes(mlir::Type type);

/// Row-major strides of dense elements.
llvm::SmallVector<int64_t> denseStrides(llvm::ArrayRef<int64_t> shape);

/// The function of a program that computes one of its chunks: "forward" of virtual stage 0, "forward.1" of the next. Of
/// reduce and apply there is one each. Those of a rank.entry begin with its name: "evaluate.forward".
std::string functionName(dist::InstructionKind kind, int64_t virtualStage = 0, llvm::StringRef entry = "");

/// The function of a program that makes its rank.constants.
inline constexpr llvm::StringLiteral kPrepare = "prepare";

/// The kernel that a launch runs; null if there is none.
KernelOp lookupKernel(LaunchOp launch);

/// The operands of a call that it writes, and those that it only reads. Empty for what is no call.
mlir::OperandRange writtenBuffers(mlir::Operation *call);
mlir::OperandRange readBuffers(mlir::Operation *call);

} // namespace hyc::rank

#endif // HYC_DIALECTS_RANK_RANKDIALECT_H
