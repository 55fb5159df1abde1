// Statistics of rows, and the products that they stand in.
#include "RowStatistics.h"

#include "hyc/Analysis/ConstantEvaluation.h"
#include <cmath>

using namespace mlir;
using namespace hyc;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

Value hyc::repeatedAlongRow(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return {};
  // All dimensions but the last; those of size 1 may be missing or not.
  SmallVector<int64_t> shape(typeOf(value).getShape().drop_back()), own;
  for (auto [index, dim] : llvm::enumerate(broadcast.getDims())) {
    if (dim == typeOf(value).getRank() - 1)
      return {};
    own.push_back(dim);
  }
  for (int64_t dim = 0; dim + 1 < typeOf(value).getRank(); ++dim)
    if (!llvm::is_contained(own, dim) && shape[dim] != 1)
      return {};
  return broadcast.getOperand();
}

Value hyc::repeatedOverRows(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast || broadcast.getDims().size() != 1 || broadcast.getDims()[0] != typeOf(value).getRank() - 1)
    return {};
  return broadcast.getOperand();
}

Value hyc::skipReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getOperand();
  return value;
}

/// Whether a number of the model is `expected`, as its type holds that, but for a unit or two of f32. Not more: the
/// mean of a thousand elements is not their sum by 999, as the unbiased variance has it.
static bool isAlmost(Value number, double expected) {
  std::optional<double> value = evaluateSplat(number);
  if (!value)
    return false;
  HostElement held = roundTo(typeOf(number).getElementType(), HostElement::ofReal(expected));
  return std::fabs(*value - held.real) <= 0x1p-22 * std::fabs(held.real);
}

Value hyc::meanOf(Value value) {
  value = skipReshapes(value);
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<MulOp, DivOp>(op))
    return {};
  for (int side = 0; side < (isa<MulOp>(op) ? 2 : 1); ++side) {
    auto reduce = skipReshapes(op->getOperand(side)).getDefiningOp<ReduceOp>();
    if (!reduce || reduce.getKind() != ReductionKind::sum)
      continue;
    RankedTensorType type = typeOf(reduce.getOperand());
    const double size = static_cast<double>(type.getShape().back());
    if (reduce.getDims() == ArrayRef<int64_t>{type.getRank() - 1} &&
        isAlmost(op->getOperand(1 - side), isa<MulOp>(op) ? 1 / size : size))
      return reduce.getOperand();
  }
  return {};
}

Value hyc::squareOf(Value value) {
  if (auto mul = value.getDefiningOp<MulOp>())
    return mul.getLhs() == mul.getRhs() ? mul.getLhs() : Value();
  auto pow = value.getDefiningOp<PowOp>();
  return pow && evaluateSplat(pow.getRhs()) == 2.0 ? pow.getLhs() : Value();
}

static void collect(Value value, bool inverse, Value whole, SmallVectorImpl<ProductFactor> &factors) {
  Operation *op = value == whole ? nullptr : value.getDefiningOp();
  if (!isa_and_nonnull<MulOp, DivOp>(op) || factors.size() > 4)
    return factors.push_back({value, inverse});
  collect(op->getOperand(0), inverse, whole, factors);
  collect(op->getOperand(1), isa<DivOp>(op) ? !inverse : inverse, whole, factors);
}

SmallVector<ProductFactor> hyc::collectFactors(Value product, Value whole) {
  SmallVector<ProductFactor> factors;
  collect(product, false, whole, factors);
  return factors;
}

Value hyc::squareBelowRoot(Value factor, bool inverse) {
  Value statistic = repeatedAlongRow(factor);
  Operation *op = statistic ? skipReshapes(statistic).getDefiningOp() : nullptr;
  if (!op)
    return {};
  if (isa<ReciprocalOp>(op) && !inverse) {
    op = skipReshapes(op->getOperand(0)).getDefiningOp();
    inverse = true;
  } else if (auto div = dyn_cast<DivOp>(op); div && !inverse && evaluateSplat(div.getLhs()) == 1.0) {
    op = skipReshapes(div.getRhs()).getDefiningOp();
    inverse = true;
  }
  bool isRoot = (isa_and_nonnull<SqrtOp>(op) && inverse) || (isa_and_nonnull<RsqrtOp>(op) && !inverse);
  return isRoot ? op->getOperand(0) : Value();
}
