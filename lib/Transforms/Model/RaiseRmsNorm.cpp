// RaiseRmsNorm: starts from each product; the statistic in it tells which value is normalized.
#include "DeadOps.h"
#include "RowStatistics.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Analysis/ConstantEvaluation.h"
#include "hyc/Analysis/Entry.h"
#include "hyc/Support/Decimal.h"
#include "hyc/Support/OpIds.h"
#include "hyc/Transforms/Model/Passes.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace hyc;

namespace hyc {
#define GEN_PASS_DEF_RAISERMSNORM
#include "hyc/Transforms/Model/Passes.h.inc"
} // namespace hyc

namespace {
struct Norm {
  Value x, scale;
  double epsilon = 0;
};

/// x where `value` is the mean square of its rows plus a number, or null.
Value meanSquareOf(Value value, double &epsilon) {
  auto add = skipReshapes(value).getDefiningOp<AddOp>();
  for (int side = 0; add && side < 2; ++side) {
    std::optional<double> number = evaluateSplat(add->getOperand(1 - side));
    Value squares = number ? meanOf(add->getOperand(side)) : Value();
    if (Value x = squares ? squareOf(squares) : Value())
      return epsilon = *number, x;
  }
  return {};
}

/// The value by whose root mean square one of the factors divides, or null.
Value normalizedValue(ArrayRef<ProductFactor> factors, double &epsilon) {
  for (const ProductFactor &factor : factors)
    if (Value square = squareBelowRoot(factor.value, factor.inverse))
      if (Value x = meanSquareOf(square, epsilon))
        return x;
  return {};
}

/// A product of exactly x, its reciprocal root mean square, and a vector. x may be a product itself, and so is only now
/// known to be one factor.
std::optional<Norm> matchProduct(Value value) {
  Norm norm;
  norm.x = normalizedValue(collectFactors(value), norm.epsilon);
  if (!norm.x)
    return std::nullopt;
  SmallVector<ProductFactor> factors = collectFactors(value, norm.x);
  int values = 0, roots = 0;
  for (const ProductFactor &factor : factors) {
    double epsilon = 0;
    Value square = squareBelowRoot(factor.value, factor.inverse);
    if (square && meanSquareOf(square, epsilon) == norm.x)
      ++roots;
    else if (factor.value == norm.x && !factor.inverse)
      ++values;
    else if (Value vector = factor.inverse ? Value() : repeatedOverRows(factor.value))
      norm.scale = vector;
  }
  bool isNorm = factors.size() == 3 && values == 1 && roots == 1 && norm.scale;
  return isNorm ? std::optional(norm) : std::nullopt;
}

struct RaiseRmsNorm : hyc::impl::RaiseRmsNormBase<RaiseRmsNorm> {
  void runOnOperation() override {
    OpIds ids(getOperation());
    SmallVector<Operation *> products;
    walkFunctions(getOperation(), [&](Operation *op) {
      if (isa<MulOp, DivOp>(op))
        products.push_back(op);
    });
    for (Operation *product : products) {
      std::optional<Norm> norm = matchProduct(product->getResult(0));
      if (!norm)
        continue;
      IRRewriter rewriter(product);
      // Written in single precision by exporters: 9.99999974e-7 was 1e-6.
      FloatAttr epsilon = rewriter.getF64FloatAttr(shortestDecimal(norm->epsilon));
      auto op = RmsNormOp::create(rewriter, product->getLoc(), norm->x, norm->scale, epsilon);
      ids.assign(op, getIdPath(product));
      rewriter.replaceAllUsesWith(product->getResult(0), op.getY());
    }
    eraseDeadOps(getOperation());
  }
};
} // namespace
