// The table of roles.
#include "dialects/Hyc/StateRoles.h"

#include "llvm/ADT/STLExtras.h"

using namespace hyc;

using A = RoleArena;
using S = RuntimeScalar;

// In the order of StateRole; of the runtime's scalars this is also the order in which programs list them.
// clang-format off
static constexpr RoleFacts kRoles[] = {
    // role                    name                      arena             saved  read   fp8    scalar
    {StateRole::parameter,    "parameter",              A::parameters,    true,  true,  false, S::none},
    {StateRole::compute,      "compute",                A::parameters,    true,  true,  false, S::none},
    {StateRole::codes,        "codes",                  A::parameters,    true,  true,  false, S::none},
    {StateRole::codeScale,    "codes.scale",            A::parameters,    true,  true,  true,  S::none},
    {StateRole::gradient,     "gradient",               A::gradients,     true,  false, false, S::none},
    {StateRole::moment,       "",                       A::optimizer,     true,  false, false, S::none},
    {StateRole::lossSum,      "loss_sum",               A::communication, false, false, false, S::required},
    {StateRole::tokenCount,   "token_count",            A::communication, false, false, false, S::required},
    {StateRole::correctCount, "correct_count",          A::communication, false, false, false, S::none},
    {StateRole::gradNorm,     "grad_norm",              A::feeds,         false, false, false, S::required},
    {StateRole::step,         "step",                   A::feeds,         true,  false, false, S::none},
    {StateRole::lossScale,    "loss_scale",             A::feeds,         true,  true,  false, S::optional},
    {StateRole::goodSteps,    "loss_scale.good_steps",  A::feeds,         true,  false, false, S::none},
    {StateRole::hysteresis,   "loss_scale.hysteresis",  A::feeds,         true,  false, false, S::optional},
    {StateRole::appliedStep,  "applied_step",           A::feeds,         true,  false, false, S::optional},
    {StateRole::fp8Scale,     "fp8.scale",              A::optimizer,     true,  true,  true,  S::none},
    {StateRole::fp8Inverse,   "fp8.inverse",            A::optimizer,     true,  true,  true,  S::none},
    {StateRole::fp8History,   "fp8.history",            A::optimizer,     true,  false, true,  S::none},
    {StateRole::fp8Amax,      "fp8.amax",               A::communication, false, false, true,  S::none},
    {StateRole::output,       "output",                 A::feeds,         true,  false, false, S::none},
};
// clang-format on

static constexpr bool isInOrder() {
  size_t index = 0;
  for (const RoleFacts &row : kRoles)
    if (static_cast<size_t>(row.role) != index++)
      return false;
  return index == static_cast<size_t>(StateRole::output) + 1;
}
static_assert(isInOrder(), "a row a role, in the order of StateRole");

llvm::ArrayRef<RoleFacts> hyc::getRoles() { return kRoles; }

const RoleFacts &hyc::factsOf(StateRole role) { return kRoles[static_cast<size_t>(role)]; }

const RoleFacts &hyc::factsOfRole(llvm::StringRef name) {
  const RoleFacts *row = llvm::find_if(kRoles, [&](const RoleFacts &facts) { return facts.name == name; });
  return row != std::end(kRoles) && !name.empty() ? *row : factsOf(StateRole::moment);
}
