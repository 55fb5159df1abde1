// What partitioning and precision ask of layer_norm, attention, embedding, cross_entropy and their gradients; norms of
// today's language models are in NormOps.cpp.
#include "dialects/Hyc/LetterRule.h"

#include "llvm/ADT/SmallVectorExtras.h"

using namespace mlir;
using namespace hyc;

static RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// An op that keeps its form, and only learns which part it works on.
#define KEEPS_ITS_FORM(OP)                                                                                             \
  void OP::buildLocal(LocalPart &, ValueRange, SmallVectorImpl<Value> &) {}
KEEPS_ITS_FORM(AttentionOp)
KEEPS_ITS_FORM(AttentionGradOp)
KEEPS_ITS_FORM(EmbeddingOp)
KEEPS_ITS_FORM(EmbeddingGradOp)
KEEPS_ITS_FORM(CrossEntropyGradOp)
#undef KEEPS_ITS_FORM

//===----------------------------------------------------------------------===//
// layer_norm
//===----------------------------------------------------------------------===//

ShardingRule LayerNormOp::getShardingRule() {
  return letterRule(*this, {"*h", "h", "h"}, {"*h", "*", "*"}, /*whole=*/"h");
}

ShardingRule LayerNormGradOp::getShardingRule() {
  // The leading dimensions are parallel in x's cotangent and summed in those of scale and bias: a result that lacks a
  // parallel factor is partial over it, see FactorKind.
  return letterRule(*this, {"*h", "*h", "h", "*", "*"}, {"*h", "h", "h"}, /*whole=*/"h");
}

PrecisionRule LayerNormOp::getPrecisionRule() { return {"nww", "nww"}; }
PrecisionRule LayerNormGradOp::getPrecisionRule() { return {"nnwww", "nww"}; }

//===----------------------------------------------------------------------===//
// attention
//===----------------------------------------------------------------------===//

/// With the mask, of which a dimension of 1, the same for all, is no factor of q's ('x', 'y', 'z'); the keys of
/// samples, and the place of the heads.
static SmallVector<StringRef> withOptional(std::initializer_list<StringRef> operands, Value mask, ValueRange random) {
  static constexpr StringRef letters[] = {"bhst", "xhst", "byst", "xyst", "bhzt", "xhzt", "byzt", "xyzt"};
  SmallVector<StringRef> all(operands);
  if (mask) {
    int alike = 0;
    for (int dim = 0; dim < 3; ++dim)
      alike |= (tensorType(mask).getDimSize(dim) == 1) << dim;
    all.push_back(letters[alike]);
  }
  for (size_t i = 0; i < random.size(); ++i)
    all.push_back(i == 0 ? "bn" : "");
  return all;
}

/// The tensors with keys ("t") name their heads 'g'. Without grouping 'g' and 'h' are one factor. With fewer key heads
/// than query heads, the query heads that share key head g lie together: 'h' is g, then a member of its group, and
/// splitting g splits both kinds of heads alike.
static ShardingRule attentionRule(Operation *op, ArrayRef<StringRef> operands, ArrayRef<StringRef> results, Value q,
                                  Value k) {
  int64_t heads = tensorType(q).getDimSize(2), groups = tensorType(k).getDimSize(2);
  auto ungroup = [](StringRef letters) { return letters == "btgd" ? StringRef("bthd") : letters; };
  if (heads == groups)
    return letterRule(op, llvm::map_to_vector(operands, ungroup), llvm::map_to_vector(results, ungroup), "stdnxyz");
  ShardingRule rule = letterRule(op, operands, results, "stdnxyz");
  int group = rule.operands[llvm::find(operands, "btgd") - operands.begin()][2].front();
  int head = rule.operands[llvm::find(operands, "bshd") - operands.begin()][2].front();
  rule.factors[head] = {heads / groups, FactorKind::parallel}; // the factor of heads becomes that of members
  auto refine = [&](MutableArrayRef<TensorFactors> tensors) {
    for (TensorFactors &dims : tensors)
      for (DimFactors &factors : dims)
        if (!factors.empty() && factors.front() == head)
          factors = {group, head};
  };
  refine(rule.operands);
  refine(rule.results);
  return rule;
}

ShardingRule AttentionOp::getShardingRule() {
  return attentionRule(*this, withOptional({"bshd", "btgd", "btgd"}, getMask(), getRandom()), {"bshd", "bhs"}, getQ(),
                       getK());
}

ShardingRule AttentionGradOp::getShardingRule() {
  return attentionRule(*this, withOptional({"bshd", "bshd", "btgd", "btgd", "bshd", "bhs"}, getMask(), getRandom()),
                       {"bshd", "btgd", "btgd"}, getQ(), getK());
}

PrecisionRule AttentionOp::getPrecisionRule() { return {"nnn-", "nw"}; }
PrecisionRule AttentionGradOp::getPrecisionRule() { return {"nnnnnw-", "nnn"}; }

/// Where in the mask of a whole sample (heads, queries, keys), of which only heads are ever split, this rank's part
/// begins. Rows are filled up to a multiple of four, see hyc.dropout_mask.
template <typename OpT>
static void addHeadPlace(OpT op, LocalPart &part, Value localQ, Value localK, SmallVectorImpl<Value> &operands,
                         NamedAttrList &attributes) {
  OpOperand &q = op.getQMutable();
  constexpr int64_t kHeads = 2;
  if (!part.isSplit({q, kHeads}))
    return;
  ArrayRef<int64_t> shape = tensorType(localQ).getShape();
  int64_t keys = tensorType(localK).getDimSize(1);
  operands.push_back(part.offset({q, kHeads}, shape[kHeads] * shape[1] * ((keys + 3) / 4 * 4)));
  // It is one of `random`, the last of the op's groups of operands.
  StringRef name = OpT::getOperandSegmentSizeAttr();
  SmallVector<int32_t> sizes(cast<DenseI32ArrayAttr>(attributes.get(name)).asArrayRef());
  ++sizes.back();
  attributes.set(name, DenseI32ArrayAttr::get(op.getContext(), sizes));
}

void AttentionOp::addPlace(LocalPart &part, SmallVectorImpl<Value> &operands, NamedAttrList &attributes) {
  if (getDropout())
    addHeadPlace(*this, part, operands[0], operands[1], operands, attributes);
}

void AttentionGradOp::addPlace(LocalPart &part, SmallVectorImpl<Value> &operands, NamedAttrList &attributes) {
  if (getDropout())
    addHeadPlace(*this, part, operands[1], operands[2], operands, attributes);
}

//===----------------------------------------------------------------------===//
// embedding
//===----------------------------------------------------------------------===//

/// The vocabulary is contracted: a shard gives zeros for ids that it does not hold.
ShardingRule EmbeddingOp::getShardingRule() {
  SmallVector<StringRef> operands{"*", "vh"};
  if (getOffset())
    operands.push_back("");
  return letterRule(*this, operands, {"*h"}, "", /*sums=*/"v");
}

ShardingRule EmbeddingGradOp::getShardingRule() {
  SmallVector<StringRef> operands{"*", "*h"};
  if (getOffset())
    operands.push_back("");
  return withMissingAsSums(letterRule(*this, operands, {"vh"}));
}

PrecisionRule EmbeddingOp::getPrecisionRule() { return {"-n-", "n"}; }
PrecisionRule EmbeddingGradOp::getPrecisionRule() { return {"-n-", "w"}; }

/// A padded id is a 0, which is as good as any other: only the vocabulary and the width may be padded.
bool EmbeddingOp::preservesZeros(const ShardingRule &rule, int factor) { return !hasFactor(rule.operands[0], factor); }

/// The first row that this rank holds of a vocabulary that is split.
void EmbeddingOp::addPlace(LocalPart &part, SmallVectorImpl<Value> &operands, NamedAttrList &) {
  if (LocalDim rows(getTableMutable(), 0); part.isSplit(rows))
    operands.push_back(part.offset(rows, tensorType(operands[1]).getDimSize(0)));
}

void EmbeddingGradOp::addPlace(LocalPart &part, SmallVectorImpl<Value> &operands, NamedAttrList &) {
  if (LocalDim rows(getResult(), 0); part.isSplit(rows))
    operands.push_back(part.offset(rows, part.typeOf(getResult()).getDimSize(0)));
}

//===----------------------------------------------------------------------===//
// cross_entropy
//===----------------------------------------------------------------------===//

/// Splitting the vocabulary is allowed, though not as a plain sum: partitioning rewrites the op (see vocab_max).
ShardingRule CrossEntropyOp::getShardingRule() {
  ShardingRule rule = letterRule(*this, {"*v", "*"}, {"", "", "*"});
  rule.factors[rule.operands[0].back().front()].kind = FactorKind::exchanged;
  return rule;
}

ShardingRule CrossEntropyGradOp::getShardingRule() {
  SmallVector<StringRef> operands{"", "*v", "*", "*"};
  if (getOffset())
    operands.push_back("");
  return letterRule(*this, operands, {"*v"});
}

PrecisionRule CrossEntropyOp::getPrecisionRule() { return {"n-", "w-w"}; }
PrecisionRule CrossEntropyGradOp::getPrecisionRule() { return {"wn-w-", "n"}; }

/// A padded label is a 0, which is as good as any other: only the vocabulary may be padded.
bool CrossEntropyOp::preservesZeros(const ShardingRule &rule, int factor) {
  return !hasFactor(rule.operands[1], factor);
}
bool CrossEntropyGradOp::preservesZeros(const ShardingRule &rule, int factor) {
  return !hasFactor(rule.operands[2], factor);
}

void CrossEntropyGradOp::addPlace(LocalPart &part, SmallVectorImpl<Value> &operands, NamedAttrList &attributes) {
  RankedTensorType logits = tensorType(getLogits());
  LocalDim columns(getLogitsMutable(), logits.getRank() - 1);
  if (!part.isSplit(columns))
    return;
  operands.push_back(part.offset(columns, tensorType(operands[1]).getShape().back()));
  attributes.set(getVocabularyAttrName(), Builder(getContext()).getI64IntegerAttr(logits.getShape().back()));
}

/// Where columns are split, something else stands in its place.
void CrossEntropyOp::addPlace(LocalPart &, SmallVectorImpl<Value> &, NamedAttrList &) {}

/// The maximum, then the sum of exponentials and the label's logit, each combined over the vocabulary's axes: whole
/// logits are on no rank.
void CrossEntropyOp::buildLocal(LocalPart &part, ValueRange operands, SmallVectorImpl<Value> &results) {
  RankedTensorType whole = tensorType(getLogits());
  LocalDim columns(getLogitsMutable(), whole.getRank() - 1);
  if (!part.isSplit(columns))
    return;
  Value logits = operands[0], labels = operands[1];
  int64_t vocabulary = whole.getShape().back();
  OpBuilder &b = part.builder();
  Location loc = getLoc();
  Value offset = part.offset(columns, tensorType(logits).getShape().back());
  Value localMax = part.marked(VocabMaxOp::create(b, loc, logits, offset, vocabulary), ".max").getResult();
  Value max = part.maxOver(columns, localMax);
  auto sums = part.marked(VocabSumExpOp::create(b, loc, logits, max, labels, offset, vocabulary), ".sum_exp");
  Value sumExp = part.sumOver(columns, sums.getSumExp());
  Value picked = part.sumOver(columns, sums.getPicked());
  auto loss = part.marked(VocabLossOp::create(b, loc, max, sumExp, picked, labels, getIgnoreIndexAttr()));
  llvm::append_range(results, loss->getResults());
}
