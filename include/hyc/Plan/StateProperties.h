// StateProperties: what a parameter's rule may say beside its sharding, a row a property, in the order in which
// plan.json has them. What a kind is as an attribute, and who holds a property in a module, PlanRules.cpp knows.
#ifndef HYC_PLAN_STATEPROPERTIES_H
#define HYC_PLAN_STATEPROPERTIES_H

namespace hyc {

struct StateProperty {
  /// Master: the f32 parameter beside a copy in another type. Used: what forward and backward read, the copy or else
  /// the parameter.
  enum class Holder { Gradient, Optimizer, Master, Used };
  enum class Kind {
    Flat,      ///< the axes that it is flat over, "{dp}"
    Reduction, ///< when it is summed over ranks: step or micro_batch
    Placement, ///< device, host or nvme
  };

  const char *key;
  Holder holder;
  Kind kind;

  /// The object of plan.json beside which rules say this: what holds for parameters that no rule matches.
  const char *object() const { return kind == Kind::Placement ? "offload" : "zero"; }
};

inline constexpr StateProperty kStateProperties[] = {
    {"gradient", StateProperty::Holder::Gradient, StateProperty::Kind::Flat},
    {"reduction", StateProperty::Holder::Gradient, StateProperty::Kind::Reduction},
    {"optimizer", StateProperty::Holder::Optimizer, StateProperty::Kind::Flat},
    {"master", StateProperty::Holder::Master, StateProperty::Kind::Flat},
    {"placement", StateProperty::Holder::Used, StateProperty::Kind::Placement},
    {"optimizer_placement", StateProperty::Holder::Optimizer, StateProperty::Kind::Placement},
    {"gradient_placement", StateProperty::Holder::Gradient, StateProperty::Kind::Placement},
    {"master_placement", StateProperty::Holder::Master, StateProperty::Kind::Placement},
};

} // namespace hyc

#endif // HYC_PLAN_STATEPROPERTIES_H
