// Cross entropy, whole and in the pieces that ranks of a split vocabulary compute, by the kernels' plain references.
#include "Ops/OpTable.h"
#include "dialects/Hyc/HycDialect.h"
#include "kernels/cross_entropy/reference.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;
namespace reference = hyc::kernels::reference;

/// How logits I × (V) lie, of which the columns from `offset` on are those of a vocabulary of `vocabulary` columns.
static kernels::CrossEntropyDesc lossDesc(const Tensor &logits, int64_t ignoreIndex, int64_t offset,
                                          int64_t vocabulary) {
  kernels::CrossEntropyDesc desc;
  desc.ld = logits.getShape().back();
  desc.tokens = desc.ld ? logits.getNumElements() / desc.ld : 0;
  desc.localVocab = std::max<int64_t>(0, std::min(desc.ld, vocabulary - offset));
  desc.vocabStart = offset;
  desc.ignoreIndex = ignoreIndex;
  return desc;
}

/// Every label is `ignoreIndex` or a column of the vocabulary; there is one a row of logits.
static LogicalResult checkLabels(OpCall &call, const Tensor &labels, int64_t tokens, int64_t vocabulary,
                                 int64_t ignoreIndex) {
  if (isFloat(labels.getKind()) || labels.getNumElements() != tokens)
    return call.op->emitError("has labels ") << labels.describeType() << ", expected " << tokens << " integers";
  const int64_t *values = labels.data<int64_t>();
  for (int64_t i = 0; i < tokens; ++i)
    if (values[i] != ignoreIndex && (values[i] < 0 || values[i] >= vocabulary))
      return call.op->emitError("label ")
             << values[i] << " at position " << i << " is no column of " << vocabulary << " logits";
  return success();
}

static LogicalResult checkFloat(OpCall &call, const Tensor &tensor) {
  if (areStoredAlike(tensor.getKind(), call.resultKind()))
    return success();
  return call.op->emitError("the interpreter computes f64 apart from narrower types, not ")
         << tensor.describeType() << " for " << call.op->getResult(0).getType();
}

static LogicalResult evaluateCrossEntropy(OpCall &call) {
  const Tensor &logits = call.operands[0], &labels = call.operands[1];
  int64_t ignoreIndex = static_cast<int64_t>(cast<CrossEntropyOp>(call.op).getIgnoreIndex());
  int64_t vocabulary = logits.getShape().back();
  kernels::CrossEntropyDesc desc = lossDesc(logits, ignoreIndex, 0, vocabulary);
  if (failed(checkFloat(call, logits)) || failed(checkLabels(call, labels, desc.tokens, vocabulary, ignoreIndex)))
    return failure();
  Tensor loss = call.makeResult(0), count = call.makeResult(1), lse = call.makeResult(2);
  dispatchFloat(logits.getKind(), [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> max(desc.tokens), sumExp(desc.tokens), picked(desc.tokens);
    reference::crossEntropyRowMax(desc, logits.data<T>(), max.data());
    reference::crossEntropySumExp(desc, logits.data<T>(), labels.data<int64_t>(), max.data(), sumExp.data(),
                                  picked.data());
    reference::crossEntropyCombine(desc, labels.data<int64_t>(), max.data(), sumExp.data(), picked.data(),
                                   lse.mutableData<T>(), loss.mutableData<T>(), count.mutableData<int64_t>());
  });
  call.results.append({loss, count, lse});
  return success();
}

static LogicalResult evaluateCrossEntropyGrad(OpCall &call) {
  auto op = cast<CrossEntropyGradOp>(call.op);
  const Tensor &logits = call.operands[1], &labels = call.operands[2], &lse = call.operands[3];
  int64_t ignoreIndex = static_cast<int64_t>(op.getIgnoreIndex());
  int64_t offset = op.getOffset() ? call.operands[4].getInteger() : 0;
  int64_t vocabulary =
      static_cast<int64_t>(op.getVocabulary().value_or(logits.getShape().empty() ? 0 : logits.getShape().back()));
  if (logits.getTensorRank() == 0 || logits.getShape() != call.resultShape() ||
      lse.getShape() != logits.getShape().drop_back() || call.operands[0].getTensorRank() != 0)
    return op.emitError("[cross_entropy.shapes] has operands (") << op->getOperandTypes() << ")";
  kernels::CrossEntropyDesc desc = lossDesc(logits, ignoreIndex, offset, vocabulary);
  if (failed(checkFloat(call, logits)) || failed(checkFloat(call, lse)) ||
      failed(checkLabels(call, labels, desc.tokens, vocabulary, ignoreIndex)))
    return failure();
  Tensor result = call.makeResult();
  dispatchFloat(logits.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::crossEntropyGrad(desc, logits.data<T>(), labels.data<int64_t>(), lse.data<T>(),
                                static_cast<T>(call.operands[0].getDouble()), result.mutableData<T>());
  });
  call.results.push_back(result);
  return success();
}

static LogicalResult evaluateVocabMax(OpCall &call) {
  const Tensor &logits = call.operands[0];
  if (failed(checkFloat(call, logits)))
    return failure();
  kernels::CrossEntropyDesc desc = lossDesc(logits, -100, call.operands[1].getInteger(),
                                            static_cast<int64_t>(cast<VocabMaxOp>(call.op).getVocabulary()));
  Tensor result = call.makeResult();
  dispatchFloat(logits.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::crossEntropyRowMax(desc, logits.data<T>(), result.mutableData<T>());
  });
  call.results.push_back(result);
  return success();
}

static LogicalResult evaluateVocabSumExp(OpCall &call) {
  const Tensor &logits = call.operands[0], &max = call.operands[1], &labels = call.operands[2];
  int64_t vocabulary = static_cast<int64_t>(cast<VocabSumExpOp>(call.op).getVocabulary());
  // What is picked for an ignored label does not matter: vocab_loss, which knows the ignore index, drops it.
  kernels::CrossEntropyDesc desc = lossDesc(logits, -100, call.operands[3].getInteger(), vocabulary);
  if (failed(checkFloat(call, logits)) || failed(checkFloat(call, max)))
    return failure();
  if (isFloat(labels.getKind()) || labels.getNumElements() != desc.tokens || max.getNumElements() != desc.tokens)
    return call.op->emitError("[cross_entropy.shapes] has operands (") << call.op->getOperandTypes() << ")";
  Tensor sumExp = call.makeResult(0), picked = call.makeResult(1);
  dispatchFloat(logits.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::crossEntropySumExp(desc, logits.data<T>(), labels.data<int64_t>(), max.data<T>(),
                                  sumExp.mutableData<T>(), picked.mutableData<T>());
  });
  call.results.append({sumExp, picked});
  return success();
}

static LogicalResult evaluateVocabLoss(OpCall &call) {
  const Tensor &max = call.operands[0], &labels = call.operands[3];
  kernels::CrossEntropyDesc desc;
  desc.tokens = max.getNumElements();
  desc.ignoreIndex = static_cast<int64_t>(cast<VocabLossOp>(call.op).getIgnoreIndex());
  for (unsigned index : {0, 1, 2})
    if (failed(checkFloat(call, call.operands[index])))
      return failure();
  if (isFloat(labels.getKind()) ||
      llvm::any_of(call.operands, [&](const Tensor &rows) { return rows.getNumElements() != desc.tokens; }))
    return call.op->emitError("[cross_entropy.shapes] has operands (") << call.op->getOperandTypes() << ")";
  Tensor loss = call.makeResult(0), count = call.makeResult(1), lse = call.makeResult(2);
  dispatchFloat(max.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::crossEntropyCombine(desc, labels.data<int64_t>(), max.data<T>(), call.operands[1].data<T>(),
                                   call.operands[2].data<T>(), lse.mutableData<T>(), loss.mutableData<T>(),
                                   count.mutableData<int64_t>());
  });
  call.results.append({loss, count, lse});
  return success();
}

void hyc::interpreter::addLossOps(OpTable &table) {
  table.add<CrossEntropyOp>(evaluateCrossEntropy);
  table.add<CrossEntropyGradOp>(evaluateCrossEntropyGrad);
  table.add<VocabMaxOp>(evaluateVocabMax);
  table.add<VocabSumExpOp>(evaluateVocabSumExp);
  table.add<VocabLossOp>(evaluateVocabLoss);
}
