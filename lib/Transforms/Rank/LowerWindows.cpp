// Convolutions and pooling: one library kernel each. A convolution's workspace holds one sample's patches.
#include "FunctionLowering.h"

using namespace mlir;
using namespace hyc;

static RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

/// kernels/convolution/op.h, convolutionColumns: one group of one sample, [channels · kernel, places].
static int64_t convolutionColumns(RankedTensorType w, RankedTensorType y, int64_t groups) {
  int64_t outputs = w.getDimSize(0) / groups, channels = w.getDimSize(1);
  if (groups > 1 && channels * outputs < 64)
    return 0;
  int64_t floats = channels;
  for (int64_t size : w.getShape().drop_front(2))
    floats *= size;
  for (int64_t size : y.getShape().drop_front(2))
    floats *= size;
  return floats;
}

template <typename OpT> LogicalResult FunctionLowering::lowerConvolution(OpT op) {
  constexpr bool givesX = std::is_same_v<OpT, ConvolutionTransposeOp>;
  constexpr bool givesW = std::is_same_v<OpT, ConvolutionWeightOp>;
  if (!tensorType(op.getResult()).getElementType().isF32())
    return op.emitOpError("has no kernel on this target for ") << op.getResult().getType() << ", expected f32";
  Value lhs = denseBufferOf(op.getLhs()), rhs = denseBufferOf(op.getRhs());
  Destination to =
      givesW ? accumulationOrDestination(op.getResult(), Layout::Dense) : destinationOf(op.getResult(), Layout::Dense);
  RankedTensorType w = tensorType(givesW ? op.getResult() : op.getRhs());
  RankedTensorType y = tensorType(givesX ? op.getLhs() : givesW ? op.getRhs() : op.getResult());
  Value columns = allocate(
      rank::BufferType::get(op.getContext(), {convolutionColumns(w, y, op.getGroups())}, y.getElementType(), {}),
      kActivations, op.getLoc(), getId(op));
  call(op, op->getName().stripDialect(), {to.buffer, columns}, {lhs, rhs},
       {named("strides", op.getStridesAttr()), named("dilations", op.getDilationsAttr()), named("low", op.getLowAttr()),
        named("groups", builder.getI64IntegerAttr(op.getGroups()))},
       to.mode);
  buffers[op.getResult()] = to.buffer;
  return success();
}
template LogicalResult FunctionLowering::lowerConvolution(ConvolutionOp);
template LogicalResult FunctionLowering::lowerConvolution(ConvolutionTransposeOp);
template LogicalResult FunctionLowering::lowerConvolution(ConvolutionWeightOp);

LogicalResult FunctionLowering::lowerMaxPool(MaxPoolOp op) {
  Type element = tensorType(op.getX()).getElementType();
  if (!element.isF32() && !isHalfWidth(element))
    return op.emitOpError("has no kernel on this target for ") << op.getX().getType() << ", expected f32, bf16 or f16";
  Value x = denseBufferOf(op.getX());
  SmallVector<Value> outs;
  for (Value result : op->getResults())
    outs.push_back(buffers[result] = destinationOf(result, Layout::Dense).buffer);
  call(op, "max_pool", outs, x,
       {named("window", op.getWindowAttr()), named("strides", op.getStridesAttr()),
        named("dilations", op.getDilationsAttr()), named("low", op.getLowAttr())});
  return success();
}
