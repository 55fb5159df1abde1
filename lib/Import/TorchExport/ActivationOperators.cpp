// aten's activations. Those that ONNX has no operator for are written as torch's documentation defines them.
#include "Translator.h"

#include <limits>

using namespace hyc::torchexport;

namespace {
/// An operator of ONNX with one attribute, which torch calls `argument`.
void withAttribute(NodeTranslation &node, const char *type, const char *attribute, const char *argument,
                   double otherwise) {
  node.finish(node.emit(type, {node.tensor("self")}, {{}, {{attribute, node.number(argument, otherwise)}}}));
}

void plain(NodeTranslation &node, const char *type) { node.finish(node.emit(type, {node.tensor("self")})); }

/// `value` where self compares so with `bound`, `otherwise` elsewhere.
Name beyond(NodeTranslation &node, const char *comparison, const Name &self, double bound, const Name &value,
            const Name &otherwise) {
  Name limit = node.constant(node.resultMeta().type, bound);
  return node.emit("Where", {node.emit(comparison, {self, limit}), value, otherwise});
}

/// Of numbers between two bounds: those beyond become the bound. As in torch one at a bound has no gradient, where Max
/// and Min would have half of it: a channel of zeros, which is at relu6's, is no rarity.
void clip(NodeTranslation &node, double least, double most) {
  ScalarType type = node.resultMeta().type;
  Name self = node.tensor("self");
  Name raised = beyond(node, "LessOrEqual", self, least, node.constant(type, least), self);
  node.finish(beyond(node, "GreaterOrEqual", raised, most, node.constant(type, most), raised));
}

void relu6(NodeTranslation &node) { clip(node, 0, 6); }
void hardtanh(NodeTranslation &node) { clip(node, node.number("min_val", -1), node.number("max_val", 1)); }
void leakyRelu(NodeTranslation &node) { withAttribute(node, "LeakyRelu", "alpha", "negative_slope", 0.01); }
void celu(NodeTranslation &node) { withAttribute(node, "Celu", "alpha", "alpha", 1); }
void selu(NodeTranslation &node) { plain(node, "Selu"); }
void mish(NodeTranslation &node) { plain(node, "Mish"); }
void hardswish(NodeTranslation &node) { plain(node, "HardSwish"); }

void hardsigmoid(NodeTranslation &node) {
  node.finish(node.emit("HardSigmoid", {node.tensor("self")}, {{}, {{"alpha", 1.0 / 6}, {"beta", 0.5}}}));
}

/// scale · x above 0, scale · alpha · (exp(input_scale · x) - 1) below.
void elu(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  double alpha = node.number("alpha", 1), scale = node.number("scale", 1), inner = node.number("input_scale", 1);
  Name self = node.tensor("self");
  auto times = [&](const Name &value, double factor) {
    return factor == 1 ? value : node.emit("Mul", {value, node.constant(type, factor)});
  };
  // Only of what is negative, so that nothing overflows where it is not chosen. 0 is among it, and has the curve's
  // slope, as torch has it.
  Name negative = beyond(node, "Greater", self, 0, node.constant(type, 0), self);
  Name power = node.emit("Sub", {node.emit("Exp", {times(negative, inner)}), node.constant(type, 1)});
  node.finish(beyond(node, "Greater", self, 0, times(self, scale), times(power, scale * alpha)));
}

/// log(1 + exp(beta · x)) / beta, and x itself where beta · x is beyond the threshold.
void softplus(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  double beta = node.number("beta", 1), threshold = node.number("threshold", 20);
  Name self = node.tensor("self");
  Name scaled = beta == 1 ? self : node.emit("Mul", {self, node.constant(type, beta)});
  Name soft = node.emit("Softplus", {scaled});
  if (beta != 1)
    soft = node.emit("Div", {soft, node.constant(type, beta)});
  node.finish(beyond(node, "Greater", scaled, threshold, self, soft));
}

/// -log(1 + exp(-x))
void logSigmoid(NodeTranslation &node) {
  node.finish(node.emit("Neg", {node.emit("Softplus", {node.emit("Neg", {node.tensor("self")})})}));
}

/// Half of the channels, by the sigmoid of the other half.
void gatedUnit(NodeTranslation &node) {
  int64_t dim = node.dimension("dim", node.tensorRank("self"), -1), half = node.sizeOf("self", dim) / 2;
  std::vector<Name> parts =
      node.emitAll("Split", {node.tensor("self"), node.constant({half, half})}, {{{"axis", dim}}}, 2);
  node.finish(node.emit("Mul", {parts[0], node.emit("Sigmoid", {parts[1]})}));
}

void threshold(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name self = node.tensor("self");
  node.finish(beyond(node, "Greater", self, node.number("threshold"), self, node.operand("value", type)));
}

/// What is within ±lambd becomes 0.
void hardshrink(NodeTranslation &node) {
  double bound = node.number("lambd", 0.5);
  Name self = node.tensor("self"), zero = node.constant(node.resultMeta().type, 0);
  node.finish(beyond(node, "Greater", self, bound, self, beyond(node, "Less", self, -bound, self, zero)));
}

/// The same, and the rest comes nearer to 0 by lambd.
void softshrink(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  double bound = node.number("lambd", 0.5);
  Name self = node.tensor("self"), by = node.constant(type, bound);
  Name below = beyond(node, "Less", self, -bound, node.emit("Add", {self, by}), node.constant(type, 0));
  node.finish(beyond(node, "Greater", self, bound, node.emit("Sub", {self, by}), below));
}

/// A slope below 0 for each channel, which is dimension 1, or one for all.
void parametricRelu(NodeTranslation &node) {
  const int64_t rank = node.tensorRank("self");
  Name slope = node.tensor("weight");
  if (rank > 2) {
    std::vector<int64_t> shape(rank - 1, 1);
    shape.front() = -1;
    slope = node.emit("Reshape", {slope, node.constant(shape)});
  }
  node.finish(node.emit("PRelu", {node.tensor("self"), slope}));
}

void logSoftmax(NodeTranslation &node) {
  int64_t dim = node.dimension("dim", node.tensorRank("self"));
  node.finish(node.emit("LogSoftmax", {node.operand("self", node.resultMeta().type)}, {{{"axis", dim}}}));
}

/// Rows of nothing but -inf, as masks leave them, become 0.
void safeSoftmax(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  int64_t dim = node.dimension("dim", node.tensorRank("self"));
  Name self = node.operand("self", type);
  Name highest = node.emit("ReduceMax", {self, node.constant({dim})}, {{{"keepdims", 1}}});
  Name isMasked = node.emit("Equal", {highest, node.constant(type, -std::numeric_limits<double>::infinity())});
  node.finish(safeSoftmaxOf(node, self, isMasked, dim, type));
}
} // namespace

Name hyc::torchexport::safeSoftmaxOf(NodeTranslation &node, const Name &scores, const Name &isMasked, int64_t dim,
                                     ScalarType type) {
  // Those rows are replaced before, too: a NaN would come back through the gradient.
  Name kept = node.emit("Where", {isMasked, node.constant(type, 0), scores});
  Name result = node.emit("Softmax", {kept}, {{{"axis", dim}}});
  return node.emit("Where", {isMasked, node.constant(type, 0), result});
}

void hyc::torchexport::addActivation(TranslationTable &table) {
  table["aten.relu6.default"] = relu6;
  table["aten.hardtanh.default"] = hardtanh;
  table["aten.leaky_relu.default"] = leakyRelu;
  table["aten.elu.default"] = elu;
  table["aten.selu.default"] = selu;
  table["aten.celu.default"] = celu;
  table["aten.mish.default"] = mish;
  table["aten.hardswish.default"] = hardswish;
  table["aten.hardsigmoid.default"] = hardsigmoid;
  table["aten.softplus.default"] = softplus;
  table["aten.log_sigmoid.default"] = logSigmoid;
  table["aten.glu.default"] = gatedUnit;
  table["aten.threshold.default"] = threshold;
  table["aten.hardshrink.default"] = hardshrink;
  table["aten.softshrink.default"] = softshrink;
  table["aten.prelu.default"] = parametricRelu;
  table["aten._prelu_kernel.default"] = parametricRelu;
  table["aten.log_softmax.int"] = logSoftmax;
  table["aten._log_softmax.default"] = logSoftmax;
  table["aten._safe_softmax.default"] = safeSoftmax;
}
