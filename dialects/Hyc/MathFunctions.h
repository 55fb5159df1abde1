// What the gradients of HycMathOps.td are made of. They are compiled where the dialect's definitions are.
#ifndef HYC_DIALECTS_HYC_MATHFUNCTIONS_H
#define HYC_DIALECTS_HYC_MATHFUNCTIONS_H

#include "dialects/Hyc/DerivedOps.h"

namespace hyc::math_functions {

using mlir::Value;

inline Value one(DerivedOps &b, Value like) { return b.splat(".one", like.getType(), 1); }
inline Value square(DerivedOps &b, Value x) { return b.mul(".square", x, x); }
inline Value minusProduct(DerivedOps &b, Value g, Value slope) {
  return b.create<NegOp>("", b.mul(".product", g, slope));
}

/// The gradient of a function of one number; `rule(b, x, r, g)` gives the operand's cotangent.
template <typename Op, typename Rule>
llvm::LogicalResult buildUnaryGradient(Op op, mlir::OpBuilder &builder, llvm::ArrayRef<Value> cotangents,
                                       llvm::ArrayRef<bool> wanted, llvm::SmallVectorImpl<Value> &results, Rule rule) {
  results.assign(1, Value());
  if (wanted[0] && cotangents[0]) {
    DerivedOps b(builder, op, ".grad");
    results[0] = rule(b, op.getOperand(), op.getResult(), cotangents[0]);
  }
  return llvm::success();
}

} // namespace hyc::math_functions

#endif // HYC_DIALECTS_HYC_MATHFUNCTIONS_H
