// Passes of phase 2, declared from Passes.td; what each does is described there.
#ifndef HYC_TRANSFORMS_TRAIN_PASSES_H
#define HYC_TRANSFORMS_TRAIN_PASSES_H

#include "mlir/Pass/Pass.h"

namespace hyc {

#define GEN_PASS_DECL
#include "hyc/Transforms/Train/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "hyc/Transforms/Train/Passes.h.inc"

} // namespace hyc

#endif // HYC_TRANSFORMS_TRAIN_PASSES_H
