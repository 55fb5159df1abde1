// Passes for some of the modules inside: those of further sizes, or the one that evaluates (hyc/Analysis/Entry.h).
#ifndef HYC_LIB_PIPELINES_INNERMODULES_H
#define HYC_LIB_PIPELINES_INNERMODULES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <functional>

namespace hyc {

enum class InnerModules { All, Evaluation, Sizes };

/// Builds what is run on a module inside, when it is known what became of the module around it.
using InnerPipeline = std::function<void(mlir::OpPassManager &passes, mlir::ModuleOp around)>;

/// Runs `build`'s passes on each module inside of that kind, one after another; nothing where there is none. Each has
/// passes of its own: what one keeps of a module is not there for the next.
std::unique_ptr<mlir::Pass> createRunInside(InnerModules which, InnerPipeline build);

} // namespace hyc

#endif // HYC_LIB_PIPELINES_INNERMODULES_H
