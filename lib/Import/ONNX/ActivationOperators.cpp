// Activations and other functions of single elements that are definitions over the basic ones.
#include "Expansion.h"

#include <cmath>

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;
using llvm::ArrayRef;

namespace {
/// What decides between the two sides of a unit. At 0 both give 0, and PyTorch's slope is that of the lower one.
Binding isAboveZero(Expansion &e, const Binding &x) { return e("Greater", {x, e.number(x, 0)}); }

/// alpha (e^x - 1) where x is not above 0, else x; both by gamma.
Binding exponentialUnit(Expansion &e, const Binding &x, double alpha, double gamma) {
  // Of what is above 0 e^0, so that no infinity reaches a gradient.
  Binding isAbove = isAboveZero(e, x), lower = e.where(isAbove, e.number(x, 0), x);
  Binding curve = e.mul(e.number(x, alpha), e.sub(e("Exp", {lower}), e.number(x, 1)));
  Binding result = e.where(isAbove, x, curve);
  return gamma == 1 ? result : e.mul(e.number(x, gamma), result);
}

LogicalResult importElu(NodeImport &node) {
  Expansion e(node);
  return e.finish(exponentialUnit(e, node.input(0), node.getFloat("alpha", 1), 1));
}

LogicalResult importSelu(NodeImport &node) {
  Expansion e(node);
  return e.finish(exponentialUnit(e, node.input(0), node.getFloat("alpha", 1.67326319217681884765625),
                                  node.getFloat("gamma", 1.05070102214813232421875)));
}

/// max(0, x) + min(0, alpha (e^(x/alpha) - 1))
LogicalResult importCelu(NodeImport &node) {
  Expansion e(node);
  double alpha = node.getFloat("alpha", 1);
  Binding x = node.input(0);
  Binding unit = exponentialUnit(e, e.div(x, e.number(x, alpha)), 1, alpha);
  return e.finish(unit);
}

LogicalResult importLeakyRelu(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  return e.finish(e.where(isAboveZero(e, x), x, e.mul(x, e.number(x, node.getFloat("alpha", 0.01)))));
}

LogicalResult importPRelu(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  return e.finish(e.where(isAboveZero(e, x), x, e.mul(x, node.input(1))));
}

LogicalResult importThresholdedRelu(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  return e.finish(e.where(e("Greater", {x, e.number(x, node.getFloat("alpha", 1))}), x, e.number(x, 0)));
}

/// Where the line meets 0 and 1 PyTorch has no gradient; Max and Min would have half of it.
Binding hardSigmoid(Expansion &e, const Binding &x, double alpha, double beta) {
  Binding line = e.add(e.mul(x, e.number(x, alpha)), e.number(x, beta));
  Binding zero = e.number(x, 0), one = e.number(x, 1);
  return e.where(e("LessOrEqual", {line, zero}), zero, e.where(e("GreaterOrEqual", {line, one}), one, line));
}

LogicalResult importHardSigmoid(NodeImport &node) {
  Expansion e(node);
  return e.finish(hardSigmoid(e, node.input(0), node.getFloat("alpha", 0.2), node.getFloat("beta", 0.5)));
}

LogicalResult importHardSwish(NodeImport &node) {
  Expansion e(node);
  return e.finish(e.mul(node.input(0), hardSigmoid(e, node.input(0), 1.0 / 6, 0.5)));
}

/// x tanh(log(1 + e^x))
LogicalResult importMish(NodeImport &node) {
  Expansion e(node);
  return e.finish(e.mul(node.input(0), e("Tanh", {e("Softplus", {node.input(0)})})));
}

LogicalResult importSoftsign(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  return e.finish(e.div(x, e.add(e("Abs", {x}), e.number(x, 1))));
}

/// x + bias below -lambd, x - bias above lambd, 0 between.
LogicalResult importShrink(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0), bias = e.number(x, node.getFloat("bias", 0));
  double limit = node.getFloat("lambd", 0.5);
  Binding above = e.where(e("Greater", {x, e.number(x, limit)}), e.sub(x, bias), e.number(x, 0));
  return e.finish(e.where(e("Less", {x, e.number(x, -limit)}), e.add(x, bias), above));
}

LogicalResult importMean(NodeImport &node) {
  Expansion e(node);
  Binding sum = node.input(0);
  for (int i = 1; i < node.inputCount(); ++i)
    sum = e.add(sum, node.input(i));
  return e.finish(e.div(sum, e.number(sum, node.inputCount())));
}

LogicalResult importIsInf(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0);
  bool negative = node.getInt("detect_negative", 1) != 0, positive = node.getInt("detect_positive", 1) != 0;
  Binding infinity = e.number(x, INFINITY), minus = e.number(x, -INFINITY);
  if (negative && positive)
    return e.finish(e("Equal", {e("Abs", {x}), infinity}));
  if (negative || positive)
    return e.finish(e("Equal", {x, positive ? infinity : minus}));
  Type truth = node.importer().getBuilder().getI1Type(); // that neither is asked for
  return e.finish(node.importer().splatLike(RankedTensorType::get(x.type.getShape(), truth), 0));
}

/// Products and quotients by powers of two; a shift by the whole width or more leaves nothing.
LogicalResult importBitShift(NodeImport &node) {
  Expansion e(node);
  Binding x = node.input(0), by = node.input(1);
  auto type = dyn_cast<IntegerType>(x.type.getElementType());
  std::string direction = node.getString("direction", "");
  if (!type || !type.isUnsigned() || (direction != "LEFT" && direction != "RIGHT"))
    return node.error() << "shifts " << x.type << " to '" << direction
                        << "', expected unsigned integers to LEFT or RIGHT";
  Binding last = e.number(x, type.getWidth() - 1);
  Binding power = e("Pow", {e.number(x, 2), e("Min", {by, last})});
  Binding shifted = direction == "LEFT" ? e.mul(x, power) : e.div(x, power);
  return e.finish(e.where(e("Greater", {by, last}), e.number(x, 0), shifted));
}
} // namespace

void hyc::onnx::addActivationOperators(OperatorTable &table) {
  table["Elu"] = {importElu, {tensor("X").real().orEmptyConstant()}};
  table["Selu"] = {importSelu, {tensor("X").real().orEmptyConstant()}};
  table["Celu"] = {importCelu, {tensor("X").real().orEmptyConstant()}};
  table["LeakyRelu"] = {importLeakyRelu, {tensor("X").real().orEmptyConstant()}};
  table["PRelu"] = {importPRelu, {tensor("X"), tensor("slope")}};
  table["ThresholdedRelu"] = {importThresholdedRelu, {tensor("X").real().orEmptyConstant()}};
  table["HardSigmoid"] = {importHardSigmoid, {tensor("X").real().orEmptyConstant()}};
  table["HardSwish"] = {importHardSwish, {tensor("X").real().orEmptyConstant()}};
  table["Mish"] = {importMish, {tensor("X").real().orEmptyConstant()}};
  table["Softsign"] = {importSoftsign, {tensor("X").real().orEmptyConstant()}};
  table["Shrink"] = {importShrink, {tensor("X").orEmptyConstant()}};
  table["Mean"] = {importMean, OperandRules::many(tensor("data").orEmptyConstant())};
  table["IsInf"] = {importIsInf, {tensor("X").real().orEmptyConstant()}};
  table["BitShift"] = {importBitShift,
                       {tensor("X").integer().orEmptyConstant(), tensor("Y").integer().orEmptyConstant()}};
}
