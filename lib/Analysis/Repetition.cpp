// Effects decide: states that the function changes are found once, by the symbols that its writing ops name.
#include "hyc/Analysis/Repetition.h"

#include "dialects/Dist/DistDialect.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace hyc;

bool hyc::isFree(Operation *op) { return isa<ReadOp, ConstantOp, IotaOp, ReshapeOp, dist::ShardOffsetOp>(op); }

Repetition::Repetition(FuncOp func) {
  for (Operation &op : func.getBody().front()) {
    if (isMemoryEffectFree(&op) || isa<ReadOp>(op))
      continue;
    for (NamedAttribute attribute : op.getAttrs())
      attribute.getValue().walk([&](FlatSymbolRefAttr symbol) { changed.insert(symbol.getAttr()); });
  }
}

bool Repetition::isExact(Operation *op) const {
  if (auto read = dyn_cast<ReadOp>(op))
    return !changed.contains(read.getSourceAttr().getAttr());
  return isMemoryEffectFree(op);
}
