// Convolutions, pooling and resampling: one library kernel each. A convolution's workspace holds samples' patches.
#include "FunctionLowering.h"
#include "hyc/Analysis/Workspaces.h"

using namespace mlir;
using namespace hyc;

static RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

static int64_t product(ArrayRef<int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  return count;
}

/// One group of as many samples as one product takes: [channels · kernel, places].
static int64_t columnsOf(RankedTensorType w, RankedTensorType y, int64_t groups) {
  return convolutionColumns({y.getDimSize(0), groups, w.getDimSize(1), w.getDimSize(0) / groups,
                             product(w.getShape().drop_front(2)), product(y.getShape().drop_front(2))});
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
  Value columns =
      allocate(rank::BufferType::get(op.getContext(), {columnsOf(w, y, static_cast<int64_t>(op.getGroups()))},
                                     y.getElementType(), {}),
               rank::kActivations, op.getLoc(), getId(op));
  call(op, op->getName().stripDialect(), {to.buffer, columns}, {lhs, rhs},
       {named("strides", op.getStridesAttr()), named("dilations", op.getDilationsAttr()), named("low", op.getLowAttr()),
        named("groups", builder.getI64IntegerAttr(op.getGroups()))},
       to.mode);
  buffers[op.getResult()] = to.buffer;
  return success();
}
template <> LogicalResult FunctionLowering::lower(ConvolutionOp op) { return lowerConvolution(op); }
template <> LogicalResult FunctionLowering::lower(ConvolutionTransposeOp op) { return lowerConvolution(op); }
template <> LogicalResult FunctionLowering::lower(ConvolutionWeightOp op) { return lowerConvolution(op); }

template <> LogicalResult FunctionLowering::lower(MaxPoolOp op) {
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

/// The tables of all dimensions, one after the other, are constants beside the call.
template <> LogicalResult FunctionLowering::lower(ResampleOp op) {
  Type element = tensorType(op.getOperand()).getElementType();
  if (!element.isF32() && !isHalfWidth(element))
    return op.emitOpError("has no kernel on this target for ")
           << op.getOperand().getType() << ", expected f32, bf16 or f16";
  SmallVector<int64_t> firsts;
  SmallVector<float> weights;
  for (auto [first, weight] : llvm::zip_equal(op.getFirsts().getAsRange<DenseI64ArrayAttr>(),
                                              op.getWeights().getAsRange<DenseF64ArrayAttr>())) {
    llvm::append_range(firsts, first.asArrayRef());
    for (double each : weight.asArrayRef())
      weights.push_back(static_cast<float>(each));
  }
  auto constant = [&](Type type, int64_t count, auto values) {
    auto tensor = RankedTensorType::get({count}, type);
    Value buffer =
        allocate(rank::BufferType::get(op.getContext(), {count}, type, {}), rank::kActivations, op.getLoc(), getId(op));
    call(op, "constant", buffer, {}, named("values", DenseElementsAttr::get(tensor, values)));
    return buffer;
  };
  Value x = denseBufferOf(op.getOperand()), y = destinationOf(op.getResult(), Layout::Dense).buffer;
  Value places = constant(builder.getI64Type(), firsts.size(), ArrayRef<int64_t>(firsts));
  Value factors = constant(builder.getF32Type(), weights.size(), ArrayRef<float>(weights));
  call(op, "resample", y, {x, places, factors},
       {named("dim", op.getDimAttr()), named("taps", builder.getDenseI64ArrayAttr(op.getTaps()))});
  buffers[op.getResult()] = y;
  return success();
}

void hyc::addWindowLowerings(LoweringTable &table) {
  table.add<ConvolutionOp, ConvolutionTransposeOp, ConvolutionWeightOp, MaxPoolOp, ResampleOp>();
}
