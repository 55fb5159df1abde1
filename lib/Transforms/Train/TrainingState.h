// What training keeps beside the parameters, and the attributes that the passes of phase 2 alone share. Passes find a
// state by its role (dialects/Hyc/StateRoles.h): its symbol may have been renamed to avoid a parameter of the same
// name.
#ifndef HYC_LIB_TRANSFORMS_TRAIN_TRAININGSTATE_H
#define HYC_LIB_TRANSFORMS_TRAIN_TRAININGSTATE_H

#include "dialects/Hyc/HycDialect.h"
#include "dialects/Hyc/InputSources.h"
#include "dialects/Hyc/PhaseNames.h"

namespace hyc::train {

/// Of a tensor that is quantised to an 8-bit float. The state of role "fp8.scale" has the greatest number of that type
/// and names the others, in the order inverse, history, amax.
inline constexpr llvm::StringLiteral kFp8Largest = "hyc.fp8_largest", kFp8States = "hyc.fp8_states";

/// Of the op of the backward pass that is the loss's cotangent.
inline constexpr llvm::StringLiteral kLossSeed = "hyc.loss_seed";
/// Of an op that computes in f32 whatever the precision is, as its gradient then does.
inline constexpr llvm::StringLiteral kWide = "hyc.wide";
/// Of a parameter that is kept in no second type: who wants one converts what was read.
inline constexpr llvm::StringLiteral kUncopied = "hyc.uncopied";
/// Of a parameter that is kept as codes: their kind, how many inputs its linear layer has, and whether they come first.
inline constexpr llvm::StringLiteral kQuantized = "hyc.quantized", kQuantizedInputs = "hyc.quantized_inputs",
                                     kQuantizedInputsFirst = "hyc.quantized_inputs_first";

/// The function called `name`, or null after a diagnostic on the module that names the pass to run first.
FuncOp findFunction(mlir::ModuleOp module, llvm::StringRef name, llvm::StringRef hint);

/// Adds states to a module. It knows the module's symbols and where its functions begin, so that the thousandth state
/// costs what the first one did; whoever adds or removes symbols without it makes another one.
class StateMaker {
public:
  explicit StateMaker(mlir::ModuleOp module);

  /// Adds a zero-initialised state before the first function, renamed if the symbol is taken.
  StateOp create(const llvm::Twine &name, llvm::StringRef role, mlir::RankedTensorType type, ParamOp param = nullptr);
  StateOp create(const llvm::Twine &name, StateRole role, mlir::RankedTensorType type, ParamOp param = nullptr);
  /// The only one of its role, by whose name it goes.
  StateOp create(StateRole role, mlir::RankedTensorType type);

  template <typename SymbolOp> SymbolOp lookup(llvm::StringRef name) const { return symbols.lookup<SymbolOp>(name); }

private:
  mlir::SymbolTable symbols;
  mlir::Operation *firstFunction;
};

/// The only state of this role that belongs to no parameter, or null.
StateOp findState(mlir::ModuleOp module, StateRole role);

} // namespace hyc::train

#endif // HYC_LIB_TRANSFORMS_TRAIN_TRAININGSTATE_H
