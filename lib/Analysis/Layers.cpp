// Finds units by counting the values that cross each position, then layers by repetition.
#include "hyc/Analysis/Layers.h"

#include "dialects/Hyc/PhaseNames.h"
#include "llvm/ADT/Hashing.h"

using namespace mlir;
using namespace hyc;

/// Forward ops that depend on an input of the function.
static SmallVector<Operation *> placedOps(FuncOp func) {
  llvm::DenseSet<Value> fromInputs;
  fromInputs.insert_range(func.getArguments());
  SmallVector<Operation *> ops;
  for (Operation &op : func.getBody().front()) {
    if (isBackward(&op) || isa<ReturnOp>(op))
      continue;
    if (llvm::none_of(op.getOperands(), [&](Value operand) { return fromInputs.contains(operand); }))
      continue;
    fromInputs.insert_range(op.getResults());
    ops.push_back(&op);
  }
  return ops;
}

/// Closes a unit after each op where at most one computed value is still wanted by later forward ops.
static SmallVector<Layer> cutIntoUnits(ArrayRef<Operation *> ops) {
  llvm::DenseMap<Operation *, size_t> position;
  for (auto [index, op] : llvm::enumerate(ops))
    position[op] = index;
  llvm::DenseMap<Value, size_t> lastUse;
  for (auto [index, op] : llvm::enumerate(ops))
    for (Value operand : op->getOperands())
      if (Operation *def = operand.getDefiningOp(); def && position.contains(def))
        lastUse[operand] = index;
  SmallVector<Layer> units(1);
  llvm::DenseSet<Value> alive;
  for (auto [index, op] : llvm::enumerate(ops)) {
    units.back().push_back(op);
    for (Value result : op->getResults())
      if (lastUse.contains(result))
        alive.insert(result);
    SmallVector<Value> dead;
    for (Value value : alive)
      if (lastUse[value] <= index)
        dead.push_back(value);
    for (Value value : dead)
      alive.erase(value);
    if (alive.size() <= 1 && index + 1 < ops.size())
      units.emplace_back();
  }
  return units;
}

/// Equal for units with the same ops on the same types.
static llvm::hash_code hashUnit(const Layer &unit) {
  llvm::hash_code hash = llvm::hash_value(unit.size());
  for (Operation *op : unit) {
    hash = llvm::hash_combine(hash, op->getName().getAsOpaquePointer());
    for (Type type : op->getOperandTypes())
      hash = llvm::hash_combine(hash, type.getAsOpaquePointer());
    for (Type type : op->getResultTypes())
      hash = llvm::hash_combine(hash, type.getAsOpaquePointer());
    if (auto einsum = dyn_cast<EinsumOp>(op))
      hash = llvm::hash_combine(hash, einsum.getSpec());
  }
  return hash;
}

namespace {
struct Repetition {
  size_t first = 0, period = 0, count = 0;
  size_t covered() const { return period * count; }
};
} // namespace

/// The repetition that covers the most ops' units; among equals the one with the shortest period, and of these the
/// first. A stretch in which each unit is like the one a period later is gone through once: what begins inside it is
/// shorter.
static Repetition longestRepetition(ArrayRef<llvm::hash_code> units) {
  Repetition best;
  for (size_t period = 1; period <= units.size() / 2; ++period)
    for (size_t first = 0; first + 2 * period <= units.size();) {
      size_t end = first + period;
      while (end < units.size() && units[end] == units[end - period])
        ++end;
      size_t count = (end - first) / period;
      if (count >= 2 && count * period > best.covered())
        best = {first, period, count};
      first = end - period + 1;
    }
  return best;
}

SmallVector<Layer> hyc::findLayers(FuncOp func, LayerRun *run) {
  SmallVector<Operation *> ops = placedOps(func);
  if (ops.empty())
    return {};
  SmallVector<Layer> units = cutIntoUnits(ops);
  SmallVector<llvm::hash_code> hashes = llvm::map_to_vector(units, hashUnit);
  Repetition repetition = longestRepetition(hashes);
  if (repetition.count < 2)
    return units;
  SmallVector<Layer> layers;
  auto append = [&](size_t begin, size_t end) {
    if (begin == end)
      return;
    layers.emplace_back();
    for (size_t unit = begin; unit < end; ++unit)
      llvm::append_range(layers.back(), units[unit]);
  };
  append(0, repetition.first);
  if (run)
    *run = {layers.size(), repetition.count};
  for (size_t i = 0; i < repetition.count; ++i)
    append(repetition.first + i * repetition.period, repetition.first + (i + 1) * repetition.period);
  append(repetition.first + repetition.covered(), units.size());
  return layers;
}
