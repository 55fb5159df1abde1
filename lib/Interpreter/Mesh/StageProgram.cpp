// Finding and checking what a stage executes.
#include "Mesh/StageProgram.h"

#include "dialects/Hyc/PhaseNames.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

static FuncOp findFunction(ModuleOp module, const Twine &name) {
  return dyn_cast_or_null<FuncOp>(SymbolTable::lookupSymbolIn(module, name.str()));
}

//===----------------------------------------------------------------------===//
// What arguments and results say
//===----------------------------------------------------------------------===//

/// The first of `labels` that `find` knows.
template <typename Find> static bool hasOneOf(ArrayRef<StringRef> labels, Find find) {
  return llvm::any_of(labels, [&](StringRef label) { return static_cast<bool>(find(label)); });
}

static LogicalResult checkLabels(FuncOp function, ArrayRef<StringRef> ofArguments, ArrayRef<StringRef> ofResults) {
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (!hasOneOf(ofArguments, [&](StringRef label) { return function.getArgAttrOfType<StringAttr>(i, label); }))
      return function.emitError("argument ")
             << i << " of @" << function.getSymName() << " says none of " << llvm::join(ofArguments, ", ");
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (!hasOneOf(ofResults, [&](StringRef label) { return function.getResultAttrOfType<StringAttr>(i, label); }))
      return function.emitError("result ")
             << i << " of @" << function.getSymName() << " says none of " << llvm::join(ofResults, ", ");
  return success();
}

/// Forward's saved results are backward's saved arguments, with equal types.
static LogicalResult checkSaved(FuncOp forward, FuncOp backward) {
  std::map<StringRef, Type> saved;
  for (unsigned i = 0; i < forward.getNumResults(); ++i)
    if (auto id = forward.getResultAttrOfType<StringAttr>(i, kSaved))
      if (!saved.emplace(id.getValue(), forward.getResultTypes()[i]).second)
        return forward.emitError("saves \"") << id.getValue() << "\" twice";
  for (unsigned i = 0; i < backward.getNumArguments(); ++i) {
    auto id = backward.getArgAttrOfType<StringAttr>(i, kSaved);
    if (!id)
      continue;
    auto entry = saved.find(id.getValue());
    if (entry == saved.end())
      return backward.emitError("uses \"")
             << id.getValue() << "\", which @" << forward.getSymName() << " does not save";
    if (entry->second != backward.getArgumentTypes()[i])
      return backward.emitError("uses \"") << id.getValue() << "\" as " << backward.getArgumentTypes()[i] << ", but @"
                                           << forward.getSymName() << " saves " << entry->second;
    saved.erase(entry);
  }
  if (saved.empty())
    return success();
  return forward.emitError("saves \"") << saved.begin()->first << "\", which @" << backward.getSymName()
                                       << " does not use";
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

/// The function that an instruction calls, if it calls one.
static FuncOp calleeOf(const StageProgram &program, dist::InstructionAttr instruction) {
  switch (instruction.getKind()) {
  case dist::InstructionKind::forward:
    return program.compute(dist::Direction::forward, instruction.getVirtualStage());
  case dist::InstructionKind::backward:
    return program.compute(dist::Direction::backward, instruction.getVirtualStage());
  case dist::InstructionKind::reduce:
    return program.reduce;
  case dist::InstructionKind::apply:
    return program.apply;
  case dist::InstructionKind::exchange:
  case dist::InstructionKind::begin_step:
    return {};
  }
  return {};
}

static LogicalResult checkInstructions(StageProgram &program, dist::MeshOp mesh) {
  for (auto instruction : program.schedule.getInstructions().getAsRange<dist::InstructionAttr>()) {
    dist::InstructionKind kind = instruction.getKind();
    bool calls = kind != dist::InstructionKind::exchange && kind != dist::InstructionKind::begin_step;
    if (calls && !calleeOf(program, instruction))
      return program.schedule.emitError("asks for ")
             << instruction << ", but there is no @"
             << dist::functionName(kind, mesh.getChunk(program.stage, instruction.getVirtualStage()));
    program.numMicroBatches += kind == dist::InstructionKind::forward && instruction.getVirtualStage() == 0;
    for (dist::TransferAttr transfer : instruction.getTransfers())
      if (transfer.getSlot() < 0 || transfer.getSlot() >= program.numSlots)
        return program.schedule.emitError("has a transfer of slot ")
               << transfer.getSlot() << ", expected one below " << program.numSlots;
  }
  return success();
}

static LogicalResult checkChunk(FuncOp forward, FuncOp backward) {
  if (forward && failed(checkLabels(forward, {kInput, dist::kChannel}, {kSaved, dist::kChannel})))
    return failure();
  if (backward && failed(checkLabels(backward, {kInput, kSaved, dist::kChannel}, {dist::kChannel})))
    return failure();
  return forward && backward ? checkSaved(forward, backward) : success();
}

static LogicalResult checkProgram(StageProgram &program, dist::MeshOp mesh) {
  for (auto [forward, backward] : llvm::zip_equal(program.forward, program.backward))
    if (failed(checkChunk(forward, backward)))
      return failure();
  if (program.reduce && failed(checkLabels(program.reduce, {}, {})))
    return failure();
  if (program.apply && failed(checkLabels(program.apply, {kScalar}, {})))
    return failure();
  return checkInstructions(program, mesh);
}

FailureOr<SmallVector<StageProgram>> hyc::interpreter::findStagePrograms(ModuleOp module, dist::MeshOp mesh) {
  using dist::InstructionKind;
  SmallVector<StageProgram> programs;
  for (int64_t stage = 0; stage < static_cast<int64_t>(mesh.getStages()); ++stage) {
    StageProgram program;
    program.stage = stage;
    for (dist::ScheduleOp schedule : module.getOps<dist::ScheduleOp>())
      if (static_cast<int64_t>(schedule.getStage()) == stage)
        program.schedule = schedule;
    if (!program.schedule)
      return mesh.emitError("has ") << mesh.getStages() << " stages, but stage " << stage << " has no dist.schedule",
             failure();
    program.numSlots = static_cast<int64_t>(program.schedule.getSlots());
    for (int64_t k = 0, count = mesh.getVirtualStages(); k < count; ++k) {
      int64_t chunk = mesh.getChunk(stage, k);
      program.forward.push_back(findFunction(module, dist::functionName(InstructionKind::forward, chunk)));
      program.backward.push_back(findFunction(module, dist::functionName(InstructionKind::backward, chunk)));
    }
    program.reduce = findFunction(module, dist::functionName(InstructionKind::reduce, stage));
    program.apply = findFunction(module, dist::functionName(InstructionKind::apply, stage));
    if (failed(checkProgram(program, mesh)))
      return failure();
    if (stage > 0 && program.numMicroBatches != programs[0].numMicroBatches)
      return program.schedule.emitError("runs ")
                 << program.numMicroBatches << " micro-batches, but stage 0 runs " << programs[0].numMicroBatches,
             failure();
    programs.push_back(program);
  }
  return programs;
}
