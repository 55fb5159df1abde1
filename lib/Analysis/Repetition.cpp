// Effects decide: states that the function changes are found once, by the symbols that its writing ops name.
#include "hyc/Analysis/Repetition.h"

#include "dialects/Dist/DistDialect.h"
#include "hyc/Analysis/NamedSymbols.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace hyc;

bool hyc::isFree(Operation *op) {
  return isa<ReadOp, ConstantOp, IotaOp, RotaryTableOp, ReshapeOp, BroadcastOp, DequantizeOp, dist::ShardOffsetOp>(op);
}

/// Whether an op changes nothing that is there before it: it has no effects, or makes room for its own result.
static bool changesNothing(Operation *op) {
  if (isMemoryEffectFree(op))
    return true;
  auto effects = dyn_cast<MemoryEffectOpInterface>(op);
  return effects && effects.onlyHasEffect<MemoryEffects::Allocate>();
}

Repetition::Repetition(FuncOp func) {
  for (Operation &op : func.getBody().front()) {
    if (changesNothing(&op) || isa<ReadOp>(op))
      continue;
    visitNamedSymbols(&op, [&](FlatSymbolRefAttr symbol) { changed.insert(symbol.getAttr()); });
  }
}

bool Repetition::isExact(Operation *op) const {
  if (auto read = dyn_cast<ReadOp>(op))
    return !changed.contains(read.getSourceAttr().getAttr());
  return changesNothing(op);
}
