// What of a stage's states a checkpoint that is written while training goes on has to copy first. The rule is the
// runtime's (checkpoint/snapshot.h), which refuses to take more than is declared here.
#include "dialects/Hyc/StateRoles.h"
#include "dialects/Rank/RankDialect.h"
#include "hyc/Analysis/MemoryAccount.h"
#include "hyc/Analysis/Workspaces.h"

#include "mlir/IR/BuiltinOps.h"

#include <set>

using namespace mlir;
using namespace hyc;

/// Whether a checkpoint holds it as a tensor: copies are made anew, and counters are numbers of its manifest.
static bool isTensorOfCheckpoint(StateRole role) {
  return role == StateRole::parameter || role == StateRole::moment || role == StateRole::fp8Scale ||
         role == StateRole::fp8Inverse || role == StateRole::fp8History;
}

std::map<int64_t, SnapshotBytes> hyc::accountSnapshots(ModuleOp module) {
  // What several stages hold the first of them writes.
  std::map<int64_t, rank::ProgramOp> programs;
  for (auto program : module.getOps<rank::ProgramOp>())
    programs[program.getStage()] = program;
  bool onGpu = module->hasAttr(kTargetAttribute);
  std::set<std::pair<StringRef, StringRef>> written;
  std::map<int64_t, SnapshotBytes> all;
  for (auto &[stage, program] : programs) {
    int64_t tensors = 0, tensorBytes = 0;
    SnapshotBytes &bytes = all[stage];
    for (auto state : program.getOps<rank::StateOp>()) {
      if (!isTensorOfCheckpoint(factsOfRole(state.getRole()).role) ||
          !written.insert({state.getRole(), state.getLogicalName()}).second)
        continue;
      ++tensors;
      int64_t size = state.getBufferType().getBytes();
      tensorBytes += size;
      // A disk is read as it is, and of a device's memory the host has an image that nobody else writes.
      StringRef arena = state.getArena();
      if (arena == rank::kNvme || (onGpu && arena != rank::kHost))
        continue;
      bytes.states += (size + kSnapshotAlignment - 1) / kSnapshotAlignment * kSnapshotAlignment;
    }
    bytes.writer = kCheckpointWriterBytes + tensors * kCheckpointTensorBytes;
    bytes.copies = kCopiesKept * (tensorBytes + tensors * kCheckpointTensorBytes + kCopyHeadBytes);
  }
  return all;
}
