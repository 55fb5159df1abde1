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

train::StateMaker::StateMaker(ModuleOp module) : symbols(module), firstFunction(*module.getOps<FuncOp>().begin()) {}

StateOp train::StateMaker::create(const Twine &name, StringRef role, RankedTensorType type, ParamOp param) {
  Operation *module = symbols.getOp();
  OpBuilder builder(module->getContext());
  Location loc = param ? param.getLoc() : module->getLoc();
  auto zero = FillAttr::get(module->getContext(), builder.getF64FloatAttr(0.0));
  auto state = StateOp::create(builder, loc, builder.getStringAttr(name),
                               param ? FlatSymbolRefAttr::get(param) : FlatSymbolRefAttr(), builder.getStringAttr(role),
                               TypeAttr::get(type), zero, TypeAttr());
  symbols.insert(state, Block::iterator(firstFunction));
  return state;
}

StateOp train::StateMaker::create(const Twine &name, StateRole role, RankedTensorType type, ParamOp param) {
  return create(name, nameOf(role), type, param);
}

StateOp train::StateMaker::create(StateRole role, RankedTensorType type) { return create(nameOf(role), role, type); }

StateOp train::findState(ModuleOp module, StateRole role) {
  StateOp found;
  for (auto state : module.getOps<StateOp>())
    if (state.is(role) && !state.getParamAttr())
      return found ? StateOp() : state;
  return found;
}
