// Layers: where a model can be cut, found by its structure.
//
// The forward ops in program order fall into units wherever one single value crosses from what came before to what
// comes after. The longest repetition of equal units (the same ops on the same types) makes the layers of a deep model;
// what stands before the repetition is one layer, and so is what follows it. Without a repetition every unit is a
// layer.
#ifndef HYC_ANALYSIS_LAYERS_H
#define HYC_ANALYSIS_LAYERS_H

#include "dialects/Hyc/HycDialect.h"

namespace hyc {

using Layer = llvm::SmallVector<mlir::Operation *>;

/// Layers [first, first + count) are equal; a count below 2 means that none are.
struct LayerRun {
  size_t first = 0, count = 0;
};

/// Ops of `func` that depend on inputs, in program order, without those marked `hyc.backward`, grouped. Ops on
/// parameters and constants alone (reads, a position table) belong to no layer: they go where they are used. In `run`,
/// which of them are equal.
llvm::SmallVector<Layer> findLayers(FuncOp func, LayerRun *run = nullptr);

} // namespace hyc

#endif // HYC_ANALYSIS_LAYERS_H
