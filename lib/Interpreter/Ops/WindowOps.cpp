// Convolutions, pooling and resampling, by the kernels' plain references.
#include "Ops/OpTable.h"
#include "Rank/KernelDescs.h"
#include "dialects/Hyc/HycDialect.h"
#include "kernels/convolution/reference.h"
#include "kernels/pooling/reference.h"
#include "kernels/resample/reference.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

template <typename OpTy> static WindowAttributes attributesOf(OpTy op) {
  return {op.getStrides(), op.getDilations(), op.getLow()};
}

template <typename OpTy> static LogicalResult evaluateConvolution(OpCall &call) {
  auto op = cast<OpTy>(call.op);
  if (!isFloat(call.resultKind()))
    return op.emitError("the interpreter convolves floats, not ") << op.getResult().getType();
  Tensor result = call.makeResult();
  const Tensor &lhs = call.operands[0], &rhs = call.operands[1];
  constexpr bool givesX = std::is_same_v<OpTy, ConvolutionTransposeOp>;
  constexpr bool givesW = std::is_same_v<OpTy, ConvolutionWeightOp>;
  const Tensor &x = givesX ? result : lhs, &w = givesW ? result : rhs, &y = givesX ? lhs : givesW ? rhs : result;
  kernels::ConvolutionDesc desc =
      convolutionDesc(x.getShape(), w.getShape(), y.getShape(), attributesOf(op), op.getGroups());
  dispatchFloat(result.getKind(), [&](auto zero) {
    using T = decltype(zero);
    T *out = result.mutableData<T>();
    if constexpr (givesX)
      kernels::reference::convolutionTranspose(desc, lhs.data<T>(), rhs.data<T>(), out);
    else if constexpr (givesW)
      kernels::reference::convolutionWeight(desc, lhs.data<T>(), rhs.data<T>(), out, kernels::WriteMode::kOverwrite);
    else
      kernels::reference::convolution(desc, lhs.data<T>(), rhs.data<T>(), out);
  });
  call.results.push_back(result);
  return success();
}

static LogicalResult evaluateMaxPool(OpCall &call) {
  auto op = cast<MaxPoolOp>(call.op);
  Tensor result = call.makeResult(0), indices = call.makeResult(1);
  kernels::PoolingDesc desc =
      poolingDesc(call.operands[0].getShape(), result.getShape(), op.getWindow(), attributesOf(op));
  dispatchStorage(result.getKind(), [&](auto zero) {
    using T = decltype(zero);
    kernels::reference::maxPool(desc, call.operands[0].data<T>(), result.mutableData<T>(),
                                indices.mutableData<int64_t>());
  });
  call.results.push_back(result);
  call.results.push_back(indices);
  return success();
}

static kernels::ResampleDesc resampleDesc(ResampleOp op, ArrayRef<int64_t> x, ArrayRef<int64_t> y) {
  SmallVector<int64_t> taps = op.getTaps();
  size_t dim = op.getDim(), count = taps.size();
  kernels::ResampleDesc desc;
  desc.outer = product(x.take_front(dim)), desc.inner = product(x.drop_front(dim + count));
  setLast(desc.from, x.slice(dim, count));
  setLast(desc.to, y.slice(dim, count));
  setLast(desc.taps, taps);
  return desc;
}

static LogicalResult evaluateResample(OpCall &call) {
  auto op = cast<ResampleOp>(call.op);
  Tensor result = call.makeResult();
  const Tensor &x = call.operands[0];
  SmallVector<int64_t> firsts;
  for (auto table : op.getFirsts().getAsRange<DenseI64ArrayAttr>())
    llvm::append_range(firsts, table.asArrayRef());
  dispatchFloat(result.getKind(), [&](auto zero) {
    using T = decltype(zero);
    SmallVector<T> weights;
    for (auto table : op.getWeights().getAsRange<DenseF64ArrayAttr>())
      for (double weight : table.asArrayRef())
        weights.push_back(static_cast<T>(weight));
    kernels::reference::resample(resampleDesc(op, x.getShape(), result.getShape()), x.data<T>(), firsts.data(),
                                 weights.data(), result.mutableData<T>());
  });
  call.results.push_back(result);
  return success();
}

void hyc::interpreter::addWindowOps(OpTable &table) {
  table.add<ConvolutionOp>(evaluateConvolution<ConvolutionOp>);
  table.add<ConvolutionTransposeOp>(evaluateConvolution<ConvolutionTransposeOp>);
  table.add<ConvolutionWeightOp>(evaluateConvolution<ConvolutionWeightOp>);
  table.add<MaxPoolOp>(evaluateMaxPool);
  table.add<ResampleOp>(evaluateResample);
}
