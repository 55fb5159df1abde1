// Folds and canonicalizations: identities only, nothing that could change a bit.
#include "dialects/Hyc/HycDialect.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace hyc;

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

static bool isSplatOf(Attribute attribute, double value) {
  auto elements = dyn_cast_or_null<SplatElementsAttr>(attribute);
  if (!elements)
    return false;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble() == value;
  return isa<IntegerType>(elements.getElementType()) &&
         elements.getSplatValue<APInt>().getSExtValue() == static_cast<int64_t>(value);
}

/// x + 0 for integers only: in floating point -0 + 0 is +0.
OpFoldResult AddOp::fold(FoldAdaptor adaptor) {
  bool integral = isa<IntegerType>(cast<RankedTensorType>(getResult().getType()).getElementType());
  return integral && isSplatOf(adaptor.getRhs(), 0) ? OpFoldResult(getLhs()) : nullptr;
}

OpFoldResult MulOp::fold(FoldAdaptor adaptor) {
  return isSplatOf(adaptor.getRhs(), 1) ? OpFoldResult(getLhs()) : nullptr;
}

OpFoldResult ConvertOp::fold(FoldAdaptor) {
  return getOperand().getType() == getResult().getType() ? OpFoldResult(getOperand()) : nullptr;
}

/// What has no gradient needs none kept from it.
OpFoldResult StopGradientOp::fold(FoldAdaptor) {
  bool isReal = isa<FloatType>(cast<RankedTensorType>(getResult().getType()).getElementType());
  return !isReal || getOperand().getDefiningOp<StopGradientOp>() ? OpFoldResult(getOperand()) : nullptr;
}

OpFoldResult BroadcastOp::fold(FoldAdaptor) {
  return getOperand().getType() == getResult().getType() ? OpFoldResult(getOperand()) : nullptr;
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  return getOperand().getType() == getResult().getType() ? OpFoldResult(getOperand()) : nullptr;
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getOperand().getType() == getResult().getType())
    return getOperand();
  // reshape(reshape(x)) back to the type of x is x.
  if (auto inner = getOperand().getDefiningOp<ReshapeOp>())
    if (inner.getOperand().getType() == getResult().getType())
      return inner.getOperand();
  return nullptr;
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  for (auto [index, dim] : llvm::enumerate(getPermutation()))
    if (static_cast<int64_t>(index) != dim)
      return nullptr;
  return getOperand();
}

namespace {
/// reshape(reshape(x)) -> reshape(x)
struct ComposeReshapes : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getOperand().getDefiningOp<ReshapeOp>();
    if (!inner)
      return failure();
    rewriter.modifyOpInPlace(op, [&] { op.getOperandMutable().assign(inner.getOperand()); });
    return success();
  }
};

/// transpose(transpose(x, p), q) -> transpose(x, p[q])
struct ComposeTransposes : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getOperand().getDefiningOp<TransposeOp>();
    if (!inner)
      return failure();
    SmallVector<int64_t> permutation;
    for (int64_t dim : op.getPermutation())
      permutation.push_back(inner.getPermutation()[dim]);
    rewriter.modifyOpInPlace(op, [&] {
      op.getOperandMutable().assign(inner.getOperand());
      op.setPermutation(permutation);
    });
    return success();
  }
};
} // namespace

void ReshapeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ComposeReshapes>(context);
}
void TransposeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ComposeTransposes>(context);
}
