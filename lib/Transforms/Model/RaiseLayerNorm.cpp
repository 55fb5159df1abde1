// RaiseLayerNorm: starts from each product that scales a normalized value and reads it as a list of factors.
#include "DeadOps.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/ConstantEvaluation.h"
#include "hyc/Support/Decimal.h"
#include "hyc/Support/OpIds.h"
#include "hyc/Transforms/Model/Passes.h"
#include "mlir/IR/PatternMatch.h"
#include <cmath>

using namespace mlir;
using namespace hyc;

namespace hyc {
#define GEN_PASS_DEF_RAISELAYERNORM
#include "hyc/Transforms/Model/Passes.h.inc"
} // namespace hyc

namespace {
RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// What a statistic of each row is repeated from, without dimensions of size 1; null if it is repeated otherwise.
Value repeatedAlongRow(Value value) {
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

/// The vector over the last dimension that a value repeats, or null.
Value repeatedOverRows(Value value) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast || broadcast.getDims().size() != 1 || broadcast.getDims()[0] != typeOf(value).getRank() - 1)
    return {};
  return broadcast.getOperand();
}

Value skipReshapes(Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getOperand();
  return value;
}

/// x where `value` is the mean of each row of x, or null.
Value meanOf(Value value) {
  value = skipReshapes(value);
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<MulOp, DivOp>(op))
    return {};
  for (int side = 0; side < (isa<MulOp>(op) ? 2 : 1); ++side) {
    auto reduce = skipReshapes(op->getOperand(side)).getDefiningOp<ReduceOp>();
    std::optional<double> number = evaluateSplat(op->getOperand(1 - side));
    if (!reduce || !number || reduce.getKind() != ReductionKind::sum)
      continue;
    RankedTensorType type = typeOf(reduce.getOperand());
    double count = isa<MulOp>(op) ? 1 / *number : *number, size = static_cast<double>(type.getShape().back());
    if (reduce.getDims() == ArrayRef<int64_t>{type.getRank() - 1} && std::fabs(count - size) < 1e-3 * size)
      return reduce.getOperand();
  }
  return {};
}

/// x where `value` is x minus the mean of its rows, or null.
Value centredOf(Value value) {
  auto sub = value.getDefiningOp<SubOp>();
  Value mean = sub ? repeatedAlongRow(sub.getRhs()) : Value();
  return mean && meanOf(mean) == sub.getLhs() ? sub.getLhs() : Value();
}

Value squareOf(Value value) {
  if (auto mul = value.getDefiningOp<MulOp>())
    return mul.getLhs() == mul.getRhs() ? mul.getLhs() : Value();
  auto pow = value.getDefiningOp<PowOp>();
  return pow && evaluateSplat(pow.getRhs()) == 2.0 ? pow.getLhs() : Value();
}

/// The centred value of whose variance plus epsilon `value` is, or null.
Value varianceOf(Value value, double &epsilon) {
  auto add = skipReshapes(value).getDefiningOp<AddOp>();
  for (int side = 0; add && side < 2; ++side) {
    std::optional<double> number = evaluateSplat(add->getOperand(1 - side));
    Value squares = number ? meanOf(add->getOperand(side)) : Value();
    Value centred = squares ? squareOf(squares) : Value();
    if (centred && centredOf(centred))
      return epsilon = *number, centred;
  }
  return {};
}

/// The centred value by whose deviation `factor` divides (or multiplies, with `inverse`), or null.
Value deviationOf(Value factor, bool inverse, double &epsilon) {
  Value statistic = repeatedAlongRow(factor);
  Operation *op = statistic ? skipReshapes(statistic).getDefiningOp() : nullptr;
  if (!op)
    return {};
  if (isa<ReciprocalOp>(op) && !inverse) {
    op = skipReshapes(op->getOperand(0)).getDefiningOp();
    inverse = true;
  }
  if ((isa_and_nonnull<SqrtOp>(op) && inverse) || (isa_and_nonnull<RsqrtOp>(op) && !inverse))
    return varianceOf(op->getOperand(0), epsilon);
  return {};
}

struct Factor {
  Value value;
  bool inverse;
};

void collectFactors(Value value, bool inverse, SmallVectorImpl<Factor> &factors) {
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<MulOp, DivOp>(op) || factors.size() > 4)
    return factors.push_back({value, inverse});
  collectFactors(op->getOperand(0), inverse, factors);
  collectFactors(op->getOperand(1), isa<DivOp>(op) ? !inverse : inverse, factors);
}

struct Norm {
  Value x, scale;
  double epsilon = 0;
};

/// A product of exactly a centred value, the reciprocal of its deviation, and a vector.
std::optional<Norm> matchProduct(Value value) {
  SmallVector<Factor> factors;
  collectFactors(value, false, factors);
  if (factors.size() != 3)
    return std::nullopt;
  Norm norm;
  Value centred, spread;
  for (const Factor &factor : factors) {
    if (Value found = deviationOf(factor.value, factor.inverse, norm.epsilon))
      spread = found;
    else if (Value vector = repeatedOverRows(factor.value); vector && !factor.inverse)
      norm.scale = vector;
    else if (!factor.inverse && centredOf(factor.value))
      centred = factor.value;
  }
  if (!centred || !spread || centredOf(centred) != centredOf(spread) || !norm.scale)
    return std::nullopt;
  norm.x = centredOf(centred);
  return norm;
}

struct RaiseLayerNorm : hyc::impl::RaiseLayerNormBase<RaiseLayerNorm> {
  void runOnOperation() override {
    ids = OpIds(getOperation());
    SmallVector<Operation *> sums, products;
    getOperation().walk([&](Operation *op) {
      if (isa<AddOp>(op))
        sums.push_back(op);
      else if (isa<MulOp>(op))
        products.push_back(op);
    });
    // Sums first, since the product in one is a norm of its own without the bias.
    llvm::SmallPtrSet<Operation *, 16> done;
    for (Operation *sum : sums)
      for (int side = 0; side < 2; ++side) {
        Value product = sum->getOperand(side), bias = repeatedOverRows(sum->getOperand(1 - side));
        std::optional<Norm> norm = bias ? matchProduct(product) : std::nullopt;
        if (!norm)
          continue;
        done.insert(product.getDefiningOp());
        raise(sum, *norm, bias);
        break;
      }
    for (Operation *product : products)
      if (std::optional<Norm> norm = done.contains(product) ? std::nullopt : matchProduct(product->getResult(0)))
        raise(product, *norm, {});
    eraseDeadOps(getOperation());
  }

private:
  void raise(Operation *root, const Norm &norm, Value bias) {
    IRRewriter rewriter(root);
    if (!bias) {
      RankedTensorType type = typeOf(norm.scale);
      bias = ConstantOp::create(rewriter, root->getLoc(), type,
                                DenseElementsAttr::get(type, rewriter.getZeroAttr(type.getElementType())));
    }
    // Written in single precision by exporters: 9.99999974e-6 was 1e-5.
    FloatAttr epsilon = rewriter.getF64FloatAttr(shortestDecimal(norm.epsilon));
    auto op = LayerNormOp::create(rewriter, root->getLoc(), norm.x, norm.scale, bias, epsilon);
    ids.assign(op, getIdPath(root));
    rewriter.replaceAllUsesWith(root->getResult(0), op.getY());
  }

  OpIds ids;
};
} // namespace
