// plan.json: the decisions of phase 3 as data that a person reads, edits and passes back with --plan. Its settings are
// the rows of the table that have a key in it.
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
#ifndef HYC_PLAN_PLANTEXT_H
#define HYC_PLAN_PLANTEXT_H

#include "hyc/Plan/CompileOptions.h"
#include "llvm/Support/Error.h"

namespace hyc {

/// plan.json of a plan.
std::string writePlan(const Plan &plan);

/// Reads a plan; errors name the file, line, column and key. What the file says has its path as source.
llvm::Expected<Plan> readPlan(const std::string &path);

/// Fills what `options` do not say from a plan that was read; a flag (64) or a config (65) that says something else is
/// an error that names both.
llvm::Error takePlan(CompileOptions &options, const Plan &plan);

} // namespace hyc

#endif // HYC_PLAN_PLANTEXT_H
