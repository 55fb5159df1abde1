// Losses of class labels along dimension 1, with weights a class and an ignored label.
#include "Expansion.h"

#include "llvm/ADT/STLExtras.h"

#include <limits>

using namespace hyc;
using namespace hyc::onnx;
using namespace mlir;

namespace {
/// Whether the node's operands and reduction are what both losses take; reports it if not.
bool checkLoss(Expansion &e, NodeImport &node, StringRef reduction) {
  RankedTensorType scores = node.input(0).type, labels = node.input(1).type;
  if (scores.getRank() < 2 || labels.getRank() + 1 != scores.getRank() || !isa<IntegerType>(labels.getElementType()))
    e.fail("takes labels of other shape than its scores have without dimension 1");
  else if (reduction != "mean" && reduction != "sum" && reduction != "none")
    e.fail("has the reduction '" + reduction + "', expected mean, sum or none");
  else if (node.has(2) && node.input(2).type.getNumElements() != scores.getDimSize(1))
    e.fail("has weights of another number than there are classes");
  return e.ok();
}

/// By hyc's own op: it stores no probability, its classes may be split, and a label that is none is found.
Binding crossEntropy(Expansion &e, NodeImport &node, StringRef reduction) {
  Importer &importer = node.importer();
  Binding scores = node.input(0);
  llvm::SmallVector<int64_t> classesLast{0};
  llvm::append_range(classesLast, llvm::seq<int64_t>(2, scores.type.getRank()));
  classesLast.push_back(1);
  if (classesLast.size() > 2)
    scores = e.transpose(scores, classesLast);
  Type type = scores.type.getElementType();
  if (type.isF64()) // whose kernel is of f32, and adds up in f64
    scores = e.cast(scores, importer.getBuilder().getF32Type());
  Binding labels = e.cast(node.input(1), importer.getBuilder().getI64Type());
  // Without the attribute every label counts.
  int64_t ignored = node.getInt("ignore_index", -std::numeric_limits<int64_t>::max());
  Value count;
  Binding sum = e.emit([&] {
    CrossEntropyOp::Properties properties;
    properties.ignore_index = importer.getBuilder().getI64IntegerAttr(ignored);
    Value emitted = importer.emitInferred<CrossEntropyOp>({e.value(scores), e.value(labels)}, properties);
    count = emitted ? emitted.getDefiningOp<CrossEntropyOp>().getCount() : Value();
    return emitted;
  });
  if (!e.ok() || reduction == "sum")
    return e.ok() ? e.cast(sum, type) : sum;
  return e.cast(e.div(sum, e.cast(importer.ofValue(count), sum.type.getElementType())), type);
}

/// -weight[label] · scores[label], 0 where the label is ignored; reduced to a number unless `reduction` is none. The
/// mean is over the weights counted.
Binding likelihoodLoss(Expansion &e, NodeImport &node, const Binding &scores, StringRef reduction) {
  const Binding &labels = node.input(1);
  int64_t classes = scores.type.getDimSize(1);
  Binding column = e("Unsqueeze", {labels, e.integers({1})});
  Binding numbers = e.cast(e.iota(classes, 1, scores.type.getRank()), labels.type.getElementType());
  Binding isLabel = e("Equal", {numbers, column});
  Binding zero = e.number(scores, 0);
  Binding picked = e.reduce("ReduceSum", e.where(isLabel, scores, zero), {1}, false);
  Binding counted = e.cast(labels, node.importer().getBuilder().getI64Type()), isIgnored;
  if (node.hasAttribute("ignore_index") && e.ok()) {
    isIgnored = e("Equal", {labels, e.number(labels, static_cast<double>(node.getInt("ignore_index", 0)))});
    counted = e.where(isIgnored, e.integer(0), counted);
  }
  // Looked up even where all are 1: a label that is no class is found so.
  Binding weights = node.has(2) ? node.input(2) : e.broadcast(e.number(scores, 1), {classes});
  Binding weight = e.gather(weights, counted, 0, 0);
  if (isIgnored.type)
    weight = e.where(isIgnored, zero, weight);
  Binding loss = e("Neg", {e.mul(picked, weight)});
  if (reduction == "none" || !e.ok())
    return loss;
  auto axes = llvm::to_vector(llvm::seq<int64_t>(0, labels.type.getRank()));
  Binding sum = e.reduce("ReduceSum", loss, axes, false);
  return reduction == "sum" ? sum : e.div(sum, e.reduce("ReduceSum", weight, axes, false));
}

LogicalResult importNegativeLogLikelihoodLoss(NodeImport &node) {
  Expansion e(node);
  std::string reduction = node.getString("reduction", "mean");
  return checkLoss(e, node, reduction) ? e.finish(likelihoodLoss(e, node, node.input(0), reduction)) : failure();
}

LogicalResult importSoftmaxCrossEntropyLoss(NodeImport &node) {
  Expansion e(node);
  std::string reduction = node.getString("reduction", "mean");
  if (!checkLoss(e, node, reduction))
    return failure();
  bool isPlain = reduction != "none" && !node.has(2), wantsScores = node.outputCount() > 1;
  Binding scores;
  if (!isPlain || wantsScores)
    scores = e("LogSoftmax", {node.input(0)}, {{"axis", int64_t(1)}});
  if (!e.ok())
    return failure();
  std::vector<Binding> results{isPlain ? crossEntropy(e, node, reduction) : likelihoodLoss(e, node, scores, reduction)};
  if (wantsScores)
    results.push_back(scores);
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
