// How much may be saved so that the activations arena fits. What a stage saves is chosen in phase 3, what its arena
// then takes is known after placement in phase 5, working memory and alignment included: so the phases between are run
// until both agree.
#ifndef HYC_LIB_DRIVER_FIT_ACTIVATIONBUDGET_H
#define HYC_LIB_DRIVER_FIT_ACTIVATIONBUDGET_H

#include "hyc/Analysis/MemoryAccount.h"
#include "hyc/Pipelines/Pipelines.h"
#include "hyc/Plan/CompileOptions.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace hyc {

/// The budgets of hyc-assign-lifetimes, one a stage, under which no rank's activations arena exceeds `limit` bytes.
/// `train` is a module of phase 2 and stays as it is; `plan` is that of the phases to come. Where nothing fits,
/// the error (65) tells each stage's least.
llvm::Expected<std::vector<int64_t>> findActivationBudgets(mlir::ModuleOp train, const Plan &plan, int64_t limit);

/// Whether a job keeps --activation-memory, where it is given; the error (65) names a stage that does not.
llvm::Error checkActivationMemory(const JobAccount &job, const CompileOptions &options);

} // namespace hyc

#endif // HYC_LIB_DRIVER_FIT_ACTIVATIONBUDGET_H
