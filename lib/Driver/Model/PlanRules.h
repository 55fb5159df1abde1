// PlanRules: between the rules of a plan and the attributes of a module, both ways.
#ifndef HYC_LIB_DRIVER_MODEL_PLANRULES_H
#define HYC_LIB_DRIVER_MODEL_PLANRULES_H

#include "hyc/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace hyc {

/// Hangs the rules' shardings on the parameters and on the inputs of @microbatch, before the seeds look for those that
/// have none. A rule that matches nothing is an error.
llvm::Error applyShardingRules(const PlanRules &rules, mlir::ModuleOp module);

/// Hangs on states what rules that name their parameter say of where they are kept, and nothing else of the rules.
llvm::Error applyStateRules(const PlanRules &rules, mlir::ModuleOp module);

/// Hangs the rules' lifetimes on the forward ops of @microbatch. A rule that matches none is an error.
llvm::Error applyLifetimeRules(const PlanRules &rules, mlir::ModuleOp module);

/// Refuses cuts before ops that the model has not.
llvm::Error checkCutRules(const PlanRules &rules, mlir::ModuleOp module);

/// Hangs the rules' forms on the composite ops of @train, whose gradients depend on them. A rule that matches none is
/// an error.
llvm::Error applyFormRules(const PlanRules &rules, mlir::ModuleOp module);

/// `chosen` with the mesh, the cuts and the rules that a phase-3 module realises; of its own rules only the forms stay.
/// The object "zero" is part of it where anything is flat or reduced as it is made, "offload" where anything is moved
/// out.
Plan describePlan(mlir::ModuleOp module, const Plan &chosen = {});

} // namespace hyc

#endif // HYC_LIB_DRIVER_MODEL_PLANRULES_H
