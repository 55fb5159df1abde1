// RaiseLayerNorm: starts from each product that scales a normalized value and reads it as a list of factors.
#include "DeadOps.h"
#include "RowStatistics.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/ConstantEvaluation.h"
#include "hyc/Analysis/Entry.h"
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

/// x where `value` is x minus the mean of its rows, or null.
Value centredOf(Value value) {
  auto sub = value.getDefiningOp<SubOp>();
  Value mean = sub ? repeatedAlongRow(sub.getRhs()) : Value();
  return mean && meanOf(mean) == sub.getLhs() ? sub.getLhs() : Value();
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
  Value variance = squareBelowRoot(factor, inverse);
  return variance ? varianceOf(variance, epsilon) : Value();
}

struct Norm {
  Value x, scale;
  double epsilon = 0;
};

/// A product of exactly a centred value, the reciprocal of its deviation, and a vector.
std::optional<Norm> matchProduct(Value value) {
  SmallVector<ProductFactor> factors = collectFactors(value);
  if (factors.size() != 3)
    return std::nullopt;
  Norm norm;
  Value centred, spread;
  for (const ProductFactor &factor : factors) {
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
    walkFunctions(getOperation(), [&](Operation *op) {
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
