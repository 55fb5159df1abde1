// Losses that ask for a margin between what is alike and what is not, and some more over single samples.
#include "Translator.h"

#include <cmath>

using namespace hyc::torchexport;

namespace {
/// The operators that most of these losses are made of.
class Writer {
public:
  explicit Writer(NodeTranslation &node) : node(node), type(node.resultMeta().type) {}

  Name operand(const char *argument) { return node.operand(argument, type); }
  Name number(double value) { return node.constant(type, value); }
  Name add(const Name &a, const Name &b) { return node.emit("Add", {a, b}); }
  Name sub(const Name &a, const Name &b) { return node.emit("Sub", {a, b}); }
  Name mul(const Name &a, const Name &b) { return node.emit("Mul", {a, b}); }
  Name log(const Name &a) { return node.emit("Log", {a}); }
  Name positive(const Name &a) { return node.emit("Relu", {a}); }
  Name where(const Name &c, const Name &a, const Name &b) { return node.emit("Where", {c, a, b}); }
  Name equal(const Name &a, const Name &b) { return node.emit("Equal", {a, b}); }
  Name sum(const Name &a, std::vector<int64_t> dims) {
    return node.emit("ReduceSum", {a, node.constant(dims)}, {{{"keepdims", 0}}});
  }
  Name apart(const Name &a, int64_t dim) { return node.emit("Unsqueeze", {a, node.constant({dim})}); }
  /// 0, 1, …, as vector.
  Name counted(int64_t count) {
    return node.emit("Range",
                     {node.constant(ScalarType::I64, 0), node.constant(ScalarType::I64, static_cast<double>(count)),
                      node.constant(ScalarType::I64, 1)});
  }

  NodeTranslation &node;
  ScalarType type;
};

/// (Σ |a - b + eps|^p)^(1/p) over the last dimension.
Name rowDistance(Writer &w, const Name &a, const Name &b) {
  Name apart = w.add(w.sub(a, b), w.number(w.node.number("eps", 1e-6)));
  return normOf(w.node, apart, w.node.number("p", 2), w.type, {-1}, w.node.boolean("keepdim", false));
}

void pairwiseDistance(NodeTranslation &node) {
  Writer w(node);
  node.finish(rowDistance(w, w.operand("x1"), w.operand("x2")));
}

/// max(0, margin + |anchor - positive| - |anchor - negative|)
void tripletLoss(NodeTranslation &node) {
  Writer w(node);
  Name anchor = w.operand("anchor"), positive = w.operand("positive"), negative = w.operand("negative");
  Name near = rowDistance(w, anchor, positive), far = rowDistance(w, anchor, negative);
  if (node.boolean("swap", false))
    far = node.emit("Min", {far, rowDistance(w, positive, negative)});
  finishLoss(node, w.positive(w.sub(w.add(near, w.number(node.number("margin", 1))), far)));
}

/// max(0, margin - target · (input1 - input2))
void rankingLoss(NodeTranslation &node) {
  Writer w(node);
  Name product = w.mul(w.operand("target"), w.sub(w.operand("input1"), w.operand("input2")));
  finishLoss(node, w.positive(w.sub(w.number(node.number("margin", 0)), product)));
}

/// log(1 + e^(-target · self))
void softMarginLoss(NodeTranslation &node) {
  Writer w(node);
  Name product = w.mul(w.operand("target"), w.operand("self"));
  finishLoss(node, node.emit("Softplus", {node.emit("Neg", {product})}));
}

/// self where the target is 1, max(0, margin - self) where it is -1.
void hingeLoss(NodeTranslation &node) {
  Writer w(node);
  Name self = w.operand("self"), target = w.operand("target"), zero = w.number(0);
  Name hinge = w.positive(w.sub(w.number(node.number("margin", 1)), self));
  Name unlike = w.where(w.equal(target, w.number(1)), zero, hinge);
  Name alike = w.where(w.equal(target, w.number(-1)), zero, self);
  finishLoss(node, w.add(unlike, alike));
}

/// 1 - cosine where the target is 1, max(0, cosine - margin) where it is -1.
void cosineLoss(NodeTranslation &node) {
  Writer w(node);
  const int64_t dim = node.tensorRank("target");
  constexpr double kLeast = 1e-12; // that torch adds to squared lengths
  Name a = w.operand("input1"), b = w.operand("input2"), target = w.operand("target"), zero = w.number(0);
  auto length = [&](const Name &x) { return w.add(w.sum(w.mul(x, x), {dim}), w.number(kLeast)); };
  Name cosine = node.emit("Div", {w.sum(w.mul(a, b), {dim}), node.emit("Sqrt", {w.mul(length(a), length(b))})});
  Name alike = w.sub(w.number(1), cosine);
  Name unlike = w.positive(w.sub(cosine, w.number(node.number("margin", 0))));
  finishLoss(node, w.add(w.where(w.equal(target, w.number(1)), alike, zero),
                         w.where(w.equal(target, w.number(-1)), unlike, zero)));
}

/// exp(x) - target · x, or x - target · log(x + eps); in full with Stirling's log target!, which is 0 up to a target
/// of 1.
void poissonLoss(NodeTranslation &node) {
  Writer w(node);
  Name input = w.operand("input"), target = w.operand("target"), loss;
  if (node.boolean("log_input", true))
    loss = w.sub(node.emit("Exp", {input}), w.mul(target, input));
  else
    loss = w.sub(input, w.mul(target, w.log(w.add(input, w.number(node.number("eps", 1e-8))))));
  if (node.boolean("full", false)) {
    Name isLarge = node.emit("Greater", {target, w.number(1)}), safe = w.where(isLarge, target, w.number(1));
    Name half = w.mul(w.log(w.mul(safe, w.number(2 * M_PI))), w.number(0.5));
    Name stirling = w.add(w.sub(w.mul(safe, w.log(safe)), safe), half);
    loss = w.add(loss, w.where(isLarge, stirling, w.number(0)));
  }
  finishLoss(node, loss);
}

/// Of a row of classes, or of rows: the sum over all classes but the target's of
/// max(0, margin - x[target] + x[i])^p / classes, weighted by the target's class.
void multiMarginLoss(NodeTranslation &node) {
  Writer w(node);
  const int64_t rank = node.tensorRank("self"), classes = rank > 0 ? node.sizeOf("self", rank - 1) : 1;
  const double power = node.number("p", 1);
  if (!node.failed() && (rank > 2 || (power != 1 && power != 2) || classes < 1))
    node.error() << "compares " << classes << " classes of a tensor of " << rank << " dimensions by the power " << power
                 << ", expected rows of classes, and a power of 1 or 2";
  if (node.failed())
    return;
  Name self = w.operand("self"), target = node.operand("target", ScalarType::I64);
  if (rank < 2)
    self = node.emit("Reshape", {self, node.constant({1, classes})});
  target = node.emit("Reshape", {target, node.constant({-1, 1})});
  Name own = node.emit("GatherElements", {self, target}, {{{"axis", 1}}});
  Name above = w.positive(w.add(w.sub(w.number(node.number("margin", 1)), own), self));
  if (power == 2)
    above = w.mul(above, above);
  if (node.has("weight"))
    above = w.mul(above, node.emit("Gather", {w.operand("weight"), target}, {{{"axis", 0}}}));
  Name others = w.where(w.equal(target, w.counted(classes)), w.number(0), above);
  Name losses = w.mul(w.sum(others, {1}), w.number(1.0 / static_cast<double>(classes)));
  finishLoss(node, rank < 2 ? node.emit("Squeeze", {losses, node.constant({0})}) : losses);
}

/// Of rows whose targets are lists of classes, which end where one is below 0: the sum over all pairs of a class that
/// is listed and one that is not of max(0, 1 - (x[listed] - x[other])) / classes.
void multiLabelMarginLoss(NodeTranslation &node) {
  Writer w(node);
  const int64_t rank = node.tensorRank("self"), classes = rank > 0 ? node.sizeOf("self", rank - 1) : 1;
  constexpr int64_t kMostClasses = 4096; // pairs are compared
  if (!node.failed() && (rank > 2 || classes < 1 || classes > kMostClasses))
    node.error() << "compares " << classes << " classes of a tensor of " << rank
                 << " dimensions, expected rows of at most " << kMostClasses << " classes";
  if (node.failed())
    return;
  auto asRows = [&](const Name &value) {
    return rank < 2 ? node.emit("Reshape", {value, node.constant({1, classes})}) : value;
  };
  Name self = asRows(w.operand("self")), target = asRows(node.operand("target", ScalarType::I64));
  Name zero = node.constant(ScalarType::I64, 0);
  Name ends = node.cast(node.emit("Less", {target, zero}), ScalarType::I64);
  Name before = node.emit("CumSum", {ends, node.constant(ScalarType::I64, 1)});
  Name isListed = w.equal(before, zero);
  Name listed = node.emit("Where", {isListed, target, zero});
  // (rows, listed, classes)
  Name hits = w.equal(w.apart(listed, 2), w.counted(classes));
  hits = node.emit("And", {hits, w.apart(isListed, 2)});
  Name isTarget = node.emit("ReduceMax", {node.cast(hits, w.type), node.constant({1})}, {{{"keepdims", 1}}});
  Name own = w.apart(node.emit("GatherElements", {self, listed}, {{{"axis", 1}}}), 2);
  Name missing = w.positive(w.sub(w.number(1), w.sub(own, w.apart(self, 1))));
  Name counts = w.mul(w.apart(node.cast(isListed, w.type), 2), w.sub(w.number(1), isTarget));
  Name losses = w.mul(w.sum(w.mul(missing, counts), {1, 2}), w.number(1.0 / static_cast<double>(classes)));
  finishLoss(node, rank < 2 ? node.emit("Squeeze", {losses, node.constant({0})}) : losses);
}
} // namespace

void hyc::torchexport::addMargin(TranslationTable &table) {
  table["aten.pairwise_distance.default"] = pairwiseDistance;
  table["aten.triplet_margin_loss.default"] = tripletLoss;
  table["aten.margin_ranking_loss.default"] = rankingLoss;
  table["aten.soft_margin_loss.default"] = softMarginLoss;
  table["aten.hinge_embedding_loss.default"] = hingeLoss;
  table["aten.cosine_embedding_loss.default"] = cosineLoss;
  table["aten.poisson_nll_loss.default"] = poissonLoss;
  table["aten.multi_margin_loss.default"] = multiMarginLoss;
  table["aten.multilabel_margin_loss.default"] = multiLabelMarginLoss;
}
