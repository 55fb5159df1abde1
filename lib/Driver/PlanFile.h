// PlanFile: plan.json, the decisions of phase 3 as data that a person reads, edits and passes back with --plan.
//
//   {
//     "format_version": 1,
//     "mesh": {"tp": 2, "pp": 2, "dp": 2},
//     "schedule": "1f1b",
//     "virtual_stages": 2,                                   pieces of the model a stage; left out where it is 1
//     "partition_method": "parameters",
//     "precision": "bf16",
//     "recompute": "layer",
//     "offload": {"optimizer": "nvme", "param": "none", …},  none, cpu or nvme; left out where nothing is moved out
//     "cuts": ["transformer.h.4.ln_1"],                      an op of the first layer of each piece but the first
//     "inputs": [{"match": "input_ids", "sharding": "[{dp}, {}]"}],
//     "parameters": [
//       {"match": "transformer.h.*.mlp.c_fc.weight", "sharding": "[{}, {tp}]"},
//       {"match": "transformer.h.3.mlp.c_fc.weight", "sharding": "[{}, {}]"}     an exception: the last counts
//     ],
//     "lifetimes": [{"match": "transformer.h.*.mlp.act.gelu", "lifetime": "recompute"}],
//     "forms": [{"match": "transformer.h.*.attn.attention", "form": "decomposed"}]     left out where all are whole
//   }
//
// With ZeRO there is an object "zero" beside these (its stage and thresholds, for parameters that no rule matches), and
// a rule says what is flat: of the parameter in its sharding, of its gradient and optimizer states apart. Where the
// model computes in another type than f32 ("precision"), the sharding tells what is flat of the copy that is computed
// with, and "master" of the f32 parameter beside it.
//
//       {"match": "wte.weight", "sharding": "[{tp}, {}]", "gradient": "{dp}", "reduction": "micro_batch", "optimizer":
//       "{dp}"}
//
// With offload a rule also says where the parameter ("placement"), its optimizer states ("optimizer_placement") and its
// gradient ("gradient_placement") are kept: device, host or nvme, a gradient on the device or the host; the object
// "offload" what holds for parameters that no rule matches, and how states move. Of a parameter with a copy in another
// type "placement" means the copy, and "master_placement" the f32 parameter.
//
// `*` stands for any characters but a dot. The surprise: only parameters and inputs are listed, since every other
// sharding follows from theirs; one that no rule matches is left to the seeds. Lifetimes are of forward ops, by their
// ids; one that no rule matches is saved, whatever "recompute" says: that only tells who wrote the rules.
#ifndef HYC_LIB_DRIVER_PLANFILE_H
#define HYC_LIB_DRIVER_PLANFILE_H

#include "hyc/Driver/CompileOptions.h"
#include "mlir/IR/BuiltinOps.h"

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace hyc {

/// The property of all that a pattern matches, a sharding or a lifetime, as text; with parameters also what is flat of
/// their states, when gradients are summed over ranks and where they are kept, by the keys of kStateProperties.
struct PlanRule {
  std::string match, value;
  std::map<std::string, std::string, std::less<>> states = {};

  /// What it says, whatever it matches.
  auto said() const { return std::tie(value, states); }
};

/// What a parameter's rule may say of its states, in the order in which it is written.
inline constexpr const char *kStateProperties[] = {
    "gradient",  "reduction",           "optimizer",          "master",
    "placement", "optimizer_placement", "gradient_placement", "master_placement"};

/// What states and parameters are flat where no rule says so, and how their exchanges are bounded (in elements).
struct ZeroPlan {
  int64_t stage = 0;
  std::string gradientReduction = "auto";
  int64_t persistenceThreshold = 0, prefetch = 0, prefetchBucket = 0, maxLiveParameters = 0;
  int64_t reduceBucket = 0, gatherBucket = 0;
  int64_t reductionsInFlight = 1; ///< while backward computes
};

/// Where states and parameters are kept where no rule says so, and how they move.
struct OffloadPlan {
  std::string optimizer = "none", param = "none"; ///< none, cpu or nvme
  double ratio = 1;                               ///< part of the elements whose optimizer states are moved out
  int64_t maxInHost = 0, subGroup = 0;            ///< in elements
  bool readAhead = true, writeBehind = true;
  std::string gradients = "none"; ///< none or cpu
  int64_t prefetch = 0;           ///< uses that moves between memories are ahead of their own
};

struct PlanFile {
  int64_t tp = 1, pp = 1, dp = 1, virtualStages = 1;
  std::string schedule, partitionMethod, recompute = "none";
  std::string precision; ///< empty: not said
  std::optional<OffloadPlan> offload;
  std::vector<std::string> cuts;
  std::optional<ZeroPlan> zero;
  std::vector<PlanRule> inputs, parameters, lifetimes;
  std::vector<PlanRule> forms; ///< of composite ops: whole or decomposed

  std::string toJson() const;
};

/// Reads a plan; errors name the file, line, column and key.
llvm::Expected<PlanFile> readPlanFile(const std::string &path);

/// Fills what `options` does not say from the plan; a flag (64) or a config (65) that says something else is an error
/// that names both.
llvm::Error takePlan(CompileOptions &options, const PlanFile &plan);

/// Hangs the rules' shardings on the parameters and on the inputs of @microbatch, before the seeds look for those that
/// have none. A rule that matches nothing is an error.
llvm::Error applyShardingRules(const PlanFile &plan, mlir::ModuleOp module);

/// Hangs the rules' lifetimes on the forward ops of @microbatch. A rule that matches none is an error.
llvm::Error applyLifetimeRules(const PlanFile &plan, mlir::ModuleOp module);

/// Hangs the rules' forms on the composite ops of @train, whose gradients depend on them. A rule that matches none is an
/// error.
llvm::Error applyFormRules(const PlanFile &plan, mlir::ModuleOp module);

/// The mesh, cuts and rules that a phase-3 module realises; who decided them is for the caller to add. `zero` becomes
/// part of it where anything is flat or reduced as it is made; `offload` is there where anything is moved out.
PlanFile describePlan(mlir::ModuleOp module, const ZeroPlan &zero = {});

} // namespace hyc

#endif // HYC_LIB_DRIVER_PLANFILE_H
