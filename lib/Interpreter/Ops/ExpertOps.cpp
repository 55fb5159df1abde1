// Products of rows with their experts' matrices, by the kernels' plain references.
#include "Ops/OpTable.h"
#include "dialects/Hyc/HycDialect.h"
#include "kernels/expert_matmul/reference.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;
namespace reference = hyc::kernels::reference;

/// `rows` (N,K), `results` (N,M) and `matrices` of E of these, with the number of the first where the call has it.
static kernels::ExpertMatmulDesc descOf(OpCall &call, const Tensor &rows, ArrayRef<int64_t> results,
                                        ArrayRef<int64_t> matrices, bool isTransposed) {
  kernels::ExpertMatmulDesc desc;
  desc.rows = rows.getDim(0);
  desc.inputs = rows.getDim(1);
  desc.outputs = results[1];
  desc.experts = matrices[0];
  desc.transposed = isTransposed;
  if (call.operands.size() > 3)
    desc.start = call.operands[3].getInteger();
  return desc;
}

static LogicalResult checkFloats(OpCall &call) {
  for (const Tensor &operand : ArrayRef(call.operands).take_front(2))
    if (!isFloat(call.resultKind()) || !areStoredAlike(operand.getKind(), call.resultKind()))
      return call.op->emitError("the interpreter needs rows and matrices of one floating-point type, not ")
             << operand.describeType() << " for " << call.op->getResult(0).getType();
  return success();
}

static LogicalResult evaluateExpertMatmul(OpCall &call) {
  if (failed(checkFloats(call)))
    return failure();
  const Tensor &x = call.operands[0], &w = call.operands[1], &experts = call.operands[2];
  Tensor y = call.makeResult();
  kernels::ExpertMatmulDesc desc =
      descOf(call, x, y.getShape(), w.getShape(), cast<ExpertMatmulOp>(call.op).getTransposed());
  dispatchFloat(y.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::expertMatmul(desc, experts.data<int64_t>(), x.data<T>(), w.data<T>(), y.mutableData<T>());
  });
  call.results.push_back(y);
  return success();
}

static LogicalResult evaluateExpertMatmulGrad(OpCall &call) {
  if (failed(checkFloats(call)))
    return failure();
  const Tensor &x = call.operands[0], &dy = call.operands[1], &experts = call.operands[2];
  Tensor dw = call.makeResult();
  kernels::ExpertMatmulDesc desc =
      descOf(call, x, dy.getShape(), dw.getShape(), cast<ExpertMatmulGradOp>(call.op).getTransposed());
  dispatchFloat(dw.getKind(), [&](auto zero) {
    using T = decltype(zero);
    reference::expertMatmulGrad(desc, experts.data<int64_t>(), x.data<T>(), dy.data<T>(), dw.mutableData<T>(),
                                kernels::WriteMode::kOverwrite);
  });
  call.results.push_back(dw);
  return success();
}

void hyc::interpreter::addExpertOps(OpTable &table) {
  table.add<ExpertMatmulOp>(evaluateExpertMatmul);
  table.add<ExpertMatmulGradOp>(evaluateExpertMatmulGrad);
}
