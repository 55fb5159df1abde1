// The passes of phase 4.
#ifndef HYC_TRANSFORMS_LOCAL_PASSES_H
#define HYC_TRANSFORMS_LOCAL_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace hyc {
#define GEN_PASS_DECL
#include "hyc/Transforms/Local/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "hyc/Transforms/Local/Passes.h.inc"
} // namespace hyc

#endif // HYC_TRANSFORMS_LOCAL_PASSES_H
