// Lookup and creation of training state.
#include "TrainingState.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace hyc;

FuncOp train::findFunction(ModuleOp module, StringRef name, StringRef hint) {
  if (auto function = module.lookupSymbol<FuncOp>(name))
    return function;
  module.emitError("has no function @") << name << "; " << hint;
  return nullptr;
}

StateOp train::createState(ModuleOp module, const Twine &name, StringRef role, RankedTensorType type, ParamOp param) {
  OpBuilder builder(module.getContext());
  auto firstFunction = module.getOps<FuncOp>().begin();
  Location loc = param ? param.getLoc() : module.getLoc();
  auto zero = FillAttr::get(module.getContext(), builder.getF64FloatAttr(0.0));
  auto state = StateOp::create(builder, loc, builder.getStringAttr(name),
                               param ? FlatSymbolRefAttr::get(param) : FlatSymbolRefAttr(), builder.getStringAttr(role),
                               TypeAttr::get(type), zero, TypeAttr());
  SymbolTable(module).insert(state, Block::iterator((*firstFunction).getOperation()));
  return state;
}

StateOp train::createState(ModuleOp module, const Twine &name, StateRole role, RankedTensorType type, ParamOp param) {
  return createState(module, name, nameOf(role), type, param);
}

StateOp train::createState(ModuleOp module, StateRole role, RankedTensorType type) {
  return createState(module, nameOf(role), role, type);
}

StateOp train::findState(ModuleOp module, StateRole role) {
  StateOp found;
  for (auto state : module.getOps<StateOp>())
    if (state.is(role) && !state.getParamAttr())
      return found ? StateOp() : state;
  return found;
}
