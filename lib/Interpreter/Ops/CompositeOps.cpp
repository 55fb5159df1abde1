// Layer normalization, attention and embedding, by the kernels' plain references.
#include "Ops/OpTable.h"
#include "dialects/Hyc/HycDialect.h"
#include "kernels/attention/reference.h"
#include "kernels/embedding/reference.h"
#include "kernels/layer_norm/reference.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;
namespace reference = hyc::kernels::reference;

/// Floating-point operands that are computed with in one arithmetic; `skip` says which operands may be anything.
static LogicalResult checkFloats(OpCall &call, ArrayRef<unsigned> skip = {}) {
  if (!isFloat(call.resultKind()))
    return call.op->emitError("the interpreter needs a floating-point type, not ") << call.op->getResult(0).getType();
  for (auto [index, operand] : llvm::enumerate(call.operands))
    if (!llvm::is_contained(skip, index) && !areStoredAlike(operand.getKind(), call.resultKind()))
      return call.op->emitError("the interpreter computes f64 apart from narrower types, but operand ")
             << index << " is " << operand.describeType();
  return success();
}

//===----------------------------------------------------------------------===//
// Layer normalization
//===----------------------------------------------------------------------===//

static kernels::LayerNormDesc layerNormDesc(const Tensor &x) {
  kernels::LayerNormDesc desc;
  desc.cols = x.getShape().back();
  desc.rows = desc.cols ? x.getNumElements() / desc.cols : 0;
  return desc;
}

static LogicalResult evaluateLayerNorm(OpCall &call) {
  if (failed(checkFloats(call)))
    return failure();
  kernels::LayerNormDesc desc = layerNormDesc(call.operands[0]);
  desc.epsilon = cast<LayerNormOp>(call.op).getEpsilon().convertToDouble();
  Tensor y = call.makeResult(0), mean = call.makeResult(1), rstd = call.makeResult(2);
  dispatchFloat(y.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::layerNormForward(desc, call.operands[0].data<T>(), call.operands[1].data<T>(),
                                call.operands[2].data<T>(), y.mutableData<T>(), mean.mutableData<T>(),
                                rstd.mutableData<T>());
  });
  call.results.append({y, mean, rstd});
  return success();
}

static LogicalResult evaluateLayerNormGrad(OpCall &call) {
  const Tensor &x = call.operands[1];
  if (failed(checkFloats(call)))
    return failure();
  if (x.getTensorRank() == 0 || call.operands[2].getShape() != x.getShape().take_back() ||
      call.operands[0].getShape() != x.getShape() || call.operands[3].getShape() != x.getShape().drop_back() ||
      call.operands[4].getShape() != x.getShape().drop_back())
    return call.op->emitError("[layer_norm.shapes] has operands (") << call.op->getOperandTypes() << ")";
  Tensor dx = call.makeResult(0), dscale = call.makeResult(1), dbias = call.makeResult(2);
  dispatchFloat(x.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::layerNormBackward(layerNormDesc(x), x.data<T>(), call.operands[2].data<T>(), call.operands[3].data<T>(),
                                 call.operands[4].data<T>(), call.operands[0].data<T>(), dx.mutableData<T>(),
                                 dscale.mutableData<T>(), dbias.mutableData<T>(), kernels::WriteMode::kOverwrite);
  });
  call.results.append({dx, dscale, dbias});
  return success();
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

static kernels::AttentionDesc attentionDesc(const Tensor &q, const Tensor &k, double scale, bool causal) {
  kernels::AttentionDesc desc;
  desc.batch = q.getDim(0);
  desc.queryLength = q.getDim(1);
  desc.heads = q.getDim(2);
  desc.headDim = q.getDim(3);
  desc.keyLength = k.getDim(1);
  desc.kvHeads = k.getDim(2);
  desc.causal = causal;
  desc.scale = scale;
  desc.q = desc.o = desc.dq = desc.dO = kernels::denseHeadStrides(desc.queryLength, desc.heads, desc.headDim);
  desc.k = desc.v = desc.dk = desc.dv = kernels::denseHeadStrides(desc.keyLength, desc.kvHeads, desc.headDim);
  return desc;
}

/// The mask among the operands at `at`, if there is one, as bytes that `bytes` holds.
template <typename OpT>
static kernels::AttentionMask maskOf(OpCall &call, OpT op, size_t at, std::vector<uint8_t> &bytes) {
  if (!op.getMask())
    return {};
  const Tensor &mask = call.operands[at];
  const int64_t *values = mask.data<int64_t>();
  bytes.assign(values, values + mask.getNumElements());
  return kernels::denseAttentionMask(bytes.data(), mask.getShape().data());
}

/// The dropout of attention's probabilities, with its keys among the operands behind `first` and the mask.
template <typename OpT> static FailureOr<kernels::AttentionDropout> dropoutOf(OpCall &call, OpT op, size_t first) {
  first += op.getMask() ? 1 : 0;
  kernels::AttentionDropout dropout;
  if (!op.getDropout())
    return dropout;
  if (call.operands.size() == first)
    return op.emitError("the interpreter drops probabilities by keys; run hyc-key-random-ops first"), failure();
  const Tensor &keys = call.operands[first];
  dropout.rate = op.getDropout()->convertToDouble();
  dropout.keys = keys.data<int64_t>() + op.getColumn();
  dropout.keyStride = keys.getDim(1);
  dropout.place = call.operands.size() > first + 1 ? call.operands[first + 1].getInteger() : 0;
  return dropout;
}

static LogicalResult evaluateAttention(OpCall &call) {
  auto op = cast<AttentionOp>(call.op);
  FailureOr<kernels::AttentionDropout> dropout = dropoutOf(call, op, 3);
  if (failed(dropout) || failed(checkFloats(call, {3, 4})))
    return failure();
  const Tensor &q = call.operands[0], &k = call.operands[1], &v = call.operands[2];
  kernels::AttentionDesc desc = attentionDesc(q, k, op.getScale().convertToDouble(), op.getCausal());
  desc.dropout = *dropout;
  std::vector<uint8_t> mask;
  desc.mask = maskOf(call, op, 3, mask);
  Tensor result = call.makeResult(0), lse = call.makeResult(1);
  dispatchFloat(q.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::attentionForward(desc, q.data<T>(), k.data<T>(), v.data<T>(), result.mutableData<T>(),
                                lse.mutableData<T>());
  });
  call.results.append({result, lse});
  return success();
}

/// q's shape and rules are attention's own, which the forward op has verified; here they come as loose operands.
static bool agreeForAttention(ArrayRef<Tensor> operands) {
  const Tensor &q = operands[1], &k = operands[2], &lse = operands[5];
  return q.getTensorRank() == 4 && k.getTensorRank() == 4 && k.getShape() == operands[3].getShape() &&
         operands[0].getShape() == q.getShape() && operands[4].getShape() == q.getShape() &&
         k.getDim(0) == q.getDim(0) && k.getDim(3) == q.getDim(3) && k.getDim(2) > 0 &&
         q.getDim(2) % k.getDim(2) == 0 && lse.getShape() == ArrayRef<int64_t>({q.getDim(0), q.getDim(2), q.getDim(1)});
}

static LogicalResult evaluateAttentionGrad(OpCall &call) {
  FailureOr<kernels::AttentionDropout> dropout = dropoutOf(call, cast<AttentionGradOp>(call.op), 6);
  if (failed(dropout) || failed(checkFloats(call, {6, 7})))
    return failure();
  if (!agreeForAttention(call.operands))
    return call.op->emitError("[attention.shapes] has operands (") << call.op->getOperandTypes() << ")";
  auto op = cast<AttentionGradOp>(call.op);
  const Tensor &q = call.operands[1], &k = call.operands[2];
  kernels::AttentionDesc desc = attentionDesc(q, k, op.getScale().convertToDouble(), op.getCausal());
  desc.dropout = *dropout;
  std::vector<uint8_t> mask;
  desc.mask = maskOf(call, op, 6, mask);
  Tensor dq = call.makeResult(0), dk = call.makeResult(1), dv = call.makeResult(2);
  dispatchFloat(q.getKind(), [&](auto zero) {
    using T = decltype(zero);
    auto in = [&](unsigned index) { return call.operands[index].data<T>(); };
    reference::attentionBackward(desc, in(1), in(2), in(3), in(4), in(5), in(0), dq.mutableData<T>(),
                                 dk.mutableData<T>(), dv.mutableData<T>());
  });
  call.results.append({dq, dk, dv});
  return success();
}

//===----------------------------------------------------------------------===//
// Embedding
//===----------------------------------------------------------------------===//

/// `table` is (V, H). Without an offset every id has to lie in it.
static FailureOr<kernels::EmbeddingDesc> embeddingDesc(OpCall &call, ArrayRef<int64_t> table, const Tensor &ids) {
  kernels::EmbeddingDesc desc;
  desc.tokens = ids.getNumElements();
  desc.rows = table[0];
  desc.width = table[1];
  bool whole = call.operands.size() == 2;
  if (!whole)
    desc.start = call.operands[2].getInteger();
  for (int64_t i = 0; whole && i < desc.tokens; ++i)
    if (ids.getInteger(i) < 0 || ids.getInteger(i) >= desc.rows)
      return call.op->emitError("id ") << ids.getInteger(i) << " at position " << i << " lies outside the table's "
                                       << desc.rows << " rows",
             failure();
  return desc;
}

static LogicalResult evaluateEmbedding(OpCall &call) {
  const Tensor &ids = call.operands[0], &table = call.operands[1];
  FailureOr<kernels::EmbeddingDesc> desc = embeddingDesc(call, table.getShape(), ids);
  if (failed(desc) || failed(checkFloats(call, {0, 2})))
    return failure();
  Tensor result = call.makeResult();
  dispatchFloat(result.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::embedding(*desc, ids.data<int64_t>(), table.data<T>(), result.mutableData<T>());
  });
  call.results.push_back(result);
  return success();
}

static LogicalResult evaluateEmbeddingGrad(OpCall &call) {
  const Tensor &ids = call.operands[0];
  FailureOr<kernels::EmbeddingDesc> desc = embeddingDesc(call, call.resultShape(), ids);
  if (failed(desc) || failed(checkFloats(call, {0, 2})))
    return failure();
  Tensor result = call.makeResult();
  dispatchFloat(result.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::embeddingGrad(*desc, ids.data<int64_t>(), call.operands[1].data<T>(), result.mutableData<T>(),
                             kernels::WriteMode::kOverwrite);
  });
  call.results.push_back(result);
  return success();
}

void hyc::interpreter::addCompositeOps(OpTable &table) {
  table.add<LayerNormOp>(evaluateLayerNorm);
  table.add<LayerNormGradOp>(evaluateLayerNormGrad);
  table.add<AttentionOp>(evaluateAttention);
  table.add<AttentionGradOp>(evaluateAttentionGrad);
  table.add<EmbeddingOp>(evaluateEmbedding);
  table.add<EmbeddingGradOp>(evaluateEmbeddingGrad);
}
