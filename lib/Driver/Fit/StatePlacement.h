// StatePlacement: which states leave the device where they do not all fit, and no more of them.
//
// What a state costs off the device follows from what moves in a step: an optimizer's states there and back once, with
// the gradient and the parameter of the update; a gradient for each micro-batch; a parameter for each use of it. So
// large states go first that are seldom needed, and a tied embedding, which is used twice, goes last. Chosen is by the
// exact account, cheapest first by bytes that come free for a second of the step, the last one no larger than it has to
// be; then what is not needed after all comes back.
#ifndef HYC_LIB_DRIVER_FIT_STATEPLACEMENT_H
#define HYC_LIB_DRIVER_FIT_STATEPLACEMENT_H

#include "hyc/Analysis/MachineRates.h"
#include "hyc/Analysis/MemoryAccount.h"
#include "hyc/Plan/Plan.h"
#include "mlir/IR/BuiltinOps.h"

namespace hyc {

/// A parameter that is trained: its symbols, and how often a micro-batch reads it.
struct MovableParam {
  std::string name;
  std::vector<std::string> optimizer; ///< symbols of its states, and of its master beside a copy
  std::string gradient, used;
  int64_t uses = 1;
};

/// Of a module of phase 3.
std::vector<MovableParam> collectMovable(mlir::ModuleOp module);

/// What decides beside the account.
struct PlacementTerms {
  double hostRate = 1;      ///< bytes a second between device and host
  double launch = 0;        ///< seconds that no move is done in
  int64_t microBatches = 1; ///< of a step
};

/// Rules that free `excess` bytes on every stage, of a job that keeps all on the device; nothing where all that can be
/// moved is too little. A rule for each parameter, by the placements of StateProperties.h.
std::optional<std::vector<PlanRule>> placeStates(const JobAccount &job, const std::vector<MovableParam> &params,
                                                 const std::vector<int64_t> &excess, const PlacementTerms &terms);

/// The largest `excess` of each stage for which there are such rules.
std::vector<int64_t> movableBytes(const JobAccount &job, const std::vector<MovableParam> &params);

} // namespace hyc

#endif // HYC_LIB_DRIVER_FIT_STATEPLACEMENT_H
