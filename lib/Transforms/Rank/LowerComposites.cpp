// Composite ops but norms: one library kernel each.
#include "FunctionLowering.h"

using namespace mlir;
using namespace hyc;

//===----------------------------------------------------------------------===//
// attention
//===----------------------------------------------------------------------===//

/// The kernel takes any strides but that of the head size, which must be 1.
Value FunctionLowering::headStridesBuffer(Value tensor) {
  rank::BufferType type = typeOf(tensor);
  return type.getShape().back() == 1 || type.getStridesOrDense().back() == 1 ? bufferOf(tensor) : denseBufferOf(tensor);
}

/// kernels/attention/op.h, kAttentionMaxHeadDim.
static LogicalResult checkHeadSize(Operation *op, Value q) {
  constexpr int64_t kMaxHeadSize = 256;
  int64_t size = cast<RankedTensorType>(q.getType()).getShape().back();
  if (size <= kMaxHeadSize)
    return success();
  return op->emitOpError("has heads of size ")
         << size << ", expected at most " << kMaxHeadSize << ", which the kernel holds at once";
}

/// Attention's mask, its column of keys, a view of the input, and the place of its heads.
template <typename OpT>
SmallVector<Value> FunctionLowering::maskAndRandomBuffers(OpT op, SmallVectorImpl<NamedAttribute> &attributes) {
  SmallVector<Value> mask, random;
  if (op.getMask()) {
    mask.push_back(denseBufferOf(op.getMask()));
    attributes.push_back(named("masked", builder.getUnitAttr()));
  }
  for (Value value : op.getRandom())
    random.push_back(bufferOf(value));
  if (random.empty())
    return mask;
  auto keys = cast<rank::BufferType>(random[0].getType());
  int64_t stride = keys.getStridesOrDense()[0];
  random[0] = view(random[0], static_cast<int64_t>(op.getColumn()), keys.withLayout(keys.getShape()[0], stride));
  attributes.push_back(named("dropout", op.getDropoutAttr()));
  mask.append(random);
  return mask;
}

template <> LogicalResult FunctionLowering::lower(AttentionOp op) {
  if (failed(checkHeadSize(op, op.getQ())))
    return failure();
  Value result = destinationOf(op.getResult(), Layout::Dense).buffer,
        lse = destinationOf(op.getLse(), Layout::Dense).buffer;
  SmallVector<NamedAttribute> attributes{named("scale", op.getScaleAttr())};
  if (op.getCausal())
    attributes.push_back(named("causal", builder.getUnitAttr()));
  SmallVector<Value> ins{headStridesBuffer(op.getQ()), headStridesBuffer(op.getK()), headStridesBuffer(op.getV())};
  ins.append(maskAndRandomBuffers(op, attributes));
  call(op, "attention", {result, lse}, ins, attributes);
  buffers[op.getResult()] = result;
  buffers[op.getLse()] = lse;
  return success();
}

template <> LogicalResult FunctionLowering::lower(AttentionGradOp op) {
  SmallVector<Value> ins;
  for (Value input : {op.getQ(), op.getK(), op.getV(), op.getResult()})
    ins.push_back(headStridesBuffer(input));
  ins.push_back(denseBufferOf(op.getLse()));
  ins.push_back(headStridesBuffer(op.getCotangent()));
  SmallVector<Value> outs;
  for (Value cotangent : op->getResults()) {
    // Parts of a concatenation along another dimension than the last keep the head size contiguous.
    Value buffer = destinationOf(cotangent, Layout::Strided).buffer;
    auto type = cast<rank::BufferType>(buffer.getType());
    if (type.getShape().back() != 1 && type.getStridesOrDense().back() != 1)
      buffer = allocate(type, rank::kActivations, op.getLoc(), getId(op));
    outs.push_back(buffers[cotangent] = buffer);
  }
  SmallVector<NamedAttribute> attributes{named("scale", op.getScaleAttr())};
  if (op.getCausal())
    attributes.push_back(named("causal", builder.getUnitAttr()));
  ins.append(maskAndRandomBuffers(op, attributes));
  call(op, "attention_grad", outs, ins, attributes);
  return success();
}

//===----------------------------------------------------------------------===//
// embedding
//===----------------------------------------------------------------------===//

static IndexUse embeddedIds(OpOperand &use);

template <> LogicalResult FunctionLowering::lower(EmbeddingOp op) {
  Value result = destinationOf(op.getResult(), Layout::Dense).buffer;
  SmallVector<Value> ins{denseBufferOf(op.getIds()), denseBufferOf(op.getTable())};
  if (op.getOffset())
    ins.push_back(bufferOf(op.getOffset()));
  rank::CallOp picks = call(op, "embedding", result, ins);
  // A table that is no parameter is whole where no shard of it begins elsewhere.
  int64_t rows = embeddedIds(op->getOpOperand(0)).bound;
  if (rows == INT64_MAX && !op.getOffset())
    rows = cast<RankedTensorType>(op.getTable().getType()).getDimSize(0);
  boundIndices(picks, op.getIds(), "ids", rows);
  buffers[op.getResult()] = result;
  return success();
}

template <> LogicalResult FunctionLowering::lower(EmbeddingGradOp op) {
  SmallVector<Value> ins{denseBufferOf(op.getIds()), denseBufferOf(op.getCotangent())};
  if (op.getOffset())
    ins.push_back(bufferOf(op.getOffset()));
  Destination to = accumulationOrDestination(op.getResult(), Layout::Dense);
  call(op, "embedding_grad", to.buffer, ins, {}, to.mode);
  buffers[op.getResult()] = to.buffer;
  return success();
}

//===----------------------------------------------------------------------===//
// cross_entropy
//===----------------------------------------------------------------------===//

template <> LogicalResult FunctionLowering::lower(CrossEntropyOp op) {
  SmallVector<Value> outs;
  for (Value result : op->getResults())
    outs.push_back(buffers[result] = destinationOf(result, Layout::Dense).buffer);
  outs.push_back(allocate(rank::BufferType::get(cast<RankedTensorType>(op.getLse().getType())), rank::kActivations,
                          op.getLoc(), getId(op)));
  rank::CallOp loss = call(op, "cross_entropy", outs, {rowsBufferOf(op.getLogits()), denseBufferOf(op.getLabels())},
                           named("ignore_index", builder.getI64IntegerAttr(op.getIgnoreIndex())));
  boundIndices(loss, op.getLabels(), "labels", cast<RankedTensorType>(op.getLogits().getType()).getShape().back());
  return success();
}

template <> LogicalResult FunctionLowering::lower(CrossEntropyGradOp op) {
  // The gradient's rows lie as the logits' do.
  rank::BufferType padded = paddedType(op.getResult());
  bool isPadded = padded && typeOf(op.getLogits()) == padded;
  Value result = isPadded ? allocateAs(padded, rank::kActivations, op.getLoc(), getId(op))
                          : destinationOf(op.getResult(), Layout::Dense).buffer;
  Value logits = isPadded ? bufferOf(op.getLogits()) : denseBufferOf(op.getLogits());
  SmallVector<Value> ins{denseBufferOf(op.getCotangent()), logits, denseBufferOf(op.getLabels()),
                         denseBufferOf(op.getLse())};
  if (op.getOffset())
    ins.push_back(bufferOf(op.getOffset()));
  SmallVector<NamedAttribute> attributes{named("ignore_index", builder.getI64IntegerAttr(op.getIgnoreIndex()))};
  if (op.getVocabularyAttr())
    attributes.push_back(named("vocabulary", op.getVocabularyAttr()));
  call(op, "cross_entropy_grad", result, ins, attributes);
  buffers[op.getResult()] = result;
  return success();
}

template <> LogicalResult FunctionLowering::lower(VocabMaxOp op) {
  Value result = destinationOf(op.getResult(), Layout::Dense).buffer;
  call(op, "vocab_max", result, {rowsBufferOf(op.getLogits()), bufferOf(op.getOffset())},
       named("vocabulary", op.getVocabularyAttr()));
  buffers[op.getResult()] = result;
  return success();
}

template <> LogicalResult FunctionLowering::lower(VocabSumExpOp op) {
  SmallVector<Value> outs;
  for (Value result : op->getResults())
    outs.push_back(buffers[result] = destinationOf(result, Layout::Dense).buffer);
  call(op, "vocab_sum_exp", outs,
       {rowsBufferOf(op.getLogits()), denseBufferOf(op.getMax()), denseBufferOf(op.getLabels()),
        bufferOf(op.getOffset())},
       named("vocabulary", op.getVocabularyAttr()));
  return success();
}

template <> LogicalResult FunctionLowering::lower(VocabLossOp op) {
  SmallVector<Value> outs;
  for (Value result : op->getResults())
    outs.push_back(buffers[result] = destinationOf(result, Layout::Dense).buffer);
  rank::CallOp loss = call(op, "vocab_loss", outs,
                           {denseBufferOf(op.getMax()), denseBufferOf(op.getSumExp()), denseBufferOf(op.getPicked()),
                            denseBufferOf(op.getLabels())},
                           named("ignore_index", builder.getI64IntegerAttr(op.getIgnoreIndex())));
  // Each rank has its part of the vocabulary, and knows the whole of it where it sums up.
  for (Operation *user : op.getLabels().getUsers())
    if (auto sum = dyn_cast<VocabSumExpOp>(user))
      boundIndices(loss, op.getLabels(), "labels", static_cast<int64_t>(sum.getVocabulary()));
  return success();
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

/// Ids are rows of the table: of the whole one, which a shard's parameter knows.
static IndexUse embeddedIds(OpOperand &use) {
  IndexUse ids{.isLookup = true};
  Operation *table = cast<EmbeddingOp>(use.getOwner()).getTable().getDefiningOp();
  if (auto wait = dyn_cast_or_null<dist::WaitOp>(table)) // gathered for this use
    table = wait.getPending().getDefiningOp()->getOperand(0).getDefiningOp();
  auto read = dyn_cast_or_null<ReadOp>(table);
  Operation *source = read ? SymbolTable::lookupNearestSymbolFrom(read, read.getSourceAttr()) : nullptr;
  if (auto param = dyn_cast_or_null<ParamOp>(source))
    ids.bound = param.getWholeType().getDimSize(0);
  else if (auto copy = dyn_cast_or_null<StateOp>(source))
    ids.bound = copy.getWholeType().getDimSize(0);
  return ids;
}

static IndexUse labelsOfLoss(OpOperand &use) {
  auto loss = cast<CrossEntropyOp>(use.getOwner());
  return {.bound = cast<RankedTensorType>(loss.getLogits().getType()).getShape().back(),
          .uncounted = static_cast<int64_t>(loss.getIgnoreIndex())};
}

static bool isFirst(OpOperand &use) { return use.getOperandNumber() == 0; }

void hyc::addCompositeLowerings(LoweringTable &table) {
  table.add<AttentionOp, AttentionGradOp, EmbeddingOp, EmbeddingGradOp, CrossEntropyOp, CrossEntropyGradOp, VocabMaxOp,
            VocabSumExpOp, VocabLossOp>();
  table.of<EmbeddingOp>().indexUse = embeddedIds;
  table.of<CrossEntropyOp>().indexUse = labelsOfLoss;
  table.of<VocabSumExpOp>().indexUse = [](OpOperand &use) {
    return IndexUse{.bound = static_cast<int64_t>(cast<VocabSumExpOp>(use.getOwner()).getVocabulary())};
  };
  table.of<VocabLossOp>().indexUse = [](OpOperand &use) {
    return IndexUse{.uncounted = static_cast<int64_t>(cast<VocabLossOp>(use.getOwner()).getIgnoreIndex())};
  };
  // Their logits.
  table.of<CrossEntropyOp>().takesPaddedRows = isFirst;
  table.of<VocabMaxOp>().takesPaddedRows = isFirst;
  table.of<VocabSumExpOp>().takesPaddedRows = isFirst;
  table.of<CrossEntropyGradOp>().takesPaddedRows = [](OpOperand &use) {
    return cast<CrossEntropyGradOp>(use.getOwner()).getLogits() == use.get();
  };
}
