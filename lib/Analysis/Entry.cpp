// Names of further entries, and which inputs tell how long a sample is.
#include "hyc/Analysis/Entry.h"

#include "dialects/Hyc/PhaseNames.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace hyc;

std::string hyc::nameOfSize(ModelSize size) {
  std::string name;
  for (char c : size.dim)
    name += llvm::isAlnum(c) ? c : '_';
  if (llvm::isDigit(name.front()))
    name = "dim_" + name;
  return name + "_" + std::to_string(size.size);
}

/// Whether an op's results hold its operands' numbers, in another order or width, or without some of them.
static bool passesNumbers(Operation *op) {
  return isa<ConvertOp, ReshapeOp, TransposeOp, BroadcastOp, SliceOp, ConcatOp, PadOp>(op);
}

/// What is made of the numbers of an input.
static void findUses(Value numbers, bool &areLabels, bool &areOther) {
  for (OpOperand &use : numbers.getUses()) {
    Operation *user = use.getOwner();
    if (isa<CrossEntropyOp>(user))
      areLabels |= use.getOperandNumber() == 1;
    else if (passesNumbers(user))
      findUses(user->getResult(0), areLabels, areOther);
    else if (!isBackward(user))
      areOther |= isa<EmbeddingOp>(user);
  }
}

LengthTeller hyc::lengthToldBy(FuncOp function, unsigned argument) {
  auto name = function.getArgAttrOfType<StringAttr>(argument, kInput);
  if (!name)
    return LengthTeller::none;
  if (name.getValue().ends_with("attention_mask"))
    return LengthTeller::presence;
  bool areLabels = false, areOther = false;
  findUses(function.getArgument(argument), areLabels, areOther);
  return areLabels && !areOther ? LengthTeller::labels : LengthTeller::none;
}
