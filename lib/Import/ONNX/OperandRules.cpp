// The one place in which inputs are compared with what operators rely on.
#include "Importer.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;

namespace {
/// "input 1 ("starts")"
std::string describeInput(int index, const OperandRule &rule) {
  return "input " + std::to_string(index) + " (\"" + rule.name.str() + "\")";
}

std::string describeRanks(const OperandRule &rule) {
  auto counted = [](int64_t count) { return std::to_string(count) + (count == 1 ? " dimension" : " dimensions"); };
  if (rule.leastRank == rule.mostRank)
    return counted(rule.leastRank);
  if (rule.mostRank == OperandRule::kAnyRank)
    return "at least " + counted(rule.leastRank);
  if (rule.leastRank == 0)
    return "at most " + counted(rule.mostRank);
  return std::to_string(rule.leastRank) + " to " + counted(rule.mostRank);
}

bool hasElements(Type type, OperandRule::Elements wanted) {
  switch (wanted) {
  case OperandRule::Elements::Any:
    return true;
  case OperandRule::Elements::Real:
    return isa<FloatType>(type);
  case OperandRule::Elements::Integer:
    return isa<IntegerType>(type) && !type.isInteger(1);
  case OperandRule::Elements::Boolean:
    return type.isInteger(1);
  }
  return false;
}

llvm::StringRef nameOf(OperandRule::Elements elements) {
  return elements == OperandRule::Elements::Real      ? "floating-point numbers"
         : elements == OperandRule::Elements::Integer ? "integers"
                                                      : "booleans";
}

bool checkTensor(NodeImport &node, int index, const OperandRule &rule) {
  const Binding &binding = node.input(index);
  RankedTensorType type = binding.type;
  auto fail = [&] { return node.error() << "has " << describeInput(index, rule) << " of type " << type << ", "; };
  if (!hasElements(type.getElementType(), rule.elements))
    return fail() << "expected " << nameOf(rule.elements), false;
  if (rule.isOne && type.getNumElements() != 1)
    return fail() << "expected one number", false;
  if (type.getRank() < rule.leastRank || type.getRank() > rule.mostRank)
    return fail() << "expected " << describeRanks(rule), false;
  bool mayBeEmpty = rule.empty == OperandRule::Empty::Always ||
                    (rule.empty == OperandRule::Empty::Constant && binding.constant.has_value());
  if (!mayBeEmpty && type.getNumElements() == 0)
    return fail() << "expected at least one element", false;
  return true;
}

bool checkOperand(NodeImport &node, int index, const OperandRule &rule) {
  if (!node.has(index)) {
    if (node.opset() < rule.requiredFrom)
      return true;
    node.error() << "leaves out " << describeInput(index, rule);
    return false;
  }
  const Binding &binding = node.input(index);
  if (rule.form == OperandRule::Form::Any)
    return true;
  if (rule.form == OperandRule::Form::Tensor ? binding.isTensor() : binding.sequence.has_value())
    return !binding.isTensor() || checkTensor(node, index, rule);
  node.error() << "has " << describeInput(index, rule) << ", which is "
               << (binding.isTensor()   ? "a tensor"
                   : binding.isAbsent() ? "an optional value that is not there"
                                        : "a list of tensors")
               << ", expected " << (rule.form == OperandRule::Form::Tensor ? "a tensor" : "a list of tensors");
  return false;
}
} // namespace

bool hyc::onnx::checkOperands(NodeImport &node, const OperandRules &operands) {
  int given = node.inputCount(), known = static_cast<int>(operands.rules.size()), least = 0;
  for (int i = 0; i < known; ++i)
    if (node.opset() >= operands.rules[i].requiredFrom)
      least = i + 1;
  if (given < least || (given > known && !operands.repeatsLast)) {
    bool isExact = least == known && !operands.repeatsLast;
    node.error() << "has " << given << (given == 1 ? " input" : " inputs") << ", expected "
                 << (isExact         ? ""
                     : given < least ? "at least "
                                     : "at most ")
                 << (given < least ? least : known);
    return false;
  }
  for (int i = 0; i < std::max(given, known); ++i)
    if (!checkOperand(node, i, operands.rules[std::min(i, known - 1)]))
      return false;
  return true;
}
