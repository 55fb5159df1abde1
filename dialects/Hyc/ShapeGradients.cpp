// Gradients of the ops that rearrange, combine or contract elements. Linear ops have their transpose as gradient:
// broadcast and reduce sum, slice and pad, split and concat, einsum and einsum.
#include "dialects/Hyc/DerivedOps.h"

using namespace mlir;
using namespace hyc;

/// Whether there is nothing to build for an op with one operand and one result; prepares `results` either way.
static bool isIdle(ArrayRef<Value> cotangents, ArrayRef<bool> wanted, SmallVectorImpl<Value> &results) {
  results.assign(1, Value());
  return !wanted[0] || !cotangents[0];
}

LogicalResult ReshapeOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                       SmallVectorImpl<Value> &results) {
  if (!isIdle(cotangents, wanted, results))
    results[0] = DerivedOps(builder, *this, ".grad").create<ReshapeOp>("", getOperand().getType(), cotangents[0]);
  return success();
}

LogicalResult TransposeOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                         SmallVectorImpl<Value> &results) {
  if (isIdle(cotangents, wanted, results))
    return success();
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [to, from] : llvm::enumerate(getPermutation()))
    inverse[from] = to;
  results[0] = DerivedOps(builder, *this, ".grad").create<TransposeOp>("", cotangents[0], inverse);
  return success();
}

LogicalResult BroadcastOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                         SmallVectorImpl<Value> &results) {
  if (isIdle(cotangents, wanted, results))
    return success();
  SmallVector<int64_t> added;
  for (int64_t dim = 0, e = tensorTypeOf(getResult()).getRank(); dim < e; ++dim)
    if (!llvm::is_contained(getDims(), dim))
      added.push_back(dim);
  results[0] = DerivedOps(builder, *this, ".grad").reduce("", ReductionKind::sum, cotangents[0], added);
  return success();
}

LogicalResult SliceOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                     SmallVectorImpl<Value> &results) {
  if (!isIdle(cotangents, wanted, results))
    results[0] = DerivedOps(builder, *this, ".grad")
                     .create<PadOp>("", getOperand().getType(), cotangents[0], getOffsets(), getStrides());
  return success();
}

LogicalResult PadOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                   SmallVectorImpl<Value> &results) {
  if (!isIdle(cotangents, wanted, results))
    results[0] = DerivedOps(builder, *this, ".grad")
                     .create<SliceOp>("", getOperand().getType(), cotangents[0], getOffsets(), getStrides());
  return success();
}

/// A part that nobody used contributes zeros.
LogicalResult SplitOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                     SmallVectorImpl<Value> &results) {
  results.assign(1, Value());
  if (!wanted[0] || llvm::none_of(cotangents, [](Value value) { return value != nullptr; }))
    return success();
  DerivedOps b(builder, *this, ".grad");
  SmallVector<Value> parts;
  for (auto [index, cotangent] : llvm::enumerate(cotangents))
    parts.push_back(cotangent ? cotangent : b.splat(".zero." + Twine(index), getParts()[index].getType(), 0));
  results[0] = b.create<ConcatOp>("", getOperand().getType(), parts, getDim());
  return success();
}

LogicalResult ConcatOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                      SmallVectorImpl<Value> &results) {
  results.assign(getParts().size(), Value());
  if (!cotangents[0])
    return success();
  DerivedOps b(builder, *this, ".grad");
  int64_t rank = tensorTypeOf(getResult()).getRank();
  SmallVector<int64_t> offsets(rank, 0), strides(rank, 1);
  for (auto [index, part] : llvm::enumerate(getParts())) {
    if (wanted[index])
      results[index] = b.create<SliceOp>("." + Twine(index), part.getType(), cotangents[0], offsets, strides);
    offsets[getDim()] += tensorTypeOf(part).getDimSize(getDim());
  }
  return success();
}

/// The product of the others: of all that are not zero, where none of the others is.
static Value productGradient(DerivedOps &b, ReduceOp op, Value cotangent) {
  RankedTensorType type = tensorTypeOf(op.getOperand());
  Value x = op.getOperand(), one = b.splat(".one", type, 1), zero = b.splat(".zero", type, 0);
  Value isZero = b.compare(".is_zero", ComparePredicate::eq, x, zero);
  Value factors = b.select(".factors", isZero, one, x);
  Value product =
      b.restore(".products", b.reduce(".product", ReductionKind::prod, factors, op.getDims()), op.getDims(), type);
  Value zeros = b.reduce(".zeros", ReductionKind::sum, b.select(".ones", isZero, one, zero), op.getDims());
  Value others = b.sub(".other_zeros", b.restore(".all_zeros", zeros, op.getDims(), type),
                       b.select(".own_zeros", isZero, one, zero));
  Value slope = b.div(".derivative", product, factors);
  Value reaches = b.compare(".reaches", ComparePredicate::eq, others, zero);
  Value along = b.mul(".along", b.restore(".cotangents", cotangent, op.getDims(), type), slope);
  return b.select("", reaches, along, zero);
}

/// max and min share the cotangent equally among the elements that attain the result.
LogicalResult ReduceOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                      SmallVectorImpl<Value> &results) {
  if (isIdle(cotangents, wanted, results))
    return success();
  DerivedOps b(builder, *this, ".grad");
  RankedTensorType type = tensorTypeOf(getOperand());
  if (getKind() == ReductionKind::sum) {
    results[0] = b.restore("", cotangents[0], getDims(), type);
    return success();
  }
  if (getKind() == ReductionKind::prod) {
    results[0] = productGradient(b, *this, cotangents[0]);
    return success();
  }
  Value extremum = b.restore(".extremum", getResult(), getDims(), type);
  Value attains = b.compare(".attains", ComparePredicate::eq, getOperand(), extremum);
  Value zero = b.splat(".zero", type, 0);
  Value ones = b.select(".ones", attains, b.splat(".one", type, 1), zero);
  Value count = b.reduce(".count", ReductionKind::sum, ones, getDims());
  Value share = b.restore(".shares", b.div(".share", cotangents[0], count), getDims(), type);
  results[0] = b.select("", attains, share, zero);
  return success();
}

/// ab,bc->ac has the cotangents ac,bc->ab and ab,ac->bc. Every letter of the missing operand stands in the result or in
/// the other operand (einsum.contracted), so both are einsums.
LogicalResult EinsumOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                      SmallVectorImpl<Value> &results) {
  results.assign(2, Value());
  if (!cotangents[0])
    return success();
  DerivedOps b(builder, *this, ".grad");
  Letters letters = getLetters();
  if (wanted[0])
    results[0] = b.einsum(".lhs", letters.result + "," + letters.rhs + "->" + letters.lhs, cotangents[0], getRhs());
  if (wanted[1])
    results[1] = b.einsum(".rhs", letters.lhs + "," + letters.result + "->" + letters.rhs, getLhs(), cotangents[0]);
  return success();
}

/// (g - Σ g r) r
LogicalResult SoftmaxOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                       SmallVectorImpl<Value> &results) {
  if (isIdle(cotangents, wanted, results))
    return success();
  DerivedOps b(builder, *this, ".grad");
  RankedTensorType type = tensorTypeOf(getResult());
  int64_t last = type.getRank() - 1;
  Value sum = b.reduce(".sum", ReductionKind::sum, b.mul(".product", cotangents[0], getResult()), {last});
  results[0] = b.mul("", b.sub(".centred", cotangents[0], b.restore(".sums", sum, {last}, type)), getResult());
  return success();
}
