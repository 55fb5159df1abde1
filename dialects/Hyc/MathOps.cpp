// The gradient of rem; those of functions of one number stand in HycMathOps.td.
#include "dialects/Hyc/DerivedOps.h"

using namespace mlir;
using namespace hyc;

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
