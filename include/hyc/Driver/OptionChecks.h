// What settings need of each other: ranges of one setting alone are the table's (SettingTable.h).
#ifndef HYC_DRIVER_OPTIONCHECKS_H
#define HYC_DRIVER_OPTIONCHECKS_H

#include "hyc/Plan/CompileOptions.h"
#include "llvm/Support/Error.h"

namespace hyc {

/// Checks settings, each of which is in its range (checkRanges), against each other; the error names the flags or the
/// places in files.
llvm::Error checkOptions(const CompileOptions &options);

/// What an optimizer means where it is not told: lion's betas, the second beta under a momentum that cycles.
void resolveOptimizer(CompileOptions &options);

/// What follows from other settings where nobody says it: a prefetch bucket alone is filled as early as it allows, and
/// layer boundaries in parts are boundaries that are kept.
void resolveFollowers(CompileOptions &options);

/// dp = ranks / (tp × pp) where --ranks is given. A rest, another dp, or several sizes are an error (64). Needs the
/// final tp and pp.
llvm::Error resolveRanks(CompileOptions &options);

/// Completes globalBatch = microBatch × gradAccum × dp from those that are given, as DeepSpeed does: the third from
/// two; of one alone, gradAccum is 1. Three that contradict each other, or a division with a rest, are an error that
/// shows the equation. Needs the final dp. A micro-batch that nothing gives stays 0: the model decides.
llvm::Error resolveBatch(CompileOptions &options);

/// What virtual stages need of the schedule and the mesh: 1F1B, several stages, and micro-batches in groups of one a
/// stage. After resolveBatch, which may derive their number.
llvm::Error checkVirtualStages(const CompileOptions &options);

/// What `emit` and `planOnly` say together.
EmitKind emitOf(const CompileOptions &options);

/// Whether the parameters start from a checkpoint of their own, whose path `weights` then is.
bool startsFromCheckpoint(const CompileOptions &options);

/// Threads of a rank: what was said, else this machine's cores divided by the ranks, at least 1. Workspaces are planned
/// for so many, and a run may have no more.
int64_t plannedThreads(const Plan &plan);

/// Of `--target cuda` the architectures as numbers, as in 90, each once and in ascending order; of cpu none.
llvm::Expected<std::vector<int64_t>> gpuArchitectures(const CompileOptions &options);

/// One `--dim`: "batch=8", or "seq=128,256,512".
struct DimSizes {
  std::string name;
  std::vector<int64_t> sizes; ///< ascending, each once
  std::string spell(int64_t size) const { return name + "=" + std::to_string(size); }
};
llvm::Expected<DimSizes> parseDim(const std::string &text);

/// The `--dim` that has several sizes; none where each has one. Usage errors where several have.
llvm::Expected<std::optional<DimSizes>> severalSizes(const CompileOptions &options);

/// `options` with `dim` at one of its sizes.
CompileOptions atSize(const CompileOptions &options, const DimSizes &dim, int64_t size);

} // namespace hyc

#endif // HYC_DRIVER_OPTIONCHECKS_H
