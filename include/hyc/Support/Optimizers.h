// The optimizers: a row each, with what the plan, the driver's checks, ds_config files and hyc-attach-optimizer know of
// one. How its update is built stands in lib/Transforms/Train/OptimizerUpdates.cpp; later passes see updates through
// UpdateOpInterface.
#ifndef HYC_SUPPORT_OPTIMIZERS_H
#define HYC_SUPPORT_OPTIMIZERS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <string>

namespace hyc {

struct Optimizer {
  llvm::StringLiteral name;       ///< of --optimizer and in plan.json
  llvm::StringLiteral configName; ///< `optimizer.type` of a ds_config, in any case
  std::array<double, 2> betas;    ///< where nobody says them
  bool cyclesMomentum;            ///< whether a schedule may set the decay of its first moment
  llvm::StringLiteral takes;      ///< names below optimizer.params of a ds_config, beside those that every one takes

  /// Whether a ds_config may say `parameter` of it.
  bool takesParameter(llvm::StringRef parameter) const;
};

/// The first one is what nobody chose.
llvm::ArrayRef<Optimizer> getOptimizers();
/// By its name, in any case, or null.
const Optimizer *findOptimizer(llvm::StringRef name);
/// "adamw, adam, sgd, lamb or lion", or so by the names of a ds_config.
std::string listOptimizers(bool ofConfig = false);

} // namespace hyc

#endif // HYC_SUPPORT_OPTIMIZERS_H
