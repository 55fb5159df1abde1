// Losses over each element, over classes, and what they are of: the elements, their sum or their mean.
#include "Translator.h"

using namespace hyc::torchexport;

namespace {
/// torch's numbers of reductions.
enum Reduction { kNone = 0, kMean = 1, kSum = 2 };

} // namespace

void hyc::torchexport::finishLoss(NodeTranslation &node, const Name &losses) {
  switch (node.integer("reduction", kMean)) {
  case kNone:
    return node.finish(losses);
  case kMean:
    return node.finish(node.emit("ReduceMean", {losses}, {{{"keepdims", 0}}}));
  case kSum:
    return node.finish(node.emit("ReduceSum", {losses}, {{{"keepdims", 0}}}));
  default:
    node.error() << "reduces its losses in a way that torch does not have";
  }
}

namespace {

/// Weighted where the node has weights of the losses' elements.
void finishWeighted(NodeTranslation &node, const Name &losses) {
  finishLoss(node,
             node.has("weight") ? node.emit("Mul", {losses, node.operand("weight", node.resultMeta().type)}) : losses);
}

Name difference(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  return node.emit("Sub", {node.operand("self", type), node.operand("target", type)});
}

void squaredLoss(NodeTranslation &node) {
  Name apart = difference(node);
  finishWeighted(node, node.emit("Mul", {apart, apart}));
}

void absoluteLoss(NodeTranslation &node) { finishLoss(node, node.emit("Abs", {difference(node)})); }

/// Parabolas where a difference is below `width`, lines of that slope beyond.
void roundedLoss(NodeTranslation &node, double width, double slope) {
  ScalarType type = node.resultMeta().type;
  Name size = node.emit("Abs", {difference(node)});
  if (width == 0) // |x| alone
    return finishLoss(node, size);
  Name square = node.emit("Mul", {node.emit("Mul", {size, size}), node.constant(type, 0.5 * slope / width)});
  Name line =
      node.emit("Mul", {node.emit("Sub", {size, node.constant(type, 0.5 * width)}), node.constant(type, slope)});
  finishLoss(node, node.emit("Where", {node.emit("Less", {size, node.constant(type, width)}), square, line}));
}
void smoothLoss(NodeTranslation &node) { roundedLoss(node, node.number("beta", 1), 1); }
void huberLoss(NodeTranslation &node) { roundedLoss(node, node.number("delta", 1), node.number("delta", 1)); }

/// -(target · log(self) + (1 - target) · log(1 - self)), no logarithm below -100. Predictions of 0 and 1 are no rarity,
/// and the logarithms' slopes are infinite there; torch's gradient, (self - target) / (self · (1 - self)) by no less
/// than 1e-12, is not. So the logarithms hand back none, and self less itself, times that, does.
void binaryLoss(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  auto number = [&](double value) { return node.constant(type, value); };
  auto known = [&](const Name &value) { return node.emit(hyc::onnx::kStopGradient, {value}); };
  auto logarithm = [&](const Name &value) {
    return known(node.emit("Max", {node.emit("Log", {value}), number(-100)}));
  };
  Name self = node.operand("self", type), target = node.operand("target", type);
  Name rest = node.emit("Sub", {number(1), self});
  Name yes = node.emit("Mul", {target, logarithm(self)});
  Name no = node.emit("Mul", {node.emit("Sub", {number(1), target}), logarithm(rest)});
  Name by = node.emit("Max", {node.emit("Mul", {rest, self}), number(1e-12)});
  Name slope = known(node.emit("Div", {node.emit("Sub", {self, target}), by}));
  Name nothing = node.emit("Sub", {self, known(self)});
  finishWeighted(node, node.emit("Sub", {node.emit("Mul", {slope, nothing}), node.emit("Add", {yes, no})}));
}

/// The same of sigmoid(self): (1 - target) · self + (1 + (pos_weight - 1) · target) · log(1 + exp(-self)).
void binaryLossOfLogits(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name self = node.operand("self", type), target = node.operand("target", type), one = node.constant(type, 1);
  Name soft = node.emit("Softplus", {node.emit("Neg", {self})});
  if (node.has("pos_weight")) {
    Name more = node.emit("Sub", {node.operand("pos_weight", type), one});
    soft = node.emit("Mul", {node.emit("Add", {one, node.emit("Mul", {more, target})}), soft});
  }
  Name rest = node.emit("Mul", {node.emit("Sub", {one, target}), self});
  finishWeighted(node, node.emit("Add", {rest, soft}));
}

/// target · (log(target) - self), 0 where the target is 0.
void divergence(NodeTranslation &node) {
  ScalarType type = node.resultMeta().type;
  Name self = node.operand("self", type), target = node.operand("target", type);
  if (node.boolean("log_target", false))
    return finishLoss(node, node.emit("Mul", {node.emit("Exp", {target}), node.emit("Sub", {target, self})}));
  Name zero = node.constant(type, 0), isZero = node.emit("LessOrEqual", {target, zero});
  Name safe = node.emit("Where", {isZero, node.constant(type, 1), target});
  Name entropy = node.emit("Where", {isZero, zero, node.emit("Mul", {target, node.emit("Log", {safe})})});
  finishLoss(node, node.emit("Sub", {entropy, node.emit("Mul", {target, self})}));
}

/// Of classes by their numbers, ONNX's operators say the same.
void classLoss(NodeTranslation &node, const char *type) {
  std::vector<Name> inputs{node.tensor("self"), node.tensor("target")};
  if (node.has("weight"))
    inputs.push_back(node.tensor("weight"));
  static const char *const names[] = {"none", "mean", "sum"};
  int64_t reduction = node.integer("reduction", kMean);
  node.finish(node.emit(type, inputs,
                        {{{"ignore_index", node.integer("ignore_index", -100)}},
                         {},
                         {},
                         {{"reduction", names[reduction >= 0 && reduction < 3 ? reduction : 1]}}}));
}

/// What every class has of the logarithms of classes' shares: each its weight, along the dimension of classes.
Name weightedClasses(NodeTranslation &node, const Name &logarithms, int64_t rank, int64_t dim) {
  if (!node.has("weight"))
    return logarithms;
  std::vector<int64_t> along(rank, 1);
  along[dim] = -1;
  Name weight = node.operand("weight", node.resultMeta().type);
  return node.emit("Mul", {logarithms, node.emit("Reshape", {weight, node.constant(along)})});
}

/// -Σ share · log softmax over classes; the mean is one of samples, whatever the weights.
void lossOfShares(NodeTranslation &node, int64_t rank, int64_t dim, double smoothing) {
  ScalarType type = node.resultMeta().type;
  const auto classes = static_cast<double>(node.sizeOf("self", dim));
  Name logarithms = node.emit("LogSoftmax", {node.operand("self", type)}, {{{"axis", dim}}});
  Name shares = node.operand("target", type);
  if (smoothing != 0)
    shares = node.emit("Add", {node.emit("Mul", {shares, node.constant(type, 1 - smoothing)}),
                               node.constant(type, smoothing / classes)});
  Name product = node.emit("Mul", {weightedClasses(node, logarithms, rank, dim), shares});
  finishLoss(node, node.emit("Neg", {node.emit("ReduceSum", {product, node.constant({dim})}, {{{"keepdims", 0}}})}));
}

/// Of numbers of classes, each of which stands for 1 - smoothing of its class and the rest of all. The mean is over
/// what is not ignored, by the classes' weights.
void lossOfSmoothed(NodeTranslation &node, int64_t rank, int64_t dim, double smoothing) {
  ScalarType type = node.resultMeta().type;
  const auto classes = static_cast<double>(node.sizeOf("self", dim));
  auto number = [&](double value) { return node.constant(type, value); };
  Name logarithms = node.emit("LogSoftmax", {node.operand("self", type)}, {{{"axis", dim}}});
  Name weighted = weightedClasses(node, logarithms, rank, dim);
  Name target = node.operand("target", ScalarType::I64);
  Name isIgnored = node.emit(
      "Equal", {target, node.constant(ScalarType::I64, static_cast<double>(node.integer("ignore_index", -100)))});
  Name safe = node.emit("Where", {isIgnored, node.constant(ScalarType::I64, 0), target});
  Name own =
      node.emit("GatherElements", {weighted, node.emit("Unsqueeze", {safe, node.constant({dim})})}, {{{"axis", dim}}});
  own = node.emit("Squeeze", {own, node.constant({dim})});
  Name all = node.emit("ReduceSum", {weighted, node.constant({dim})}, {{{"keepdims", 0}}});
  Name both = node.emit(
      "Add", {node.emit("Mul", {own, number(smoothing - 1)}), node.emit("Mul", {all, number(-smoothing / classes)})});
  Name losses = node.emit("Where", {isIgnored, number(0), both});
  if (node.integer("reduction", kMean) != kMean)
    return finishLoss(node, losses);
  Name each =
      node.has("weight") ? node.emit("Gather", {node.operand("weight", type), safe}, {{{"axis", 0}}}) : number(1);
  Name counts = node.emit("Where", {isIgnored, number(0), each});
  auto sum = [&](const Name &value) { return node.emit("ReduceSum", {value}, {{{"keepdims", 0}}}); };
  node.finish(node.emit("Div", {sum(losses), sum(counts)}));
}

void crossEntropy(NodeTranslation &node) {
  const double smoothing = node.number("label_smoothing", 0);
  const int64_t rank = node.tensorRank("self"), dim = rank > 1 ? 1 : 0;
  if (node.failed())
    return;
  if (isFloat(node.metaOf("target").type))
    lossOfShares(node, rank, dim, smoothing);
  else if (smoothing != 0)
    lossOfSmoothed(node, rank, dim, smoothing);
  else
    classLoss(node, "SoftmaxCrossEntropyLoss");
}
void negativeLogLikelihood(NodeTranslation &node) { classLoss(node, "NegativeLogLikelihoodLoss"); }
} // namespace

void hyc::torchexport::addLoss(TranslationTable &table) {
  table["aten.mse_loss.default"] = squaredLoss;
  table["aten.l1_loss.default"] = absoluteLoss;
  table["aten.smooth_l1_loss.default"] = smoothLoss;
  table["aten.huber_loss.default"] = huberLoss;
  table["aten.binary_cross_entropy.default"] = binaryLoss;
  table["aten.binary_cross_entropy_with_logits.default"] = binaryLossOfLogits;
  table["aten.kl_div.default"] = divergence;
  table["aten.cross_entropy_loss.default"] = crossEntropy;
  table["aten.nll_loss_nd.default"] = negativeLogLikelihood;
  table["aten.nll_loss.default"] = negativeLogLikelihood;
}
