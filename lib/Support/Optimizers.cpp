// The table of optimizers.
#include "hyc/Support/Optimizers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace llvm;
using namespace hyc;

static constexpr char kEvery[] = "lr weight_decay max_grad_norm";
static constexpr char kAdams[] = "betas eps adam_w_mode bias_correction maximize amsgrad torch_adam fused foreach";

// clang-format off
static constexpr Optimizer kOptimizers[] = {
    {"adamw", "AdamW", {0.9, 0.999}, true,  kAdams},
    {"adam",  "Adam",  {0.9, 0.999}, true,  kAdams},
    {"sgd",   "SGD",   {0.9, 0.999}, false, "momentum dampening nesterov maximize fused foreach"},
    {"lamb",  "Lamb",  {0.9, 0.999}, true,  "betas eps bias_correction max_coeff min_coeff eps_inside_sqrt amsgrad"},
    {"lion",  "Lion",  {0.9, 0.99},  true,  "betas"},
};
// clang-format on

bool Optimizer::takesParameter(StringRef parameter) const {
  SmallVector<StringRef> names;
  StringRef(kEvery).split(names, ' ');
  takes.split(names, ' ');
  return is_contained(names, parameter);
}

ArrayRef<Optimizer> hyc::getOptimizers() { return kOptimizers; }

const Optimizer *hyc::findOptimizer(StringRef name) {
  const Optimizer *row = find_if(kOptimizers, [&](const Optimizer &o) { return name.equals_insensitive(o.name); });
  return row == std::end(kOptimizers) ? nullptr : row;
}

std::string hyc::listOptimizers(bool ofConfig) {
  std::string text;
  for (const Optimizer &optimizer : kOptimizers) {
    bool isLast = &optimizer == std::end(kOptimizers) - 1;
    text += (text.empty() ? "" : isLast ? " or " : ", ") + (ofConfig ? optimizer.configName : optimizer.name).str();
  }
  return text;
}
