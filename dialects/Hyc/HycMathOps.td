// Further functions of one or two numbers, element by element. All that a function is to the compiler is one row here: its
// gradient as torch's derivatives.yaml states it, and its facts; docs/adding-an-op.md names the other places.

#ifndef HYC_MATH_OPS_TD
#define HYC_MATH_OPS_TD

include "dialects/Hyc/HycElementwiseOps.td"

// `gradient` gives the operand's cotangent from the operand `x`, the result `r` and the result's cotangent `g`, with the
// builder `b`; null is zero. MathFunctions.h has what the rows share.
class Hyc_MathOp<string mnemonic, string formula, string gradient, list<Trait> facts = []>
    : Hyc_UnaryOp<mnemonic, formula, 1, facts> {
  let extraClassDefinition = [{
    ::llvm::LogicalResult $cppClass::buildGradient(::mlir::OpBuilder &builder, ::llvm::ArrayRef<::mlir::Value> cotangents,
                                                   ::llvm::ArrayRef<bool> wanted,
                                                   ::llvm::SmallVectorImpl<::mlir::Value> &results) {
      using namespace ::hyc::math_functions;
      return buildUnaryGradient(*this, builder, cotangents, wanted, results,
                                []([[maybe_unused]] DerivedOps &b, [[maybe_unused]] Value x, [[maybe_unused]] Value r,
                                   [[maybe_unused]] Value g) -> Value { return }] # gradient # [{; });
    }
  }];
}

// Steps: their gradient is zero wherever they have one.
class Hyc_StepOp<string mnemonic, string formula> : Hyc_MathOp<mnemonic, formula, "{}", [Hyc_PreservesZeros]>;
def Hyc_FloorOp : Hyc_StepOp<"floor", "the largest integer that is not above x">;
def Hyc_CeilOp : Hyc_StepOp<"ceil", "the smallest integer that is not below x">;
def Hyc_RoundOp : Hyc_StepOp<"round", "the nearest integer, the even one of two">;
def Hyc_SignOp : Hyc_StepOp<"sign", "-1, 0 or 1 as x is below, at or above 0">;

def Hyc_TanOp : Hyc_MathOp<"tan", "tangent of x, radians", // g (1 + r²)
    [{b.mul("", g, b.add(".derivative", one(b, x), square(b, r)))}], [Hyc_PreservesZeros, Hyc_ComputesInF32]>;
def Hyc_AsinOp : Hyc_MathOp<"asin", "inverse sine of x, radians", // g / sqrt(1 - x²)
    [{b.mul("", g, b.create<RsqrtOp>(".derivative", b.sub(".complement", one(b, x), square(b, x))))}],
    [Hyc_PreservesZeros]>;
def Hyc_AcosOp : Hyc_MathOp<"acos", "inverse cosine of x, radians", // -g / sqrt(1 - x²)
    [{minusProduct(b, g, b.create<RsqrtOp>(".derivative", b.sub(".complement", one(b, x), square(b, x))))}]>;
def Hyc_AtanOp : Hyc_MathOp<"atan", "inverse tangent of x, radians", // g / (1 + x²)
    [{b.div("", g, b.add(".denominator", one(b, x), square(b, x)))}], [Hyc_PreservesZeros]>;
def Hyc_SinhOp : Hyc_MathOp<"sinh", "hyperbolic sine of x",
    [{b.mul("", g, b.create<CoshOp>(".cosh", x))}], [Hyc_PreservesZeros]>;
def Hyc_CoshOp : Hyc_MathOp<"cosh", "hyperbolic cosine of x", [{b.mul("", g, b.create<SinhOp>(".sinh", x))}]>;
def Hyc_AsinhOp : Hyc_MathOp<"asinh", "inverse hyperbolic sine of x", // g / sqrt(x² + 1)
    [{b.mul("", g, b.create<RsqrtOp>(".derivative", b.add(".denominator", square(b, x), one(b, x))))}],
    [Hyc_PreservesZeros]>;
def Hyc_AcoshOp : Hyc_MathOp<"acosh", "inverse hyperbolic cosine of x", // g / sqrt(x² - 1)
    [{b.mul("", g, b.create<RsqrtOp>(".derivative", b.sub(".denominator", square(b, x), one(b, x))))}]>;
def Hyc_AtanhOp : Hyc_MathOp<"atanh", "inverse hyperbolic tangent of x", // g / (1 - x²)
    [{b.div("", g, b.sub(".denominator", one(b, x), square(b, x)))}], [Hyc_PreservesZeros]>;
def Hyc_SoftplusOp : Hyc_MathOp<"softplus", "log(1 + e^x), without overflow", // g / (1 + e^-x)
    [{b.mul("", g, b.create<SigmoidOp>(".sigmoid", x))}]>;

// Of the gamma function.
def Hyc_TrigammaOp : Hyc_UnaryOp<"trigamma", "second derivative of log |Γ(x)|", 0>;
def Hyc_DigammaOp : Hyc_MathOp<"digamma", "derivative of log |Γ(x)|", [{b.mul("", g, b.create<TrigammaOp>(".trigamma", x))}]>;
def Hyc_LgammaOp : Hyc_MathOp<"lgamma", "log |Γ(x)|", [{b.mul("", g, b.create<DigammaOp>(".digamma", x))}]>;

def Hyc_RemOp : Hyc_BinaryOp<"rem", "x - y · trunc(x / y), with the sign of x (an integer y is not 0)">;

#endif // HYC_MATH_OPS_TD
