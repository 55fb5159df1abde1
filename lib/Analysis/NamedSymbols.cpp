// What names no symbol is told by its kind, for those that are frequent.
#include "hyc/Analysis/NamedSymbols.h"

using namespace mlir;
using namespace hyc;

static void visitIn(Attribute attribute, llvm::function_ref<void(FlatSymbolRefAttr)> visit) {
  if (auto symbol = dyn_cast<FlatSymbolRefAttr>(attribute))
    visit(symbol);
  else if (auto list = dyn_cast<ArrayAttr>(attribute))
    for (Attribute each : list)
      visitIn(each, visit);
  else if (!isa<StringAttr, IntegerAttr, FloatAttr, UnitAttr, TypeAttr, DenseArrayAttr, DenseElementsAttr>(attribute))
    attribute.walk([&](FlatSymbolRefAttr symbol) { visit(symbol); });
}

void hyc::visitNamedSymbols(Operation *op, llvm::function_ref<void(FlatSymbolRefAttr)> visit) {
  NamedAttrList inherent;
  op->getName().populateInherentAttrs(op, inherent);
  for (NamedAttribute attribute : inherent)
    visitIn(attribute.getValue(), visit);
  for (NamedAttribute attribute : op->getDiscardableAttrs())
    visitIn(attribute.getValue(), visit);
}

bool hyc::namesSymbol(Operation *op, FlatSymbolRefAttr symbol) {
  bool found = false;
  visitNamedSymbols(op, [&](FlatSymbolRefAttr named) { found |= named == symbol; });
  return found;
}
