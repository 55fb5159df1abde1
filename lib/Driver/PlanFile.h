// PlanFile: plan.json, the decisions of phase 3 as data that a person reads, edits and passes back with --plan.
//
//   {
//     "format_version": 1,
//     "mesh": {"tp": 2, "pp": 2, "dp": 2},
//     "schedule": "1f1b",
//     "partition_method": "parameters",
//     "cuts": ["transformer.h.4.ln_1"],                      an op of the first layer of each stage but the first
//     "inputs": [{"match": "input_ids", "sharding": "[{dp}, {}]"}],
//     "parameters": [
//       {"match": "transformer.h.*.mlp.c_fc.weight", "sharding": "[{}, {tp}]"},
//       {"match": "transformer.h.3.mlp.c_fc.weight", "sharding": "[{}, {}]"}     an exception: the last counts
//     ]
//   }
//
// `*` stands for any characters but a dot. The surprise: only parameters and inputs are listed, since every other
// sharding follows from theirs; one that no rule matches is left to the seeds.
#ifndef HYC_LIB_DRIVER_PLANFILE_H
#define HYC_LIB_DRIVER_PLANFILE_H

#include "hyc/Driver/CompileOptions.h"
#include "mlir/IR/BuiltinOps.h"

namespace hyc {

struct ShardingRuleText {
  std::string match, sharding;
};

struct PlanFile {
  int64_t tp = 1, pp = 1, dp = 1;
  std::string schedule, partitionMethod;
  std::vector<std::string> cuts;
  std::vector<ShardingRuleText> inputs, parameters;

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

/// The plan that a phase-3 module realises.
PlanFile describePlan(mlir::ModuleOp module, const std::string &schedule, const std::string &partitionMethod);

} // namespace hyc

#endif // HYC_LIB_DRIVER_PLANFILE_H
