// The functions of HycMathOps.td: gradients, as torch's derivatives.yaml states them, and sharding rules.
#include "dialects/Hyc/DerivedOps.h"

using namespace mlir;
using namespace hyc;

/// Operands and result have one shape.
static ShardingRule elementwiseRule(Operation *op) {
  ShardingRule rule;
  TensorFactors dims;
  for (int64_t size : tensorTypeOf(op->getResult(0)).getShape())
    dims.push_back({rule.addFactor(size)});
  rule.operands.assign(op->getNumOperands(), dims);
  rule.results.push_back(dims);
  return rule;
}

/// Defines the rule and the gradient of a function of one number: BODY sees the operand `x`, the result `r`, the
/// cotangent `g` and the builder `b`, and gives the operand's cotangent.
#define MATH_FUNCTION(OP, BODY)                                                                                        \
  ShardingRule OP::getShardingRule() { return elementwiseRule(*this); }                                                \
  LogicalResult OP::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,               \
                                  SmallVectorImpl<Value> &results) {                                                   \
    results.assign(1, Value());                                                                                        \
    if (!wanted[0] || !cotangents[0])                                                                                  \
      return success();                                                                                                \
    [[maybe_unused]] DerivedOps b(builder, *this, ".grad");                                                            \
    [[maybe_unused]] Value x = getOperand(), r = getResult(), g = cotangents[0];                                       \
    results[0] = [&]() -> Value BODY();                                                                                \
    return success();                                                                                                  \
  }

static Value one(DerivedOps &b, Value like) { return b.splat(".one", like.getType(), 1); }
static Value square(DerivedOps &b, Value x) { return b.mul(".square", x, x); }

// Zero wherever there is a gradient at all.
MATH_FUNCTION(FloorOp, { return Value(); })
MATH_FUNCTION(CeilOp, { return Value(); })
MATH_FUNCTION(RoundOp, { return Value(); })
MATH_FUNCTION(SignOp, { return Value(); })

/// g (1 + r²)
MATH_FUNCTION(TanOp, { return b.mul("", g, b.add(".derivative", one(b, x), square(b, r))); })

/// g / sqrt(1 - x²)
MATH_FUNCTION(AsinOp,
              { return b.mul("", g, b.create<RsqrtOp>(".derivative", b.sub(".complement", one(b, x), square(b, x)))); })

/// -g / sqrt(1 - x²)
MATH_FUNCTION(AcosOp, {
  Value slope = b.create<RsqrtOp>(".derivative", b.sub(".complement", one(b, x), square(b, x)));
  return b.create<NegOp>("", b.mul(".product", g, slope));
})

/// g / (1 + x²)
MATH_FUNCTION(AtanOp, { return b.div("", g, b.add(".denominator", one(b, x), square(b, x))); })

MATH_FUNCTION(SinhOp, { return b.mul("", g, b.create<CoshOp>(".cosh", x)); })
MATH_FUNCTION(CoshOp, { return b.mul("", g, b.create<SinhOp>(".sinh", x)); })

/// g / sqrt(x² + 1)
MATH_FUNCTION(AsinhOp, {
  return b.mul("", g, b.create<RsqrtOp>(".derivative", b.add(".denominator", square(b, x), one(b, x))));
})

/// g / sqrt(x² - 1)
MATH_FUNCTION(AcoshOp, {
  return b.mul("", g, b.create<RsqrtOp>(".derivative", b.sub(".denominator", square(b, x), one(b, x))));
})

/// g / (1 - x²)
MATH_FUNCTION(AtanhOp, { return b.div("", g, b.sub(".denominator", one(b, x), square(b, x))); })

/// g / (1 + e^-x)
MATH_FUNCTION(SoftplusOp, { return b.mul("", g, b.create<SigmoidOp>(".sigmoid", x)); })
#undef MATH_FUNCTION

ShardingRule RemOp::getShardingRule() { return elementwiseRule(*this); }

/// x: g. y: -g trunc(x / y), where trunc(x / y) = (x - r) / y.
LogicalResult RemOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                   SmallVectorImpl<Value> &results) {
  results.assign(2, Value());
  if (!cotangents[0])
    return success();
  if (wanted[0])
    results[0] = cotangents[0];
  if (!wanted[1])
    return success();
  DerivedOps b(builder, *this, ".grad.rhs");
  Value whole = b.sub(".whole", getLhs(), getResult());
  Value quotient = b.create<RoundOp>(".rounded", b.div(".quotient", whole, getRhs()));
  results[1] = b.create<NegOp>("", b.mul(".product", cotangents[0], quotient));
  return success();
}
