// How each optimizer's update is built in @apply.
#ifndef HYC_LIB_TRANSFORMS_TRAIN_OPTIMIZERUPDATES_H
#define HYC_LIB_TRANSFORMS_TRAIN_OPTIMIZERUPDATES_H

#include "TrainingState.h"
#include "mlir/IR/Builders.h"

namespace hyc::train {

/// What a person can say of an optimizer's update; each takes some of it.
struct OptimizerSettings {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double momentum = 0;
  double leastTrust = 0.01, mostTrust = 10;
  bool correctsBias = true;
};

/// What every update of one step shares.
struct StepValues {
  mlir::Value lr, step, scale;
  mlir::Value momentum; ///< this step's decay of the first moment; null: a constant
  mlir::Value finite;   ///< null where updates always happen
};

/// One parameter to update, and where the ops that do it are built.
class UpdateSite {
public:
  UpdateSite(mlir::OpBuilder &builder, StateMaker &states, const OptimizerSettings &settings, const StepValues &step,
             ParamOp param, StateOp gradient, double decay)
      : builder(builder), settings(settings), step(step), param(param), decay(decay), states(states),
        gradient(gradient) {}

  /// A state of the parameter's shape, zero at first, that the optimizer keeps: its role, in the IR and in checkpoints,
  /// and what its symbol ends in.
  mlir::FlatSymbolRefAttr keep(llvm::StringRef role, llvm::StringRef suffix) {
    return mlir::FlatSymbolRefAttr::get(
        states.create(param.getSymName() + "." + suffix, role, param.getTensorType(), param));
  }
  mlir::FlatSymbolRefAttr keep(llvm::StringRef role) { return keep(role, role); }

  mlir::FlatSymbolRefAttr paramRef() { return mlir::FlatSymbolRefAttr::get(ParamOp(param)); }
  mlir::FlatSymbolRefAttr gradientRef() { return mlir::FlatSymbolRefAttr::get(StateOp(gradient)); }
  mlir::FloatAttr number(double value) { return builder.getF64FloatAttr(value); }
  mlir::UnitAttr flag(bool value) { return value ? builder.getUnitAttr() : mlir::UnitAttr(); }
  /// An op whose id is the parameter's name with a suffix.
  template <typename OpT, typename... Args> OpT create(llvm::StringRef suffix, Args &&...args) {
    auto op = OpT::create(builder, param.getLoc(), std::forward<Args>(args)...);
    setId(op, param.getSymName() + "." + suffix);
    return op;
  }

  mlir::OpBuilder &builder;
  const OptimizerSettings &settings;
  const StepValues &step;
  ParamOp param;
  double decay; ///< of this parameter's weights

private:
  StateMaker &states;
  StateOp gradient;
};

/// Builds the update of the optimizer called `name` (hyc/Support/Optimizers.h); null where it has none.
using UpdateBuilder = void (*)(UpdateSite &site);
UpdateBuilder findUpdate(llvm::StringRef name);

} // namespace hyc::train

#endif // HYC_LIB_TRANSFORMS_TRAIN_OPTIMIZERUPDATES_H
