// Gradients of the composite ops: one gradient op each, fed by the statistics that the forward op kept. Nobody
// differentiates through those statistics: a model that uses one as a value is told so.
#include "dialects/Hyc/DerivedOps.h"

using namespace mlir;
using namespace hyc;

/// Fails where a result beyond the first, a statistic, has a cotangent.
static LogicalResult refuseStatistics(Operation *op, ArrayRef<Value> cotangents) {
  for (auto [index, cotangent] : llvm::enumerate(cotangents.drop_front()))
    if (cotangent)
      return op->emitOpError("has no gradient through result ")
             << index + 1 << ", a statistic kept for its own gradient; compute it with separate ops";
  return success();
}

LogicalResult LayerNormOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                         SmallVectorImpl<Value> &results) {
  results.assign(3, Value());
  if (failed(refuseStatistics(*this, cotangents)))
    return failure();
  if (!cotangents[0])
    return success();
  auto gradient = DerivedOps(builder, *this, ".grad")
                      .create<LayerNormGradOp>("", cotangents[0], getX(), getScale(), getMean(), getRstd());
  for (auto [index, value] : llvm::enumerate(gradient.getResults()))
    if (wanted[index])
      results[index] = value;
  return success();
}

LogicalResult AttentionOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                         SmallVectorImpl<Value> &results) {
  results.assign(getNumOperands(), Value());
  if (failed(refuseStatistics(*this, cotangents)))
    return failure();
  if (!cotangents[0])
    return success();
  if (getDropout() && getRandom().empty())
    return emitOpError("has no keys yet, by which its gradient drops the same probabilities; run hyc-key-random-ops "
                       "first");
  auto gradient =
      DerivedOps(builder, *this, ".grad")
          .create<AttentionGradOp>("", cotangents[0], getQ(), getK(), getV(), getResult(), getLse(), getScaleAttr(),
                                   getCausalAttr(), getMask(), getRandom(), getDropoutAttr(), getColumnAttr());
  for (auto [index, value] : llvm::enumerate(gradient.getResults()))
    if (wanted[index])
      results[index] = value;
  return success();
}

LogicalResult EmbeddingOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                         SmallVectorImpl<Value> &results) {
  results.assign(getNumOperands(), Value());
  if (!cotangents[0] || !wanted[1])
    return success();
  DerivedOps b(builder, *this, ".grad");
  Value rows = cotangents[0];
  if (std::optional<uint64_t> padding = getPadding()) {
    RankedTensorType type = tensorTypeOf(rows), ids = tensorTypeOf(getIds());
    Value number = b.splat(".padding", ids, static_cast<double>(*padding));
    Value isPadding = b.compare(".is_padding", ComparePredicate::eq, getIds(), number);
    auto everywhere = RankedTensorType::get(type.getShape(), builder.getI1Type());
    SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, ids.getRank()));
    Value spread = b.create<BroadcastOp>(".is_padding.rows", everywhere, isPadding, dims);
    rows = b.select(".padded", spread, b.splat(".zero", type, 0), rows);
  }
  results[1] = b.create<EmbeddingGradOp>("", getTable().getType(), getIds(), rows, getOffset());
  return success();
}

/// The count is an integer and carries no cotangent; lse is a statistic.
LogicalResult CrossEntropyOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                            SmallVectorImpl<Value> &results) {
  results.assign(2, Value());
  if (failed(refuseStatistics(*this, cotangents)))
    return failure();
  if (cotangents[0] && wanted[0])
    results[0] = DerivedOps(builder, *this, ".grad")
                     .create<CrossEntropyGradOp>("", getLogits().getType(), cotangents[0], getLogits(), getLabels(),
                                                 getLse(), Value(), getIgnoreIndex(), IntegerAttr());
  return success();
}
