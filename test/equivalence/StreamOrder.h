// StreamOrder: whether ranks would wait for ever where each puts all of its exchanges on one stream, as under NCCL.
//
// A rank issues collectives, those inside a stage and those between stages, and the transfers of an exchange (one
// group) in the order of its program. What is first on a stream runs, and nothing else does, until all its members have
// come to it: a collective of one communicator meets the collective at the same place there of every other member,
// whatever either computes; a message of a group meets the first one on the other side that nobody has met. Written
// apart from the interpreter and from the check of phase 4, by ranks and not by stages, so that it may contradict both.
#ifndef HYC_TEST_EQUIVALENCE_STREAMORDER_H
#define HYC_TEST_EQUIVALENCE_STREAMORDER_H

#include "mlir/IR/BuiltinOps.h"

namespace hyc::equivalence {

/// Of a step of a phase 4 module, whatever its checks say.
bool hangsOnStreams(mlir::ModuleOp module);

} // namespace hyc::equivalence

#endif // HYC_TEST_EQUIVALENCE_STREAMORDER_H
