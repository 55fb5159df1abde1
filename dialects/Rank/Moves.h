// Moves between arenas, and arenas that are files.
#ifndef HYC_DIALECTS_RANK_MOVES_H
#define HYC_DIALECTS_RANK_MOVES_H

#include "dialects/Rank/RankDialect.h"

#define GET_OP_CLASSES
#include "dialects/Rank/RankMoveOps.h.inc"

namespace hyc::rank {

/// On a rank.arena: it is a file of the rank's, which only moves reach.
inline constexpr llvm::StringLiteral kFile = "rank.file";
/// On a rank.alloc: it is moved to or from a file, so it begins at a block and has whole ones.
inline constexpr llvm::StringLiteral kWholeBlocks = "rank.whole_blocks";

/// What transfers past the page cache come in: hycrt's kBlockBytes.
inline constexpr int64_t kBlockBytes = 4096;
inline int64_t wholeBlocks(int64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes; }

/// The arena that a placed buffer lies in; empty where it is not placed yet.
llvm::StringRef arenaOf(mlir::Value buffer);

/// Whether a placed buffer lies in an arena that is a file.
bool isInFile(mlir::Value buffer);

} // namespace hyc::rank

#endif // HYC_DIALECTS_RANK_MOVES_H
