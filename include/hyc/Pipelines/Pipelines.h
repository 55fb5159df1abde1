// The only place where the order of passes is decided. A phase is two pipelines: what gets there, and the check of its
// invariant, apart so that a driver can tell a model it cannot compile from a fault of its own.
#ifndef HYC_PIPELINES_PIPELINES_H
#define HYC_PIPELINES_PIPELINES_H

#include "hyc/Analysis/MemoryAccount.h"
#include "hyc/Plan/Plan.h"
#include "mlir/Pass/PassManager.h"

#include <array>

namespace hyc {

enum class Phase { Model, Train, Plan, Local, Rank };
inline constexpr std::array<Phase, 5> kPhases = {Phase::Model, Phase::Train, Phase::Plan, Phase::Local, Phase::Rank};

/// "model", "train", …
llvm::StringRef getName(Phase phase);

/// Adds the passes that lead from the phase before to `phase`. Those of phases 4 and 5 act on what phase 3 wrote into
/// the module, and on nothing else; `account`, where there is one, is filled in by placement.
void buildPhase(Phase phase, mlir::OpPassManager &passes, const Plan &plan, JobAccount *account = nullptr);
/// Adds the passes of phase 3 in two parts: what the first leaves is the same whatever is recomputed, kept on the host
/// of activations, or said by policies.
void buildPlanUntilLifetimes(mlir::OpPassManager &passes, const Plan &plan);
void buildPlanFromLifetimes(mlir::OpPassManager &passes, const Plan &plan);
/// Adds what leads from phase 1 to phase 4 without training: the program of one rank that computes a model's outputs.
/// Phases 2 and 3 are left out; phases 4 and 5 verify and lower it as any other.
void buildForwardProgram(mlir::OpPassManager &passes);
/// Adds the passes of phase 5 up to where every buffer has its place: all that an account of memory needs.
void buildPlacement(mlir::OpPassManager &passes, JobAccount *account = nullptr);
/// Adds those and what joins exchanges: all that an account of memory and time needs.
void buildAccount(mlir::OpPassManager &passes, JobAccount *account = nullptr);
/// Adds the passes that check the invariant of `phase`.
void buildVerification(Phase phase, mlir::OpPassManager &passes);

/// Registers hyc-model-phase, hyc-train-phase, … with their verification, under a plan's defaults.
void registerPipelines();

} // namespace hyc

#endif // HYC_PIPELINES_PIPELINES_H
