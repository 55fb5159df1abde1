// The single-device interpreter: calls by position and by name, and access to its states.
#include "hyc/Interpreter/Interpreter.h"

#include "dialects/Hyc/PhaseNames.h"

#include "Frame.h"
#include "Values/Initializers.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

FailureOr<Interpreter> Interpreter::create(ModuleOp module, const Options &options) {
  Device device;
  device.options = options;
  for (Operation &op : module.getOps()) {
    if (!isa<ParamOp, StateOp>(op))
      continue;
    FailureOr<Tensor> value = initialValue(&op, options);
    if (failed(value))
      return failure();
    device.states[cast<SymbolOpInterface>(op).getName()] = *value;
  }
  return Interpreter(module, std::move(device));
}

static FuncOp findFunction(ModuleOp module, StringRef name) {
  for (FuncOp function : module.getOps<FuncOp>())
    if (function.getSymName() == name)
      return function;
  module.emitError("the module has no hyc.func @") << name;
  return {};
}

FailureOr<SmallVector<Tensor>> Interpreter::call(StringRef name, ArrayRef<Tensor> arguments) {
  FuncOp function = findFunction(module, name);
  if (!function)
    return failure();
  Frame frame(function, device);
  if (failed(frame.bind(arguments)))
    return failure();
  while (!frame.isDone())
    if (failed(frame.step()))
      return failure();
  return frame.getResults();
}

FailureOr<SmallVector<Tensor>> Interpreter::call(StringRef name, const NamedTensors &arguments) {
  FuncOp function = findFunction(module, name);
  if (!function)
    return failure();
  SmallVector<Tensor> ordered;
  for (unsigned index = 0; index < function.getNumArguments(); ++index) {
    auto label = function.getArgAttrOfType<StringAttr>(index, kInput);
    if (!label)
      label = function.getArgAttrOfType<StringAttr>(index, kScalar);
    if (!label)
      return function.emitError("argument ") << index << " of @" << name << " has no hyc.input and no hyc.scalar",
             failure();
    auto entry = arguments.find(label.getValue());
    if (entry == arguments.end())
      return function.emitError("no value is given for argument \"") << label.getValue() << "\" of @" << name,
             failure();
    ordered.push_back(entry->second);
  }
  return call(name, ordered);
}

const Tensor *Interpreter::getState(StringRef symbol) const {
  auto entry = device.states.find(symbol);
  return entry == device.states.end() ? nullptr : &entry->second;
}

LogicalResult Interpreter::setState(StringRef symbol, const Tensor &value) {
  auto entry = device.states.find(symbol);
  if (entry == device.states.end())
    return module.emitError("the module has no param or state @") << symbol;
  Tensor &present = entry->second;
  bool sameClass = isFloat(present.getKind()) == isFloat(value.getKind());
  if (present.getShape() != value.getShape() || !sameClass)
    return module.emitError("@") << symbol << " is " << present.describeType() << ", but is given "
                                 << value.describeType();
  present = value.converted(present.getKind());
  return success();
}
