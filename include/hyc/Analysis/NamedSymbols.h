// The symbols that an op names in its attributes: states, inputs, functions.
//
// MLIR's own walk over attributes sets up tables for each, and the attributes of an op as one dictionary are made anew
// each time: over all ops of a program that is longer than what the symbols are wanted for.
#ifndef HYC_ANALYSIS_NAMEDSYMBOLS_H
#define HYC_ANALYSIS_NAMEDSYMBOLS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace hyc {

/// Calls `visit` with each symbol, as often as it is named.
void visitNamedSymbols(mlir::Operation *op, llvm::function_ref<void(mlir::FlatSymbolRefAttr)> visit);

/// Whether `op` names `symbol`.
bool namesSymbol(mlir::Operation *op, mlir::FlatSymbolRefAttr symbol);

} // namespace hyc

#endif // HYC_ANALYSIS_NAMEDSYMBOLS_H
