// The table of optimizers, and how each builds its update.
#include "dialects/Hyc/Optimizers.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace hyc;

template <typename Op> static void buildAdam(UpdateSite &site) {
  const OptimizerSettings &s = site.settings;
  FlatSymbolRefAttr m = site.keep("adam.m"), v = site.keep("adam.v");
  site.create<Op>("update", site.paramRef(), site.gradientRef(), m, v, site.step.lr, site.step.step, site.step.scale,
                  site.step.momentum, site.step.finite, site.number(s.beta1), site.number(s.beta2),
                  site.number(s.epsilon), site.number(site.decay), site.flag(!s.correctsBias));
}

static void buildSgd(UpdateSite &site) {
  FlatSymbolRefAttr velocity;
  if (site.settings.momentum > 0)
    velocity = site.keep("sgd.momentum", "momentum");
  site.create<SgdOp>("update", site.paramRef(), site.gradientRef(), velocity, site.step.lr, site.step.scale,
                     site.step.finite, site.number(site.settings.momentum), site.number(site.decay));
}

/// The direction, the norms of it and of the parameter, and the step along it.
static void buildLamb(UpdateSite &site) {
  const OptimizerSettings &s = site.settings;
  FlatSymbolRefAttr m = site.keep("lamb.m"), v = site.keep("lamb.v");
  site.create<LambDirectionOp>("direction", site.paramRef(), site.gradientRef(), m, v, site.step.step, site.step.scale,
                               site.step.momentum, site.step.finite, site.number(s.beta1), site.number(s.beta2),
                               site.number(s.epsilon), site.number(site.decay), site.flag(!s.correctsBias));
  auto squares = [&](FlatSymbolRefAttr of, StringRef id) -> Value {
    return site.create<SumOfSquaresOp>(id, RankedTensorType::get({}, site.builder.getF64Type()),
                                       site.builder.getArrayAttr({of}));
  };
  Value ofParam = squares(site.paramRef(), "param_squares"),
        ofDirection = squares(site.gradientRef(), "direction_squares");
  auto ratio = site.create<TrustRatioOp>("trust_ratio", ofParam.getType(), ofParam, ofDirection,
                                         site.number(s.leastTrust), site.number(s.mostTrust));
  site.create<LambOp>("update", site.paramRef(), site.gradientRef(), site.step.lr, ratio, site.step.finite);
}

static void buildLion(UpdateSite &site) {
  const OptimizerSettings &s = site.settings;
  site.create<LionOp>("update", site.paramRef(), site.gradientRef(), site.keep("lion.m"), site.step.lr, site.step.scale,
                      site.step.momentum, site.step.finite, site.number(s.beta1), site.number(s.beta2),
                      site.number(site.decay));
}

static constexpr char kAdams[] = "betas eps adam_w_mode bias_correction maximize amsgrad torch_adam fused foreach";

// clang-format off
static constexpr Optimizer kOptimizers[] = {
    // name    ds_config  betas          cycles  parameters                       update
    {"adamw", "AdamW",   {0.9, 0.999},  true,   kAdams,                                                      buildAdam<AdamWOp>},
    {"adam",  "Adam",    {0.9, 0.999},  true,   kAdams,                                                      buildAdam<AdamOp>},
    {"sgd",   "SGD",     {0.9, 0.999},  false,  "momentum dampening nesterov maximize fused foreach",                buildSgd},
    {"lamb",  "Lamb",    {0.9, 0.999},  true,   "betas eps bias_correction max_coeff min_coeff eps_inside_sqrt amsgrad", buildLamb},
    {"lion",  "Lion",    {0.9, 0.99},   true,   "betas",                                                     buildLion},
};
// clang-format on

bool Optimizer::takesParameter(StringRef parameter) const {
  if (parameter == "lr" || parameter == "weight_decay" || parameter == "max_grad_norm")
    return true;
  SmallVector<StringRef> names;
  takes.split(names, ' ');
  return llvm::is_contained(names, parameter);
}

ArrayRef<Optimizer> hyc::getOptimizers() { return kOptimizers; }

const Optimizer *hyc::findOptimizer(StringRef name) {
  const Optimizer *row = llvm::find_if(kOptimizers, [&](const Optimizer &optimizer) { return optimizer.name == name; });
  return row == std::end(kOptimizers) ? nullptr : row;
}

std::string hyc::optimizerNames() {
  std::string text;
  for (const Optimizer &optimizer : kOptimizers) {
    bool isLast = &optimizer == std::end(kOptimizers) - 1;
    text += (text.empty() ? "" : isLast ? " or " : ", ") + optimizer.name.str();
  }
  return text;
}
