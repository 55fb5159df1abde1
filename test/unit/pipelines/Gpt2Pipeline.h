// The tiny GPT-2, taken to any phase.
#ifndef HYC_TEST_UNIT_PIPELINES_GPT2PIPELINE_H
#define HYC_TEST_UNIT_PIPELINES_GPT2PIPELINE_H

#include "hyc/Pipelines/Pipelines.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include <memory>
#include <string>

namespace hyc::pipelines {

/// A context with every dialect of hyc.
std::unique_ptr<mlir::MLIRContext> makeContext();

/// Imports gpt2-tiny.onnx at `batch` samples. Null after a diagnostic.
mlir::OwningOpRef<mlir::ModuleOp> importTiny(mlir::MLIRContext &context, int64_t batch);

/// Runs the phases from `first` to `last`, each with its check.
bool runPhases(mlir::ModuleOp module, Phase first, Phase last, const Plan &plan, JobAccount *account = nullptr);

} // namespace hyc::pipelines

#endif // HYC_TEST_UNIT_PIPELINES_GPT2PIPELINE_H
