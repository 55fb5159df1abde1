// The only place where the order of passes is decided. A phase is two pipelines: what gets there, and the check of its
// invariant, apart so that a driver can tell a model it cannot compile from a fault of its own.
#ifndef HYC_PIPELINES_PIPELINES_H
#define HYC_PIPELINES_PIPELINES_H

#include "hyc/Analysis/MemoryAccount.h"
#include "hyc/Pipelines/PrecisionOptions.h"
#include "mlir/Pass/PassManager.h"

#include <array>
#include <string>
#include <vector>

namespace hyc {

/// What the passes of all phases are told. Sizes have been checked by whoever fills this in.
struct PipelineOptions {
  // Train
  std::string loss = "cross_entropy", logits, labels = "labels";
  std::string optimizer = "adamw";
  bool correctBias = true, cycleMomentum = false;
  double leastTrust = 0.01, mostTrust = 10;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = 0, momentum = 0, clipGradNorm = 0;
  std::vector<std::string> noDecay;
  std::vector<std::string> train, freeze; ///< patterns of parameters' names
  bool dropout = true;                    ///< that the model has
  bool evaluates = false;                 ///< tells how well the parameters do, and changes none
  PrecisionOptions precision;
  // Plan
  int64_t tp = 1, pp = 1, dp = 1;
  int64_t virtualStages = 1; ///< pieces of the model that each stage computes
  int64_t microBatches = 1;
  std::string partitionMethod = "parameters", schedule = "1f1b";
  bool sequenceParallel = false;
  std::string recompute = "none"; ///< planned: what a plan file says
  bool partitionActivations = false;
  std::vector<int64_t> activationBudgets; ///< for auto: bytes saved a rank, by stage
  std::vector<std::string> cuts;          ///< of a plan file; empty: balanced by the method
  int64_t zero = 0;                       ///< 0 to 3: states, gradients, parameters flat over dp
  std::string gradientReduction = "auto"; ///< step, micro_batch, or auto by the ZeRO stage
  // In elements, as DeepSpeed counts them, whose defaults these are but for the prefetch, which counts uses.
  int64_t persistenceThreshold = 100000, reduceBucket = 500000000, gatherBucket = 500000000;
  int64_t maxLiveParameters = 1000000000, prefetchBucket = 50000000, prefetch = 0;
  int64_t reductionsInFlight = 1; ///< of gradients that are summed as they are made, while backward computes on
  std::string offloadOptimizer = "none", offloadParam = "none"; ///< none, cpu or nvme
  std::string offloadActivations = "none", offloadGradients = "none"; ///< none or cpu
  double offloadRatio = 1;     ///< part of the elements whose optimizer states are moved out
  int64_t maxInHost = 0;       ///< elements of parameters for a disk that are kept on the host
  int64_t subGroup = 16777216; ///< elements whose offloaded states move together
  bool readAhead = true, writeBehind = true;
  int64_t offloadPrefetch = 0; ///< uses that moves between memories are ahead of their own
  // Rank
  bool checkFinite = false;      ///< end the run at the first op that makes a NaN or an infinity
  int64_t threads = 0;           ///< of a rank, for which workspaces are planned; 0: kernels bring their own
  bool poison = false;           ///< mark the ends of lives, so that a run can overwrite what is dead
  JobAccount *account = nullptr; ///< filled in by placement; null: nobody asks
};

enum class Phase { Model, Train, Plan, Local, Rank };
inline constexpr std::array<Phase, 5> kPhases = {Phase::Model, Phase::Train, Phase::Plan, Phase::Local, Phase::Rank};

/// "model", "train", …
llvm::StringRef getName(Phase phase);

/// Adds the passes that lead from the phase before to `phase`.
void buildPhase(Phase phase, mlir::OpPassManager &passes, const PipelineOptions &options);
/// Adds what leads from phase 1 to phase 4 without training: the program of one rank that computes a model's outputs.
/// Phases 2 and 3 are left out; phases 4 and 5 verify and lower it as any other.
void buildForwardProgram(mlir::OpPassManager &passes);
/// Adds the passes of phase 5 up to where every buffer has its place: all that an account of memory needs.
void buildPlacement(mlir::OpPassManager &passes, const PipelineOptions &options);
/// Adds those and what joins exchanges: all that an account of memory and time needs.
void buildAccount(mlir::OpPassManager &passes, const PipelineOptions &options);
/// Adds the passes that check the invariant of `phase`.
void buildVerification(Phase phase, mlir::OpPassManager &passes);

/// Registers hyc-model-phase, hyc-train-phase, … with their verification, under the options' defaults.
void registerPipelines();

} // namespace hyc

#endif // HYC_PIPELINES_PIPELINES_H
