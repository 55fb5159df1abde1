// ops.json: what the marks of a profile stand for; hyc-run --profile reads it (runtime/src/profile/ops_file.h).
#ifndef HYC_LIB_DRIVER_REPORT_OPSJSON_H
#define HYC_LIB_DRIVER_REPORT_OPSJSON_H

#include "hyc/Analysis/MachineRates.h"
#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace hyc {

/// Of programs of phase 5. `planHash` says which they are.
std::string writeOpsJson(mlir::ModuleOp module, const MachineRates &rates, llvm::StringRef planHash);

/// The layer of an op, which is its name up to the first number: "transformer.h.0" of "transformer.h.0.attn.c_attn".
/// Without a number the module that it is in, "lm_head" of "lm_head.grad".
std::string layerOf(llvm::StringRef id);

} // namespace hyc

#endif // HYC_LIB_DRIVER_REPORT_OPSJSON_H
