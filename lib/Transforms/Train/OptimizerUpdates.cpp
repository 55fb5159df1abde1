// The updates: their ops, and what they keep of a parameter.
#include "OptimizerUpdates.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

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

UpdateBuilder train::findUpdate(StringRef name) {
  return llvm::StringSwitch<UpdateBuilder>(name)
      .Case("adamw", buildAdam<AdamWOp>)
      .Case("adam", buildAdam<AdamOp>)
      .Case("sgd", buildSgd)
      .Case("lamb", buildLamb)
      .Case("lion", buildLion)
      .Default(nullptr);
}
