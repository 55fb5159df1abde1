// CommunicationCheck: whether every exchange meets its partner, before any rank runs.
//
// All ranks of a stage run one program, and no control flow depends on coordinates; what one stage does against another
// is therefore what every pair of their ranks does. The check steps the stages' schedules together under rendezvous
// semantics: a transfer completes only when both sides stand at it (and, of several between the same two stages in one
// direction, those listed before it have), a collective only when every stage of its group stands
// at the same one. If no stage can go on and some is not done, ranks would hang there for ever.
//
// Worked example, two stages: stage 0 at [send forward 1], stage 1 at [send backward 0] wait for each other's receive,
// which neither reaches: a deadlock. Written as one exchange each, [send forward 1, receive backward 0] and its mirror
// complete.
#ifndef HYC_ANALYSIS_COMMUNICATIONCHECK_H
#define HYC_ANALYSIS_COMMUNICATIONCHECK_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/LogicalResult.h"

namespace hyc {

/// Checks a phase-4 module; on failure, one error that says where every stage stands and what it waits for.
llvm::LogicalResult checkCommunication(mlir::ModuleOp module);

} // namespace hyc

#endif // HYC_ANALYSIS_COMMUNICATIONCHECK_H
