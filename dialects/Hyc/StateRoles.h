// StateRole: what a state is for, and what follows from that. A parameter is its representations: the parameter itself
// (the master), its copy in the compute type, its gradient, and what the optimizer keeps of it; each is a state with a
// role, and the table of StateRoles.cpp says all that passes, emitters and interpreters ask of one.
//
// The one surprise: optimizers name their own states ("adam.m"). Every such name is of role `moment`.
#ifndef HYC_DIALECTS_HYC_STATEROLES_H
#define HYC_DIALECTS_HYC_STATEROLES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace hyc {

enum class StateRole {
  parameter,
  compute,   ///< a parameter's copy in the type that the model computes in
  codes,     ///< what is kept of a frozen parameter in its place, quantised
  codeScale, ///< what its codes are multiplied with
  gradient,  ///< the sum of a parameter's gradients
  moment,    ///< what an optimizer keeps of a parameter, by a name of the optimizer's
  lossSum,
  tokenCount,
  correctCount,
  gradNorm,
  step,
  lossScale,
  goodSteps,
  hysteresis,
  appliedStep, ///< steps that were not skipped
  fp8Scale,
  fp8Inverse,
  fp8History,
  fp8Amax,
  output, ///< of a program that computes a model's outputs
};

/// Where a state lies, if the plan does not put it elsewhere.
enum class RoleArena {
  parameters,
  gradients,     ///< many, adjacent, reduced together
  optimizer,     ///< what only the update touches, checkpoints keep
  communication, ///< scalars that ranks sum
  feeds,         ///< small counters beside the inputs
};

/// How the runtime knows a scalar of the program.
enum class RuntimeScalar {
  none,
  required, ///< of every program that trains
  optional, ///< where there is one
};

struct RoleFacts {
  StateRole role;
  llvm::StringLiteral name; ///< in the IR, in programs, and in checkpoints
  RoleArena arena;
  bool isSaved;            ///< a row of the runtime's table of states: initialised, and kept in checkpoints
  bool isReadByMicrobatch; ///< @microbatch may read it
  bool isOfQuantized;      ///< belongs to one quantised tensor, on the stages that quantise it
  RuntimeScalar scalar;
};

/// All roles with a name of their own.
llvm::ArrayRef<RoleFacts> getRoles();
const RoleFacts &factsOf(StateRole role);
/// Of the role that `name` is; names that no row has are moments.
const RoleFacts &factsOfRole(llvm::StringRef name);
inline llvm::StringRef nameOf(StateRole role) { return factsOf(role).name; }

} // namespace hyc

#endif // HYC_DIALECTS_HYC_STATEROLES_H
