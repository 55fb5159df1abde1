// Losses of class labels along dimension 1, with weights a class and an ignored label.
#include "Expansion.h"

#include "llvm/ADT/STLExtras.h"

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;

namespace {
/// -weight[label] · scores[label], 0 where the label is ignored; reduced to a number unless `reduction` is none. The
/// mean is over the weights counted.
Binding likelihoodLoss(Expansion &e, NodeImport &node, const Binding &scores, const Binding &labels,
                       const Binding *weights) {
  std::string reduction = node.getString("reduction", "mean");
  if (scores.type.getRank() < 2 || labels.type.getRank() + 1 != scores.type.getRank() ||
      !isa<IntegerType>(labels.type.getElementType())) {
    e.fail("takes labels of other shape than its scores have without dimension 1");
    return {};
  }
  if (reduction != "mean" && reduction != "sum" && reduction != "none") {
    e.fail("has the reduction '" + reduction + "', expected mean, sum or none");
    return {};
  }
  int64_t classes = scores.type.getDimSize(1);
  Binding column = e("Unsqueeze", {labels, e.integers({1})});
  Binding numbers = e.cast(e.iota(classes, 1, scores.type.getRank()), labels.type.getElementType());
  Binding isLabel = e("Equal", {numbers, column});
  Binding zero = e.number(scores, 0);
  Binding picked = e.reduce("ReduceSum", e.where(isLabel, scores, zero), {1}, false);
  Binding weight = e.number(scores, 1);
  if (weights) {
    llvm::SmallVector<int64_t> shape(scores.type.getRank(), 1);
    shape[1] = classes;
    if (weights->type.getNumElements() != classes) {
      e.fail("has weights of another number than there are classes");
      return {};
    }
    weight = e.reduce("ReduceSum", e.where(isLabel, e.reshape(*weights, shape), zero), {1}, false);
  }
  if (e.ok())
    weight = e.broadcast(weight, labels.type.getShape());
  if (node.hasAttribute("ignore_index")) {
    Binding ignored = e.number(labels, static_cast<double>(node.getInt("ignore_index", 0)));
    weight = e.where(e("Equal", {labels, ignored}), zero, weight);
  }
  Binding loss = e("Neg", {e.mul(picked, weight)});
  if (reduction == "none" || !e.ok())
    return loss;
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, labels.type.getRank()));
  Binding sum = e.reduce("ReduceSum", loss, axes, false);
  return reduction == "sum" ? sum : e.div(sum, e.reduce("ReduceSum", weight, axes, false));
}

LogicalResult importNegativeLogLikelihoodLoss(NodeImport &node) {
  Expansion e(node);
  return e.finish(likelihoodLoss(e, node, node.input(0), node.input(1), node.has(2) ? &node.input(2) : nullptr));
}

LogicalResult importSoftmaxCrossEntropyLoss(NodeImport &node) {
  Expansion e(node);
  Binding scores = e("LogSoftmax", {node.input(0)}, {{"axis", int64_t(1)}});
  if (!e.ok())
    return failure();
  std::vector<Binding> results{likelihoodLoss(e, node, scores, node.input(1), node.has(2) ? &node.input(2) : nullptr),
                               scores};
  results.resize(std::min<size_t>(results.size(), node.outputCount()));
  return e.finish(results);
}
} // namespace

void hyc::onnx::addLossOperators(OperatorTable &table) {
  table["NegativeLogLikelihoodLoss"] = {importNegativeLogLikelihoodLoss,
                                        {tensor("input").real().ranks(2), tensor("target").integer().ranks(1),
                                         tensor("weight").real().rank(1).optional()}};
  table["SoftmaxCrossEntropyLoss"] = {importSoftmaxCrossEntropyLoss,
                                      {tensor("scores").real().ranks(2), tensor("labels").integer().ranks(1),
                                       tensor("weights").real().rank(1).optional()}};
}
