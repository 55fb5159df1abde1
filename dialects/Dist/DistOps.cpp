// Verifiers of the dist ops, and look-ups on the mesh.
#include "dialects/Dist/DistDialect.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace hyc::dist;

//===----------------------------------------------------------------------===//
// mesh
//===----------------------------------------------------------------------===//

LogicalResult MeshOp::verify() {
  if (getAxes().size() != getSizes().size())
    return emitOpError("[mesh.sizes] has ") << getAxes().size() << " axes and " << getSizes().size() << " sizes";
  llvm::SmallSet<StringRef, 4> seen;
  for (auto [axis, size] : llvm::zip_equal(getAxes().getAsValueRange<StringAttr>(), getSizes())) {
    if (size < 1)
      return emitOpError("[mesh.sizes] axis \"") << axis << "\" has size " << size << ", expected at least 1";
    if (!seen.insert(axis).second)
      return emitOpError("[mesh.sizes] axis \"") << axis << "\" is named twice";
  }
  int64_t stages = getStages(), virtualStages = getVirtualStages();
  if (stages < 1)
    return emitOpError("[mesh.sizes] has ") << stages << " stages, expected at least 1";
  if (virtualStages < 1)
    return emitOpError("[mesh.sizes] has ") << virtualStages << " virtual stages, expected at least 1";
  if (virtualStages > 1 && stages == 1)
    return emitOpError("[mesh.virtual_stages] has ") << virtualStages << " virtual stages of 1 stage, expected 1";
  return success();
}

int64_t MeshOp::getSize(StringAttr axis) {
  for (auto [name, size] : llvm::zip_equal(getAxes(), getSizes()))
    if (name == axis)
      return size;
  return 1;
}

int64_t MeshOp::getSize(AxisListAttr axes) {
  int64_t size = 1;
  for (StringAttr axis : axes.getAxes())
    size *= getSize(axis);
  return size;
}

int64_t MeshOp::getRanksPerStage() {
  int64_t ranks = 1;
  for (int64_t size : getSizes())
    ranks *= size;
  return ranks;
}

MeshOp MeshOp::find(ModuleOp module) {
  auto meshes = module.getOps<MeshOp>();
  return meshes.empty() ? MeshOp() : *meshes.begin();
}

//===----------------------------------------------------------------------===//
// schedule
//===----------------------------------------------------------------------===//

std::string hyc::dist::functionName(InstructionKind kind, int64_t chunkOrStage) {
  return (stringifyInstructionKind(kind) + "." + llvm::Twine(chunkOrStage)).str();
}

std::optional<int64_t> hyc::dist::chunkOf(Operation *op) {
  auto chunk = op->getAttrOfType<IntegerAttr>(kStage);
  return chunk ? std::optional(chunk.getInt()) : std::nullopt;
}

LogicalResult ScheduleOp::verify() {
  int64_t slots = getSlots();
  using Held = std::pair<int64_t, int64_t>; // virtual stage and micro-batch
  SmallVector<std::optional<Held>> heldBy(slots);
  for (auto instruction : getInstructions().getAsRange<InstructionAttr>()) {
    bool forward = instruction.getKind() == InstructionKind::forward;
    if (!forward && instruction.getKind() != InstructionKind::backward)
      continue;
    int64_t slot = instruction.getSlot();
    if (slot < 0 || slot >= slots)
      return emitOpError("[schedule.slots] ")
             << instruction << " uses slot " << slot << ", expected one below " << slots;
    Held which{instruction.getVirtualStage(), instruction.getMicroBatch()};
    if (forward && heldBy[slot]) {
      auto error = emitOpError("[schedule.slots] ") << instruction << " fills slot " << slot
                                                    << ", which still holds micro-batch " << heldBy[slot]->second;
      return heldBy[slot]->first == 0 ? error : error << " of virtual stage " << heldBy[slot]->first;
    }
    if (!forward && heldBy[slot] != which)
      return emitOpError("[schedule.slots] ") << instruction << " empties slot " << slot << ", which does not hold it";
    heldBy[slot] = forward ? std::optional(which) : std::nullopt;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

LogicalResult AllReduceStartOp::verify() {
  if (getPending().getType().getTensor() == getOperand().getType())
    return success();
  return emitOpError("combines ") << getOperand().getType() << " into " << getPending().getType();
}

/// `whole` and `shard` agree but for `dim`, where shards of equal size cover the whole.
static LogicalResult verifyShard(Operation *op, RankedTensorType whole, RankedTensorType shard, int64_t dim) {
  bool agree = dim >= 0 && dim < whole.getRank() && whole.getRank() == shard.getRank() &&
               whole.getElementType() == shard.getElementType() && shard.getDimSize(dim) <= whole.getDimSize(dim);
  for (int64_t d = 0; agree && d < whole.getRank(); ++d)
    agree = d == dim || whole.getDimSize(d) == shard.getDimSize(d);
  if (agree)
    return success();
  return op->emitOpError("has whole ") << whole << " and shard " << shard << " along dim " << dim;
}

/// `shard` is one-dimensional and of the size that flat shards of `whole` have on the module's mesh.
static LogicalResult verifyFlatShard(Operation *op, RankedTensorType whole, RankedTensorType shard, AxisListAttr axes) {
  bool agree = shard.getRank() == 1 && whole.getElementType() == shard.getElementType() && !axes.empty();
  auto module = op->getParentOfType<ModuleOp>();
  MeshOp mesh = module ? MeshOp::find(module) : MeshOp();
  if (agree && mesh)
    agree = shard.getDimSize(0) == flatShardSize(whole.getNumElements(), mesh.getSize(axes));
  if (agree)
    return success();
  return op->emitOpError("[exchange.flat] has whole ") << whole << " and shard " << shard << " flat over " << axes;
}

/// Of the two forms, by dimension and flat.
static LogicalResult verifyForm(Operation *op, RankedTensorType whole, RankedTensorType shard,
                                std::optional<int64_t> dim, std::optional<AxisListAttr> flat) {
  if (dim.has_value() == flat.has_value())
    return op->emitOpError("[exchange.form] has ")
           << (dim ? "both dim and flat" : "neither dim nor flat") << ", expected one of them";
  return dim ? verifyShard(op, whole, shard, *dim) : verifyFlatShard(op, whole, shard, *flat);
}

LogicalResult AllGatherStartOp::verify() {
  return verifyForm(*this, getPending().getType().getTensor(), cast<RankedTensorType>(getOperand().getType()), getDim(),
                    getFlat());
}
LogicalResult ReduceScatterStartOp::verify() {
  return verifyForm(*this, cast<RankedTensorType>(getOperand().getType()), getPending().getType().getTensor(), getDim(),
                    getFlat());
}
LogicalResult SliceOp::verify() {
  auto whole = cast<RankedTensorType>(getOperand().getType()), shard = cast<RankedTensorType>(getResult().getType());
  return getDim() ? verifyShard(*this, whole, shard, *getDim()) : verifyFlatShard(*this, whole, shard, getAxes());
}

void AllGatherStartOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  if (getFlat())
    effects.emplace_back(MemoryEffects::Allocate::get(), cast<OpResult>(getPending()));
}

LogicalResult WaitOp::verify() {
  if (getPending().getType().getTensor() == getResult().getType())
    return success();
  return emitOpError("awaits ") << getPending().getType() << " as " << getResult().getType();
}
