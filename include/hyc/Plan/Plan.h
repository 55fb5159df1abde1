// Plan: everything that is decided about a training program, as one value: the mesh, the schedule, policies, and rules
// by pattern for single parameters and values. Flags, a ds_config, a plan file and the search for what fits only write
// it; the passes of all phases are built from it. Each member has a row in the table of settings (SettingTable.cpp),
// from which flags, --help, checks of range, plan.json, the keys of ds_config and docs/options.md follow.
//
// The surprise: a plan that only holds settings is complete. What no rule matches is left to the passes of phase 3.
#ifndef HYC_PLAN_PLAN_H
#define HYC_PLAN_PLAN_H

#include "hyc/Plan/AdapterSettings.h"
#include "hyc/Plan/Choice.h"
#include "hyc/Plan/LearningRatePlan.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace hyc {

/// Most ranks that one job may have; the runtime reads no manifest of more.
inline constexpr int64_t kMaxRanks = int64_t{1} << 20;
/// Most samples of a micro-batch, and most micro-batches of a step.
inline constexpr int64_t kMaxBatch = 65536;
/// More elements than any bucket or threshold means.
inline constexpr int64_t kMostElements = int64_t(1) << 48;
/// More uses than any function has.
inline constexpr int64_t kMostUses = 65536;

/// The property of all that a pattern matches, a sharding or a lifetime, as text; with parameters also what is flat of
/// their states, when gradients are summed over ranks and where they are kept, by the keys of StateProperties.h.
/// `*` stands for any characters but a dot.
struct PlanRule {
  std::string match, value;
  std::map<std::string, std::string, std::less<>> states = {};
  std::string place = {}; ///< where a file says it, as FILE:LINE:COLUMN

  /// What it says, whatever it matches.
  auto said() const { return std::tie(value, states); }
};

/// What a plan file says of single parameters, inputs and ops.
struct PlanRules {
  /// Axes of the mesh besides dp and tp, as NAME:SIZE, or PARENT.NAME:SIZE of a sub-axis; and those that come first.
  std::vector<std::string> axes, order;
  std::vector<std::string>
      cuts; ///< an op of the first layer of each chunk but the first; empty: balanced by the method
  std::vector<PlanRule> inputs, parameters, lifetimes;
  std::vector<PlanRule> forms; ///< of composite ops: whole or decomposed
  /// The optional objects that plan.json has: "zero" where rules tell what is flat, "offload" where they place states.
  std::set<std::string, std::less<>> objects;
  std::string cutsPlace = {}; ///< where a file has "cuts", as FILE:LINE:COLUMN

  /// Whether any value waits for backward on the host, whole or in parts.
  bool offloadsActivations() const;
  /// Whether any is kept or moved in parts over axes of the mesh.
  bool dividesActivations() const;
};

struct Plan : LearningRatePlan {
  // The mesh. `ranks` are the sizes that were asked for; dp follows from one.
  Setting<int64_t> tp = 1, pp = 1, dp = 1;
  Setting<std::vector<int64_t>> ranks = std::vector<int64_t>();
  Setting<int64_t> virtualStages = 1; ///< pieces of the model that each pipeline stage computes
  Setting<int64_t> threads = 0;       ///< of a rank, for which workspaces are planned; 0: kernels bring their own

  /// Samples: globalBatch = microBatch × gradAccum × dp. 0: left open, for resolveBatch or the model to decide.
  Setting<int64_t> globalBatch = 0, microBatch = 0, gradAccum = 1;

  Setting<Choice<PipelineSchedule>> schedule = PipelineSchedule::OneForwardOneBackward;
  Setting<std::string> partitionMethod = "parameters";
  Setting<bool> sequenceParallel = false; ///< the sequence over tp where nothing else is split over it
  Setting<int64_t> gathersAhead = 1;      ///< products that gathers of saved activations begin before their use

  // What is trained
  Setting<std::string> loss = "cross_entropy", logits = "", labels = "labels";
  Setting<std::string> entry = "train,evaluate"; ///< train, evaluate, or both
  Setting<bool> dropout = true;                  ///< whether the model's dropout drops
  Setting<bool> separateDocuments = false;       ///< whether documents in one sequence are kept apart
  Setting<std::vector<std::string>> train = std::vector<std::string>(),
                                    freeze = std::vector<std::string>(); ///< patterns of parameters' names
  Setting<std::string> lora = "";          ///< adapters beside frozen linear layers: settings, or a folder; empty: none
  std::optional<AdapterSettings> adapters; ///< what that means

  // Types, and fp16's loss scaling under DeepSpeed's names
  Setting<Choice<Precision>> precision = Precision::F32;
  Setting<bool> frozenMasters = true;          ///< frozen parameters are kept in f32, too, beside a 16-bit type
  Setting<std::string> frozenWeights = "full"; ///< frozen linear layers as codes: int8 or nf4; full: none
  Setting<std::string> gradientAccumulationType = "f32";
  Setting<std::string> communicationType = ""; ///< of gradients; empty: as they are accumulated
  Setting<double> lossScale = 0.0, minLossScale = 1.0;
  Setting<int64_t> initialScalePower = 16, lossScaleWindow = 1000, hysteresis = 2;
  Setting<bool> consecutiveHysteresis = false;
  Setting<bool> checkFinite = false; ///< programs end at the first op that makes a NaN or an infinity

  // What is saved, and where things are kept
  Setting<Choice<RecomputeMode>> recompute = RecomputeMode::None;
  std::vector<int64_t> activationBudgets;     ///< for auto: bytes saved a rank, by stage
  Setting<bool> partitionActivations = false; ///< saved layer boundaries in parts over tp
  Setting<Choice<OffloadPlace>> offloadActivations = OffloadPlace::None, offloadGradients = OffloadPlace::None;
  Setting<Choice<OffloadPlace>> offloadOptimizer = OffloadPlace::None, offloadParam = OffloadPlace::None;
  Setting<std::string> nvmePath = "";                 ///< folder on the disk, where anything goes there
  Setting<double> offloadRatio = 1.0;                 ///< part of the elements whose optimizer states are moved out
  Setting<int64_t> maxInHost = 0;                     ///< elements of parameters for a disk that stay on the host
  Setting<int64_t> subGroup = 16777216;               ///< elements whose offloaded states move together
  Setting<bool> readAhead = true, writeBehind = true; ///< of groups on a disk, while another one is updated
  Setting<int64_t> offloadPrefetch = 0;               ///< uses that moves between memories are ahead of their own
  Setting<int64_t> offloadWindow = 0;                 ///< bytes of a GPU's windows for updates of the host's states

  Setting<bool> keepConstants = true; ///< what is the same in every step is made once, and stays

  // ZeRO, in elements as DeepSpeed counts them, but for prefetch, which counts uses
  Setting<int64_t> zero = 0;                       ///< 0 to 3: states, gradients, parameters flat over dp
  Setting<std::string> gradientReduction = "auto"; ///< step, micro_batch, or auto by the ZeRO stage
  Setting<int64_t> persistenceThreshold = 100000, prefetch = 0, prefetchBucket = 50000000;
  Setting<int64_t> maxLiveParameters = 1000000000, reduceBucket = 500000000, gatherBucket = 500000000;
  Setting<int64_t> reductionsInFlight = 1; ///< of gradients that are summed as they are made

  // The update
  Setting<std::string> optimizer = "adamw";
  Setting<double> weightDecay = 0.0, momentum = 0.0, epsilon = 1e-8, clipGradNorm = 0.0;
  Setting<std::array<double, 2>> betas = std::array<double, 2>{0.9, 0.999};
  Setting<bool> correctBias = true;                    ///< of the moments of adamw, adam and lamb
  Setting<bool> decoupledDecay = true;                 ///< whether a config's "Adam" means adamw, as DeepSpeed has it
  Setting<double> leastTrust = 0.01, mostTrust = 10.0; ///< bounds of lamb's trust ratio
  Setting<std::vector<std::string>> noDecay = std::vector<std::string>();

  // What programs run on
  Setting<Choice<TargetKind>> target = TargetKind::Cpu;
  Setting<bool> poison = false; ///< whether programs can overwrite what the plan calls dead

  PlanRules rules;

  /// Tells how well the parameters do, and changes none.
  bool evaluates() const { return *entry == "evaluate"; }
  /// Trains, and can tell in between how well the parameters do.
  bool evaluatesBeside() const { return *entry == "train,evaluate"; }
  int64_t rankCount() const { return *tp * *pp * *dp * furtherRanks(); }
  /// Product of the sizes of the axes besides dp and tp.
  int64_t furtherRanks() const;
  /// " × ep 2" of each of them, for messages.
  std::string describeFurtherAxes() const;
};

} // namespace hyc

#endif // HYC_PLAN_PLAN_H
