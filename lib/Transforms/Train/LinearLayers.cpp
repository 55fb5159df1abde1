// Which parameters are the weights of linear layers, by what reads them.
#include "LinearLayers.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::train;

static ArrayRef<int64_t> shapeOf(ParamOp param) { return param.getTensorType().getShape(); }

llvm::ArrayRef<int64_t> LinearLayer::inputShape() {
  return inputsFirst ? shapeOf(weight).take_front(inputDims) : shapeOf(weight).take_back(inputDims);
}

llvm::ArrayRef<int64_t> LinearLayer::outputShape() {
  return inputsFirst ? shapeOf(weight).drop_front(inputDims) : shapeOf(weight).drop_back(inputDims);
}

/// Whether a value depends on parameters and constants alone.
static bool isOfParameters(Value value) {
  SmallVector<Value> work{value};
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op)
      return false;
    llvm::append_range(work, op->getOperands());
  }
  return true;
}

/// Whether nothing but a bias, a scale or another shape comes between `product` and an output or the loss.
static bool makesOutput(EinsumOp product) {
  Value value = product.getResult();
  while (value.hasOneUse()) {
    Operation *user = *value.user_begin();
    if (isa<ReturnOp, CrossEntropyOp>(user))
      return true;
    if (isa<EinsumOp>(user) || user->getNumResults() != 1 ||
        !llvm::all_of(user->getOperands(), [&](Value operand) { return operand == value || isOfParameters(operand); }))
      return false;
    value = user->getResult(0);
  }
  return llvm::any_of(value.getUsers(), [](Operation *user) { return isa<ReturnOp>(user); });
}

/// Takes up one product with the weight; else why it is no linear layer's.
static std::string addProduct(LinearLayer &layer, EinsumOp product, OpOperand &use) {
  EinsumOp::Letters letters = product.getLetters();
  bool isLhs = use.getOperandNumber() == 0;
  StringRef weight = isLhs ? letters.lhs : letters.rhs, other = isLhs ? letters.rhs : letters.lhs;
  SmallVector<bool> contracted;
  for (char letter : weight) {
    bool isInput = other.contains(letter), isOutput = letters.result.contains(letter);
    if (isInput == isOutput)
      return "is multiplied batch by batch, as the weights of several experts are";
    contracted.push_back(isInput);
  }
  auto count = llvm::count(contracted, true);
  if (count == 0 || count == static_cast<int64_t>(contracted.size()))
    return "is no matrix to its product";
  bool first = contracted.front();
  if (llvm::count(ArrayRef(contracted).take_front(first ? count : contracted.size() - count), first) !=
      (first ? count : static_cast<int64_t>(contracted.size()) - count))
    return "has dimensions that are contracted among those that are kept";
  if (!layer.products.empty() && (layer.inputDims != count || layer.inputsFirst != first))
    return "is multiplied in two ways";
  layer.inputDims = count;
  layer.inputsFirst = first;
  layer.products.push_back(product);
  return "";
}

/// Empty, or why the parameter is none.
static std::string readLayer(LinearLayer &layer, ArrayRef<ReadOp> reads) {
  if (!isa<FloatType>(layer.weight.getTensorType().getElementType()))
    return "holds no floating-point numbers";
  for (ReadOp read : reads)
    for (OpOperand &use : read.getResult().getUses()) {
      auto product = dyn_cast<EinsumOp>(use.getOwner());
      if (!product)
        return "is read by " + use.getOwner()->getName().getStringRef().str();
      if (product.getLhs() == product.getRhs())
        return "is multiplied with itself";
      if (std::string reason = addProduct(layer, product, use); !reason.empty())
        return reason;
    }
  if (layer.products.empty())
    return "is read by nothing";
  layer.makesOutput = llvm::any_of(layer.products, makesOutput);
  return "";
}

LinearLayers hyc::train::findLinearLayers(ModuleOp module, FuncOp entry) {
  llvm::StringMap<SmallVector<ReadOp, 1>> reads;
  for (auto read : entry.getOps<ReadOp>())
    reads[read.getSource()].push_back(read);
  LinearLayers result;
  for (auto param : module.getOps<ParamOp>()) {
    StringRef path = param.getSymName();
    if (!path.consume_back(".weight")) {
      result.others.push_back({path.str(), "is not called PATH.weight"});
      continue;
    }
    LinearLayer layer{param, path.str(), {}};
    if (std::string reason = readLayer(layer, reads[param.getSymName()]); reason.empty())
      result.layers.push_back(std::move(layer));
    else
      result.others.push_back({path.str(), reason});
  }
  return result;
}
