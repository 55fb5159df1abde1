// The optimizers: a row each, with what the plan, the driver's checks, ds_config files and hyc-attach-optimizer know of
// one. How its update is built stands in lib/Transforms/Train/OptimizerUpdates.cpp; later passes see updates through
// UpdateOpInterface.
#ifndef HYC_SUPPORT_OPTIMIZERS_H
#define HYC_SUPPORT_OPTIMIZERS_H

#include "llvm/ADT/StringRef.h"

#include <array>
#include <string>
#include <string_view>

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

inline constexpr char kOfAdams[] = "betas eps adam_w_mode bias_correction maximize amsgrad torch_adam fused foreach";

/// The first one is what nobody chose.
inline constexpr Optimizer kOptimizers[] = {
    {"adamw", "AdamW", {0.9, 0.999}, true, kOfAdams},
    {"adam", "Adam", {0.9, 0.999}, true, kOfAdams},
    {"lamb", "Lamb", {0.9, 0.999}, true, "betas eps bias_correction max_coeff min_coeff eps_inside_sqrt amsgrad"},
    {"lion", "Lion", {0.9, 0.99}, true, "betas"},
    {"sgd", "SGD", {0.9, 0.999}, false, "momentum dampening nesterov maximize fused foreach"},
};

/// By its name, in any case, or null.
const Optimizer *findOptimizer(llvm::StringRef name);
/// "AdamW, Adam, Lamb, Lion or SGD"
std::string listConfigOptimizers();

namespace detail {
struct JoinedNames {
  char text[256] = {};
  size_t size = 0;
  constexpr void add(std::string_view more) {
    for (char c : more)
      text[size++] = c;
  }
};

/// The names with `separator` between them, and `last` before the last one.
constexpr JoinedNames joinOptimizers(std::string_view separator, std::string_view last) {
  constexpr size_t kCount = sizeof(kOptimizers) / sizeof(Optimizer);
  JoinedNames joined;
  for (size_t i = 0; i < kCount; ++i) {
    if (i > 0)
      joined.add(i + 1 < kCount ? separator : last);
    joined.add({kOptimizers[i].name.data(), kOptimizers[i].name.size()});
  }
  return joined;
}
inline constexpr JoinedNames kChoices = joinOptimizers("|", "|"), kList = joinOptimizers(", ", " or ");
} // namespace detail

/// "adamw|adam|…|sgd", as settings have their choices, and "adamw, adam, … or sgd".
inline constexpr llvm::StringRef kOptimizerChoices(detail::kChoices.text, detail::kChoices.size);
inline constexpr llvm::StringRef kOptimizerList(detail::kList.text, detail::kList.size);

} // namespace hyc

#endif // HYC_SUPPORT_OPTIMIZERS_H
