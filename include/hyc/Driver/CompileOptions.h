// What a compilation is asked for. A Setting can be said by a flag, by a plan file or by a ds_config, and remembers by
// which; everything else only has a flag.
#ifndef HYC_DRIVER_COMPILEOPTIONS_H
#define HYC_DRIVER_COMPILEOPTIONS_H

#include "hyc/Driver/LearningRateOptions.h"
#include "llvm/Support/Error.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace hyc {

/// Where to stop: after a phase (its text), with the plan and its account of memory, after the sources, or with
/// executables.
enum class EmitKind { Model, Train, Plan, Local, Rank, Account, Source, Exe };

struct CompileOptions : LearningRateOptions {
  std::string input;  ///< .onnx, .pt2, .mlir text of phase 1, or a config.json (or its folder)
  std::string output; ///< folder (source, exe) or file (a phase; empty: standard output)
  EmitKind emit = EmitKind::Exe;
  std::string dumpFolder; ///< the text after each phase; empty: none

  std::string loss = "cross_entropy", logits, labels = "labels";
  std::vector<std::string> dims; ///< NAME=N
  /// Where parameters start: read, initialise-missing, initialise, or the path of a checkpoint.
  std::string weights = "read";

  /// Samples: trainBatch = microBatch × gradAccum × dp. 0: left open, for resolveBatch or the model to decide.
  Setting<int64_t> trainBatch = 0, microBatch = 0, gradAccum = 1;

  Setting<int64_t> tp = 1, pp = 1, dp = 1;
  Setting<int64_t> virtualStages = 1; ///< pieces of the model that each pipeline stage computes
  Setting<std::string> schedule = std::string("1f1b"), partitionMethod = std::string("parameters");
  /// none, layer, selective or auto, which keeps the activations arena of every rank within activationMemory.
  bool checkFinite = false; ///< programs end at the first op that makes a NaN or an infinity
  Setting<bool> sequenceParallel = false; ///< the sequence over tp where nothing else is split over it
  Setting<std::string> recompute = std::string("none");
  /// none or cpu: where saved activations and gradients are kept
  Setting<std::string> offloadActivations = std::string("none"), offloadGradients = std::string("none");
  Setting<bool> partitionActivations = false; ///< saved layer boundaries in parts over tp
  std::string activationMemory;               ///< as in 2GiB; empty: not limited
  std::string planFile, configFile;

  Setting<int64_t> zero = 0; ///< 0 to 3
  Setting<std::string> gradientReduction = std::string("auto");
  /// In elements, but for prefetch, which counts uses.
  Setting<int64_t> reductionsInFlight = 1;
  Setting<int64_t> persistenceThreshold = 100000, prefetch = 0, prefetchBucket = 50000000;
  Setting<int64_t> maxLiveParameters = 1000000000, reduceBucket = 500000000, gatherBucket = 500000000;
  Setting<std::string> offloadOptimizer = std::string("none"), offloadParam = std::string("none"); ///< none, cpu, nvme
  Setting<std::string> nvmePath = std::string();      ///< folder on the disk, where anything goes there
  Setting<double> offloadRatio = 1.0;                 ///< part of the elements whose optimizer states are moved out
  Setting<int64_t> maxInHost = 0;                     ///< elements of parameters for a disk that stay on the host
  Setting<int64_t> subGroup = 16777216;               ///< elements whose offloaded states move together
  Setting<bool> readAhead = true, writeBehind = true; ///< of groups on a disk, while another one is updated
  Setting<int64_t> offloadPrefetch = 0;               ///< uses that moves between memories are ahead of their own

  Setting<std::string> optimizer = std::string("adamw");
  Setting<double> weightDecay = 0.0, momentum = 0.0, epsilon = 1e-8, clipGradNorm = 0.0;
  Setting<bool> correctBias = true;                    ///< of the moments of adamw, adam and lamb
  Setting<bool> decoupledDecay = true;                 ///< whether a config's "Adam" means adamw, as DeepSpeed has it
  Setting<double> leastTrust = 0.01, mostTrust = 10.0; ///< bounds of lamb's trust ratio
  Setting<std::array<double, 2>> betas = std::array<double, 2>{0.9, 0.999};
  std::vector<std::string> noDecay;
  std::vector<std::string> train, freeze; ///< patterns of parameters' names
  std::string entry = "train";            ///< train or evaluate
  bool dropout = true;                    ///< whether the model's dropout drops
  std::string mode = "exported";          ///< exported, train or evaluate: see hyc::ModelMode

  /// Types, and fp16's loss scaling under DeepSpeed's names; see hyc::PrecisionOptions.
  Setting<std::string> precision = std::string("f32"), gradientAccumulationType = std::string("f32"),
                       communicationType = std::string();
  Setting<double> lossScale = 0.0, minLossScale = 1.0;
  Setting<int64_t> initialScalePower = 16, lossScaleWindow = 1000, hysteresis = 2;
  Setting<bool> consecutiveHysteresis = false;

  std::string target = "cpu";                                  ///< cpu or cuda
  int64_t optimization = 3;                                    ///< -O of the host compiler on generated files
  std::vector<std::string> architectures = {"sm_80", "sm_90"}; ///< of GPUs, for cuda

  std::string machineFile;  ///< rates of a rank, for the estimate of time; empty: those of a CPU core a thread
  std::string deviceMemory; ///< what a rank may have, as in 24GiB; empty: not limited
  int64_t threads = 0;      ///< per rank; 0: see plannedThreads
  bool poison = false;      ///< whether programs can overwrite what the plan calls dead
};

/// Most ranks that one job may have; the runtime reads no manifest of more.
inline constexpr int64_t kMaxRanks = int64_t{1} << 20;
/// Most samples of a micro-batch, and most micro-batches of a step.
inline constexpr int64_t kMaxBatch = 65536;

/// Checks every value by itself and the mesh as a whole; the error names the flag or the place in the config, what it
/// is and what it may be.
llvm::Error checkOptions(const CompileOptions &options);

/// What an optimizer means where it is not told: lion's betas, the second beta under a momentum that cycles.
void resolveOptimizer(CompileOptions &options);

/// What follows from other settings where nobody says it: a prefetch bucket alone is filled as early as it allows, and
/// layer boundaries in parts are boundaries that are kept.
void resolveFollowers(CompileOptions &options);

/// Completes trainBatch = microBatch × gradAccum × dp from those that are given, as DeepSpeed does: the third from two;
/// of one alone, gradAccum is 1. Three that contradict each other, or a division with a rest, are an error that shows
/// the equation. Needs the final dp. A micro-batch that nothing gives stays 0: the model decides.
llvm::Error resolveBatch(CompileOptions &options);

/// What virtual stages need of the schedule and the mesh: 1F1B, several stages, and micro-batches in groups of one a
/// stage. After resolveBatch, which may derive their number.
llvm::Error checkVirtualStages(const CompileOptions &options);
/// Whether the parameters start from a checkpoint of their own, whose path `weights` then is.
bool startsFromCheckpoint(const CompileOptions &options);
/// Threads of a rank: what was said, else this machine's cores divided by the ranks, at least 1. Workspaces are planned
/// for so many, and a run may have no more.
int64_t plannedThreads(const CompileOptions &options);

/// Of `--target cuda` the architectures as numbers, as in 90, each once and in ascending order; of cpu none.
llvm::Expected<std::vector<int64_t>> gpuArchitectures(const CompileOptions &options);

/// The name and size of one `--dim`.
llvm::Expected<std::pair<std::string, int64_t>> parseDim(const std::string &text);

} // namespace hyc

#endif // HYC_DRIVER_COMPILEOPTIONS_H
