// rms_norm, group_norm and rotary positions as ops of the model, by the kernels' plain references.
#include "Ops/OpTable.h"
#include "dialects/Hyc/HycDialect.h"
#include "kernels/group_norm/reference.h"
#include "kernels/rms_norm/reference.h"
#include "kernels/rope/reference.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;
namespace reference = hyc::kernels::reference;

/// Floating-point operands that are computed with in one arithmetic.
static LogicalResult checkFloats(OpCall &call) {
  if (!isFloat(call.resultKind()))
    return call.op->emitError("the interpreter needs a floating-point type, not ") << call.op->getResult(0).getType();
  for (auto [index, operand] : llvm::enumerate(call.operands))
    if (!areStoredAlike(operand.getKind(), call.resultKind()))
      return call.op->emitError("the interpreter computes f64 apart from narrower types, but operand ")
             << index << " is " << operand.describeType();
  return success();
}

//===----------------------------------------------------------------------===//
// rms_norm
//===----------------------------------------------------------------------===//

static kernels::RmsNormDesc rmsNormDesc(const Tensor &x, double epsilon = 0) {
  kernels::RmsNormDesc desc;
  desc.cols = x.getShape().back();
  desc.rows = desc.cols ? x.getNumElements() / desc.cols : 0;
  desc.epsilon = epsilon;
  return desc;
}

static void computeRmsNorm(double epsilon, const Tensor &x, const Tensor &scale, Tensor &y, Tensor &rstd) {
  dispatchFloat(y.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::rmsNormForward(rmsNormDesc(x, epsilon), x.data<T>(), scale.data<T>(), y.mutableData<T>(),
                              rstd.mutableData<T>());
  });
}

static void computeRmsNormGrad(const Tensor &x, const Tensor &scale, const Tensor &rstd, const Tensor &dy, Tensor &dx,
                               Tensor &dscale) {
  dispatchFloat(dx.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::rmsNormBackward(rmsNormDesc(x), x.data<T>(), scale.data<T>(), rstd.data<T>(), dy.data<T>(),
                               dx.mutableData<T>(), dscale.mutableData<T>(), kernels::WriteMode::kOverwrite);
  });
}

static LogicalResult evaluateRmsNorm(OpCall &call) {
  if (failed(checkFloats(call)))
    return failure();
  Tensor y = call.makeResult(0), rstd = call.makeResult(1);
  double epsilon = cast<RmsNormOp>(call.op).getEpsilon().convertToDouble();
  computeRmsNorm(epsilon, call.operands[0], call.operands[1], y, rstd);
  call.results.append({y, rstd});
  return success();
}

static LogicalResult evaluateRmsNormGrad(OpCall &call) {
  const Tensor &dy = call.operands[0], &x = call.operands[1], &scale = call.operands[2], &rstd = call.operands[3];
  if (failed(checkFloats(call)))
    return failure();
  if (x.getTensorRank() == 0 || scale.getShape() != x.getShape().take_back() || dy.getShape() != x.getShape() ||
      rstd.getShape() != x.getShape().drop_back())
    return call.op->emitError("[rms_norm.shapes] has operands (") << call.op->getOperandTypes() << ")";
  Tensor dx = call.makeResult(0), dscale = call.makeResult(1);
  computeRmsNormGrad(x, scale, rstd, dy, dx, dscale);
  call.results.append({dx, dscale});
  return success();
}

//===----------------------------------------------------------------------===//
// group_norm
//===----------------------------------------------------------------------===//

static kernels::GroupNormDesc groupNormDesc(const Tensor &x, double epsilon = 0) {
  return {x.getDim(0), x.getDim(1), x.getDim(2), x.getDim(3), epsilon};
}

static LogicalResult evaluateGroupNorm(OpCall &call) {
  if (failed(checkFloats(call)))
    return failure();
  const Tensor &x = call.operands[0], &scale = call.operands[1], &bias = call.operands[2];
  Tensor y = call.makeResult(0), mean = call.makeResult(1), rstd = call.makeResult(2);
  double epsilon = cast<GroupNormOp>(call.op).getEpsilon().convertToDouble();
  dispatchFloat(y.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::groupNormForward(groupNormDesc(x, epsilon), x.data<T>(), scale.data<T>(), bias.data<T>(),
                                y.mutableData<T>(), mean.mutableData<T>(), rstd.mutableData<T>());
  });
  call.results.append({y, mean, rstd});
  return success();
}

static LogicalResult evaluateGroupNormGrad(OpCall &call) {
  const Tensor &dy = call.operands[0], &x = call.operands[1], &scale = call.operands[2], &mean = call.operands[3],
               &rstd = call.operands[4];
  if (failed(checkFloats(call)))
    return failure();
  if (x.getTensorRank() != 4 || scale.getShape() != x.getShape().slice(1, 2) || dy.getShape() != x.getShape() ||
      mean.getShape() != x.getShape().take_front(2) || rstd.getShape() != mean.getShape())
    return call.op->emitError("[group_norm.shapes] has operands (") << call.op->getOperandTypes() << ")";
  Tensor dx = call.makeResult(0), dscale = call.makeResult(1), dbias = call.makeResult(2);
  dispatchFloat(dx.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::groupNormBackward(groupNormDesc(x), x.data<T>(), scale.data<T>(), mean.data<T>(), rstd.data<T>(),
                                 dy.data<T>(), dx.mutableData<T>(), dscale.mutableData<T>(), dbias.mutableData<T>(),
                                 kernels::WriteMode::kOverwrite);
  });
  call.results.append({dx, dscale, dbias});
  return success();
}

//===----------------------------------------------------------------------===//
// Rotary positions
//===----------------------------------------------------------------------===//

static void computeRotaryTable(ArrayRef<float> frequencies, double factor, Tensor &cos, Tensor &sin) {
  kernels::RotaryTableDesc desc;
  desc.positions = cos.getDim(0);
  desc.pairs = cos.getDim(1);
  desc.factor = factor;
  dispatchFloat(cos.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::rotaryTable(desc, frequencies.data(), cos.mutableData<T>(), sin.mutableData<T>());
  });
}

static void computeRope(bool inverse, const Tensor &x, const Tensor &cos, const Tensor &sin, Tensor &y) {
  kernels::RopeDesc desc;
  desc.batch = x.getDim(0), desc.length = x.getDim(1), desc.heads = x.getDim(2), desc.headDim = x.getDim(3);
  desc.pairs = cos.getShape().back();
  desc.tablePerSample = cos.getTensorRank() == 3;
  desc.inverse = inverse;
  dispatchFloat(y.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::rope(desc, x.data<T>(), cos.data<T>(), sin.data<T>(), y.mutableData<T>());
  });
}

static LogicalResult evaluateRotaryTable(OpCall &call) {
  if (failed(checkFloats(call)))
    return failure();
  auto op = cast<RotaryTableOp>(call.op);
  Tensor cos = call.makeResult(0), sin = call.makeResult(1);
  computeRotaryTable(op.getFrequencies(), op.getFactor().convertToDouble(), cos, sin);
  call.results.append({cos, sin});
  return success();
}

static LogicalResult evaluateRope(OpCall &call) {
  if (failed(checkFloats(call)))
    return failure();
  Tensor y = call.makeResult();
  computeRope(cast<RopeOp>(call.op).getInverse(), call.operands[0], call.operands[1], call.operands[2], y);
  call.results.push_back(y);
  return success();
}

void hyc::interpreter::addNormOps(OpTable &table) {
  table.add<RmsNormOp>(evaluateRmsNorm);
  table.add<RmsNormGradOp>(evaluateRmsNormGrad);
  table.add<GroupNormOp>(evaluateGroupNorm);
  table.add<GroupNormGradOp>(evaluateGroupNormGrad);
  table.add<RotaryTableOp>(evaluateRotaryTable);
  table.add<RopeOp>(evaluateRope);
}
