// Gradients of the elementwise ops, as torch's derivatives.yaml states them. Shape and composite ops have files of
// their own. `g` is the cotangent of the only result; an op with one differentiable operand names its gradient
// `<id>.grad`, one with two `<id>.grad.lhs` and `<id>.grad.rhs`.
#include "dialects/Hyc/DerivedOps.h"

#include <cmath>

using namespace mlir;
using namespace hyc;

namespace {
/// Suffixes of two-operand gradients.
constexpr llvm::StringLiteral kLhs = ".lhs", kRhs = ".rhs";
} // namespace

/// Defines OP::buildGradient of a one-operand op: BODY sees the op's operand `x`, its result `r`, the cotangent `g` and
/// the builder `b`, and gives the operand's cotangent.
#define UNARY_GRADIENT(OP, BODY)                                                                                       \
  LogicalResult OP::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,               \
                                  SmallVectorImpl<Value> &results) {                                                   \
    results.assign(1, Value());                                                                                        \
    if (!wanted[0] || !cotangents[0])                                                                                  \
      return success();                                                                                                \
    DerivedOps b(builder, *this, ".grad");                                                                             \
    [[maybe_unused]] Value x = getOperand(), r = getResult(), g = cotangents[0];                                       \
    [[maybe_unused]] Type type = x.getType();                                                                          \
    results[0] = [&]()->Value BODY();                                                                                  \
    return success();                                                                                                  \
  }

UNARY_GRADIENT(StopGradientOp, { return {}; })
UNARY_GRADIENT(NegOp, { return b.create<NegOp>("", g); })
UNARY_GRADIENT(ExpOp, { return b.mul("", g, r); })
UNARY_GRADIENT(LogOp, { return b.div("", g, x); })
UNARY_GRADIENT(SqrtOp, { return b.div("", g, b.add(".twice", r, r)); })
UNARY_GRADIENT(SinOp, { return b.mul("", g, b.create<CosOp>(".cos", x)); })
UNARY_GRADIENT(CosOp, { return b.create<NegOp>("", b.mul(".product", g, b.create<SinOp>(".sin", x))); })

/// g · sign(x), which is 0 at 0.
UNARY_GRADIENT(AbsOp, {
  Value zero = b.splat(".zero", type, 0);
  Value negative = b.select(".negative", b.compare(".is_negative", ComparePredicate::lt, x, zero),
                            b.create<NegOp>(".negated", g), zero);
  return b.select("", b.compare(".is_positive", ComparePredicate::gt, x, zero), g, negative);
})

/// -g r³ / 2
UNARY_GRADIENT(RsqrtOp, {
  Value cube = b.mul(".cube", b.mul(".square", r, r), r);
  return b.mul("", b.mul(".scaled", g, b.splat(".factor", type, -0.5)), cube);
})

/// -g r²
UNARY_GRADIENT(ReciprocalOp, { return b.mul("", b.create<NegOp>(".negated", g), b.mul(".square", r, r)); })

/// g (1 - r²)
UNARY_GRADIENT(TanhOp, { return b.mul("", g, b.sub(".derivative", b.splat(".one", type, 1), b.mul(".square", r, r))); })

/// g · 2/sqrt(π) · exp(-x²)
UNARY_GRADIENT(ErfOp, {
  Value bell = b.create<ExpOp>(".exp", Value(b.create<NegOp>(".negated", b.mul(".square", x, x))));
  return b.mul("", b.mul(".scaled", g, b.splat(".factor", type, M_2_SQRTPI)), bell);
})

UNARY_GRADIENT(ReluOp, {
  Value zero = b.splat(".zero", type, 0);
  return b.select("", b.compare(".mask", ComparePredicate::gt, r, zero), g, zero);
})

/// g (1 - r) r
UNARY_GRADIENT(SigmoidOp,
               { return b.mul("", b.mul(".product", g, b.sub(".complement", b.splat(".one", type, 1), r)), r); })

UNARY_GRADIENT(GeluOp, { return b.create<GeluGradOp>("", g, x, getTanhAttr()); })

/// Integers carry no cotangent.
UNARY_GRADIENT(ConvertOp, {
  if (!isa<FloatType>(cast<RankedTensorType>(type).getElementType()))
    return Value();
  return b.create<ConvertOp>("", type, g);
})
#undef UNARY_GRADIENT

/// As above for two operands: LHS and RHS each give one cotangent.
#define BINARY_GRADIENT(OP, LHS, RHS)                                                                                  \
  LogicalResult OP::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,               \
                                  SmallVectorImpl<Value> &results) {                                                   \
    results.assign(2, Value());                                                                                        \
    if (!cotangents[0])                                                                                                \
      return success();                                                                                                \
    [[maybe_unused]] Value x = getLhs(), y = getRhs(), r = getResult(), g = cotangents[0];                             \
    [[maybe_unused]] Type type = x.getType();                                                                          \
    if (wanted[0]) {                                                                                                   \
      [[maybe_unused]] DerivedOps b(builder, *this, (".grad" + kLhs).str());                                           \
      results[0] = [&]()->Value LHS();                                                                                 \
    }                                                                                                                  \
    if (wanted[1]) {                                                                                                   \
      [[maybe_unused]] DerivedOps b(builder, *this, (".grad" + kRhs).str());                                           \
      results[1] = [&]()->Value RHS();                                                                                 \
    }                                                                                                                  \
    return success();                                                                                                  \
  }

BINARY_GRADIENT(AddOp, { return g; }, { return g; })
BINARY_GRADIENT(SubOp, { return g; }, { return b.create<NegOp>("", g); })
BINARY_GRADIENT(MulOp, { return b.mul("", g, y); }, { return b.mul("", g, x); })
BINARY_GRADIENT(
    DivOp, { return b.div("", g, y); },
    { return b.mul("", b.create<NegOp>(".negated", g), b.div(".derivative", b.div(".quotient", x, y), y)); })

/// x: g y x^(y-1), 0 where y is 0. y: g r log(x), 0 where x is 0 and y is not negative (log would give -inf · 0).
BINARY_GRADIENT(
    PowOp,
    {
      Value zero = b.splat(".zero", type, 0);
      Value power = b.create<PowOp>(".power", x, b.sub(".exponent", y, b.splat(".one", type, 1)));
      Value slope = b.mul(".product", g, b.mul(".derivative", y, power));
      return b.select("", b.compare(".is_constant", ComparePredicate::eq, y, zero), zero, slope);
    },
    {
      Value zero = b.splat(".zero", type, 0);
      Value slope = b.mul(".product", g, b.mul(".derivative", r, b.create<LogOp>(".log", x)));
      Value flat = b.create<AndOp>(".is_flat", b.compare(".is_zero", ComparePredicate::eq, x, zero),
                                   b.compare(".is_not_negative", ComparePredicate::ge, y, zero));
      return b.select("", flat, zero, slope);
    })

/// The cotangent goes to the operand that was taken, half to each on a tie; `loses` says when x gets nothing.
static Value extremumGradient(DerivedOps &b, ComparePredicate loses, Value x, Value y, Value g) {
  Value zero = b.splat(".zero", x.getType(), 0);
  Value half = b.mul(".half", g, b.splat(".factor", x.getType(), 0.5));
  Value shared = b.select(".shared", b.compare(".is_tie", ComparePredicate::eq, x, y), half, g);
  return b.select("", b.compare(".loses", loses, x, y), zero, shared);
}

BINARY_GRADIENT(
    MaxOp, { return extremumGradient(b, ComparePredicate::lt, x, y, g); },
    { return extremumGradient(b, ComparePredicate::lt, y, x, g); })
BINARY_GRADIENT(
    MinOp, { return extremumGradient(b, ComparePredicate::gt, x, y, g); },
    { return extremumGradient(b, ComparePredicate::gt, y, x, g); })
#undef BINARY_GRADIENT

/// Linear in x: the same under the same mask.
LogicalResult DropoutOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                       SmallVectorImpl<Value> &results) {
  results.assign(getNumOperands(), Value());
  if (!cotangents[0] || !wanted[0])
    return success();
  if (!getMask())
    return emitOpError("has no mask yet, which its gradient shares; run hyc-key-random-ops first");
  results[0] = DerivedOps(builder, *this, ".grad")
                   .create<DropoutOp>("", getResult().getType(), cotangents[0], getMask(), getRateAttr());
  return success();
}

LogicalResult SelectOp::buildGradient(OpBuilder &builder, ArrayRef<Value> cotangents, ArrayRef<bool> wanted,
                                      SmallVectorImpl<Value> &results) {
  results.assign(3, Value());
  if (!cotangents[0] || !(wanted[1] || wanted[2]))
    return success();
  DerivedOps b(builder, *this, ".grad");
  Value zero = b.splat(".zero", getResult().getType(), 0);
  if (wanted[1])
    results[1] = b.select(kLhs, getCondition(), cotangents[0], zero);
  if (wanted[2])
    results[2] = b.select(kRhs, getCondition(), zero, cotangents[0]);
  return success();
}
