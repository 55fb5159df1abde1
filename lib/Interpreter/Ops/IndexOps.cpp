// Ops that pick, put and order by number, and running sums, by the kernels' plain references.
#include "Ops/OpTable.h"
#include "Rank/KernelDescs.h"
#include "dialects/Hyc/HycDialect.h"
#include "kernels/argsort/reference.h"
#include "kernels/cumsum/reference.h"
#include "kernels/gather/reference.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

/// Integers are kept wider than they are.
static void wrap(Tensor &tensor) {
  for (int64_t i = 0; !isFloat(tensor.getKind()) && i < tensor.getNumElements(); ++i)
    tensor.mutableData<int64_t>()[i] = wrapInteger(tensor.getKind(), tensor.getInteger(i));
}

static LogicalResult evaluateGather(OpCall &call) {
  auto op = cast<GatherOp>(call.op);
  const Tensor &data = call.operands[0], &indices = call.operands[1];
  Tensor result = call.makeResult();
  dispatchStorage(result.getKind(), [&](auto zero) {
    using T = decltype(zero);
    kernels::reference::gather(gatherDesc(data.getShape(), indices.getShape(), op.getDim(), op.getBatch()),
                               data.data<T>(), indices.data<int64_t>(), result.mutableData<T>());
  });
  call.results.push_back(result);
  return success();
}

static kernels::ScatterKind kindOf(ReductionKind kind) {
  switch (kind) {
  case ReductionKind::sum:
    return kernels::ScatterKind::kSum;
  case ReductionKind::max:
    return kernels::ScatterKind::kMax;
  case ReductionKind::min:
    return kernels::ScatterKind::kMin;
  case ReductionKind::prod:
    return kernels::ScatterKind::kProd;
  }
  return kernels::ScatterKind::kSum;
}

static LogicalResult evaluateScatter(OpCall &call) {
  auto op = cast<ScatterOp>(call.op);
  Tensor result = call.makeResult();
  const Tensor &indices = call.operands[0];
  dispatchStorage(result.getKind(), [&](auto zero) {
    using T = decltype(zero);
    kernels::reference::scatter(gatherDesc(result.getShape(), indices.getShape(), op.getDim(), op.getBatch()),
                                kindOf(op.getKind()), indices.data<int64_t>(), call.operands[1].data<T>(),
                                result.mutableData<T>());
  });
  wrap(result);
  call.results.push_back(result);
  return success();
}

static LogicalResult evaluateCumSum(OpCall &call) {
  auto op = cast<CumSumOp>(call.op);
  Tensor result = call.makeResult();
  kernels::CumSumDesc desc = cumSumDesc(result.getShape(), op.getDim());
  desc.reverse = op.getReverse(), desc.exclusive = op.getExclusive();
  dispatchStorage(result.getKind(), [&](auto zero) {
    using T = decltype(zero);
    kernels::reference::cumSum(desc, call.operands[0].data<T>(), result.mutableData<T>());
  });
  wrap(result);
  call.results.push_back(result);
  return success();
}

static LogicalResult evaluateArgSort(OpCall &call) {
  auto op = cast<ArgSortOp>(call.op);
  Tensor result = call.makeResult();
  const Tensor &x = call.operands[0];
  int64_t size = x.getShape().back();
  kernels::ArgSortDesc desc{size ? x.getNumElements() / size : 0, size, result.getShape().back(), op.getDescending()};
  dispatchStorage(x.getKind(), [&](auto zero) {
    kernels::reference::argSort(desc, x.data<decltype(zero)>(), result.mutableData<int64_t>());
  });
  call.results.push_back(result);
  return success();
}

void hyc::interpreter::addIndexOps(OpTable &table) {
  table.add<GatherOp>(evaluateGather);
  table.add<ScatterOp>(evaluateScatter);
  table.add<CumSumOp>(evaluateCumSum);
  table.add<ArgSortOp>(evaluateArgSort);
}
