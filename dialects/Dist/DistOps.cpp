// Verifiers of mesh and schedule, and look-ups on the mesh.
#include "dialects/Dist/DistDialect.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace hyc::dist;

//===----------------------------------------------------------------------===//
// mesh
//===----------------------------------------------------------------------===//

/// [mesh.names] and [mesh.parents].
static LogicalResult verifyNames(MeshOp mesh) {
  constexpr size_t kMostAxes = 8, kLongestName = 23;
  size_t count = mesh.getAxes().size();
  if (count > kMostAxes)
    return mesh.emitOpError("[mesh.names] has ") << count << " axes, expected at most " << kMostAxes;
  for (StringRef name : mesh.getAxes().getAsValueRange<StringAttr>())
    if (name.empty() || name.size() > kLongestName || !llvm::isLower(name[0]) ||
        !llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; }))
      return mesh.emitOpError("[mesh.names] axis \"")
             << name << "\" is no name, expected a lower-case letter, then letters, digits and _, " << kLongestName
             << " at most";
  if (!mesh.getParents())
    return success();
  if (mesh.getParents()->size() != count)
    return mesh.emitOpError("[mesh.parents] has ") << mesh.getParents()->size() << " parents and " << count << " axes";
  llvm::SmallSet<StringRef, 4> closed; // parents whose sub-axes have all been seen
  for (size_t i = 0; i < count; ++i) {
    StringRef parent = mesh.getParent(i);
    if (i > 0 && mesh.getParent(i - 1) != parent)
      closed.insert(mesh.getParent(i - 1));
    if (!parent.empty() && closed.contains(parent))
      return mesh.emitOpError("[mesh.parents] sub-axes of \"") << parent << "\" do not stand side by side";
    if (llvm::is_contained(mesh.getAxes().getAsValueRange<StringAttr>(), parent))
      return mesh.emitOpError("[mesh.parents] \"") << parent << "\" is the name of an axis and of a parent";
  }
  return success();
}

/// [mesh.roles]
static LogicalResult verifyRole(MeshOp mesh, StringRef role, std::optional<AxisListAttr> axes) {
  if (!axes)
    return success();
  llvm::SmallSet<StringRef, 4> seen;
  for (StringAttr axis : axes->getAxes()) {
    if (!mesh.getPosition(axis))
      return mesh.emitOpError("[mesh.roles] ") << role << " names \"" << axis.getValue() << "\", which is no axis";
    if (!seen.insert(axis.getValue()).second)
      return mesh.emitOpError("[mesh.roles] ") << role << " names \"" << axis.getValue() << "\" twice";
  }
  return success();
}

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
  if (failed(verifyNames(*this)) || failed(verifyRole(*this, "batch", getBatch())) ||
      failed(verifyRole(*this, "tensor", getTensor())))
    return failure();
  int64_t stages = getStages(), virtualStages = getVirtualStages();
  if (stages < 1)
    return emitOpError("[mesh.sizes] has ") << stages << " stages, expected at least 1";
  if (virtualStages < 1)
    return emitOpError("[mesh.sizes] has ") << virtualStages << " virtual stages, expected at least 1";
  if (virtualStages > 1 && stages == 1)
    return emitOpError("[mesh.virtual_stages] has ") << virtualStages << " virtual stages of 1 stage, expected 1";
  return success();
}

std::optional<size_t> MeshOp::getPosition(StringAttr axis) {
  const auto *found = llvm::find(getAxes(), axis);
  return found == getAxes().end() ? std::nullopt : std::optional<size_t>(found - getAxes().begin());
}

StringRef MeshOp::getParent(size_t position) {
  return getParents() ? cast<StringAttr>((*getParents())[position]).getValue() : StringRef();
}

int64_t MeshOp::getSize(StringAttr axis) {
  int64_t size = 1;
  for (auto [position, name] : llvm::enumerate(getAxes()))
    if (name == axis || getParent(position) == axis.getValue())
      size *= getSizes()[position];
  return size;
}

AxisListAttr MeshOp::expand(AxisListAttr axes) {
  SmallVector<StringAttr> expanded;
  for (StringAttr axis : axes.getAxes()) {
    size_t before = expanded.size();
    for (auto [position, name] : llvm::enumerate(getAxes().getAsRange<StringAttr>()))
      if (!axis.getValue().empty() && getParent(position) == axis.getValue())
        expanded.push_back(name);
    if (expanded.size() == before)
      expanded.push_back(axis);
  }
  return AxisListAttr::get(getContext(), expanded);
}

bool MeshOp::isMajorToMinor(ArrayRef<StringAttr> axes) {
  return llvm::is_sorted(axes, [&](StringAttr a, StringAttr b) { return getPosition(a) < getPosition(b); });
}

/// Those of `role` that have more than one rank.
static AxisListAttr worthwhile(MeshOp mesh, std::optional<AxisListAttr> role) {
  ArrayRef<StringAttr> axes = role ? role->getAxes() : ArrayRef<StringAttr>();
  return AxisListAttr::get(mesh.getContext(),
                           llvm::filter_to_vector(axes, [&](StringAttr axis) { return mesh.getSize(axis) > 1; }));
}

AxisListAttr MeshOp::getBatchAxes() { return worthwhile(*this, getBatch()); }
AxisListAttr MeshOp::getTensorAxes() { return worthwhile(*this, getTensor()); }

int64_t MeshOp::countMembers(GroupAttr group) {
  return getSize(group.getAxes()) * std::max<int64_t>(1, static_cast<int64_t>(group.getStages().size()));
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
  bool keeps = llvm::any_of(getInstructions().getAsRange<InstructionAttr>(), [](InstructionAttr instruction) {
    return instruction.getKind() == InstructionKind::backward;
  });
  for (auto instruction : getInstructions().getAsRange<InstructionAttr>()) {
    bool forward = instruction.getKind() == InstructionKind::forward;
    if (!forward && instruction.getKind() != InstructionKind::backward)
      continue;
    int64_t slot = instruction.getSlot();
    if (slot < 0 || slot >= slots)
      return emitOpError("[schedule.slots] ")
             << instruction << " uses slot " << slot << ", expected one below " << slots;
    if (!keeps)
      continue;
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
