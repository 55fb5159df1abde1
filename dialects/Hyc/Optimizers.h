// The optimizers: a row each, with all that the compiler knows of one but its update op and its kernel. The driver's
// checks, ds_config files and hyc-attach-optimizer read the table; what comes after sees updates through
// UpdateOpInterface.
#ifndef HYC_DIALECTS_HYC_OPTIMIZERS_H
#define HYC_DIALECTS_HYC_OPTIMIZERS_H

#include "dialects/Hyc/HycDialect.h"
#include "mlir/IR/Builders.h"

#include <array>

namespace hyc {

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
  UpdateSite(mlir::OpBuilder &builder, const OptimizerSettings &settings, const StepValues &step, ParamOp param,
             StateOp gradient, double decay)
      : builder(builder), settings(settings), step(step), param(param), decay(decay), gradient(gradient) {}
  virtual ~UpdateSite() = default;

  /// A state of the parameter's shape, zero at first, that the optimizer keeps: its role, in the IR and in checkpoints,
  /// and what its symbol ends in.
  virtual mlir::FlatSymbolRefAttr keep(llvm::StringRef role, llvm::StringRef suffix) = 0;
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
  StateOp gradient;
};

struct Optimizer {
  llvm::StringLiteral name;       ///< of --optimizer and in plan.json
  llvm::StringLiteral configName; ///< `optimizer.type` of a ds_config, in any case
  std::array<double, 2> betas;    ///< where nobody says them
  bool cyclesMomentum;            ///< whether a schedule may set the decay of its first moment
  llvm::StringLiteral takes;      ///< names below optimizer.params of a ds_config, beside those that every one takes
  void (*build)(UpdateSite &site);

  /// Whether a ds_config may say `parameter` of it.
  bool takesParameter(llvm::StringRef parameter) const;
};

llvm::ArrayRef<Optimizer> getOptimizers();
/// By its name, or null.
const Optimizer *findOptimizer(llvm::StringRef name);
/// "adamw, adam, sgd, lamb or lion"
std::string optimizerNames();

} // namespace hyc

#endif // HYC_DIALECTS_HYC_OPTIMIZERS_H
