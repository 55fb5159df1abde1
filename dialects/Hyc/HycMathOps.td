// Further functions of one or two numbers, element by element: one line each here, one in each table that
// docs/adding-an-op.md names.

#ifndef HYC_MATH_OPS_TD
#define HYC_MATH_OPS_TD

include "dialects/Hyc/HycElementwiseOps.td"

// Steps: their gradient is zero wherever they have one.
def Hyc_FloorOp : Hyc_UnaryOp<"floor", "the largest integer that is not above x">;
def Hyc_CeilOp : Hyc_UnaryOp<"ceil", "the smallest integer that is not below x">;
def Hyc_RoundOp : Hyc_UnaryOp<"round", "the nearest integer, the even one of two">;
def Hyc_SignOp : Hyc_UnaryOp<"sign", "-1, 0 or 1 as x is below, at or above 0">;

def Hyc_TanOp : Hyc_UnaryOp<"tan", "tangent of x, radians">;
def Hyc_AsinOp : Hyc_UnaryOp<"asin", "inverse sine of x, radians">;
def Hyc_AcosOp : Hyc_UnaryOp<"acos", "inverse cosine of x, radians">;
def Hyc_AtanOp : Hyc_UnaryOp<"atan", "inverse tangent of x, radians">;
def Hyc_SinhOp : Hyc_UnaryOp<"sinh", "hyperbolic sine of x">;
def Hyc_CoshOp : Hyc_UnaryOp<"cosh", "hyperbolic cosine of x">;
def Hyc_AsinhOp : Hyc_UnaryOp<"asinh", "inverse hyperbolic sine of x">;
def Hyc_AcoshOp : Hyc_UnaryOp<"acosh", "inverse hyperbolic cosine of x">;
def Hyc_AtanhOp : Hyc_UnaryOp<"atanh", "inverse hyperbolic tangent of x">;
def Hyc_SoftplusOp : Hyc_UnaryOp<"softplus", "log(1 + e^x), without overflow">;

def Hyc_RemOp : Hyc_BinaryOp<"rem", "x - y · trunc(x / y), with the sign of x (an integer y is not 0)">;

#endif // HYC_MATH_OPS_TD
