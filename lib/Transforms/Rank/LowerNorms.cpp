// Normalizations and rotary positions: one library kernel each. Workspaces are temporaries like any other.
#include "FunctionLowering.h"

#include "hyc/Analysis/Workspaces.h"

using namespace mlir;
using namespace hyc;

static bool isForGpu(Operation *op) {
  auto module = op->getParentOfType<ModuleOp>();
  return module && module->hasAttr(kTargetAttribute);
}

/// Scratch memory of so many bytes, of what sums over `x` are kept in.
static rank::BufferType floats(rank::BufferType x, int64_t bytes) {
  int64_t elements = bytes / static_cast<int64_t>(sizeof(float));
  return rank::BufferType::get(x.getContext(), {elements}, accumulationType(x.getElementType()), {});
}

/// The workspace of a norm's gradient: for each block of rows, `vectors` sums of a row's length.
static rank::BufferType rowBlocks(Operation *op, rank::BufferType x, int64_t vectors) {
  int64_t cols = x.getShape().back(), rows = cols ? x.getNumElements() / cols : 0;
  return floats(x, rowSumsBytes(rows, cols, vectors, isForGpu(op)));
}

template <typename OpT>
void FunctionLowering::lowerNormGradient(OpT op, StringRef kernel,
                                         function_ref<rank::BufferType(rank::BufferType)> workspaceOf) {
  // Scale and bias share one mode: they are added to state only if both are, and both or neither for the first time.
  AccumulateOp scaleState = soleAccumulation(op.getScaleCotangent()),
               biasState = soleAccumulation(op.getBiasCotangent());
  bool fuse = scaleState && biasState && scaleState.getTarget() != biasState.getTarget() &&
              tables.accumulated.contains(scaleState.getTarget()) == tables.accumulated.contains(biasState.getTarget());
  Value x = denseBufferOf(op.getX()), dy = denseBufferOf(op.getCotangent()), scale = denseBufferOf(op.getScale());
  Value mean = denseBufferOf(op.getMean()), rstd = denseBufferOf(op.getRstd());
  Value dx = destinationOf(op.getXCotangent(), Layout::Dense).buffer;
  Destination dscale, dbias;
  for (auto [cotangent, to] : {std::pair(op.getScaleCotangent(), &dscale), std::pair(op.getBiasCotangent(), &dbias)})
    *to = fuse ? *accumulationOf(cotangent) : destinationOf(cotangent, Layout::Dense);
  Value workspace =
      allocate(workspaceOf(cast<rank::BufferType>(x.getType())), rank::kActivations, op.getLoc(), getId(op));
  call(op, kernel, {dx, dscale.buffer, dbias.buffer, workspace}, {x, scale, mean, rstd, dy}, {}, dscale.mode);
  buffers[op.getXCotangent()] = dx;
  buffers[op.getScaleCotangent()] = dscale.buffer;
  buffers[op.getBiasCotangent()] = dbias.buffer;
}

//===----------------------------------------------------------------------===//
// layer_norm
//===----------------------------------------------------------------------===//

template <> LogicalResult FunctionLowering::lower(LayerNormOp op) {
  SmallVector<Value> outs;
  for (Value result : op->getResults())
    outs.push_back(buffers[result] = destinationOf(result, Layout::Dense).buffer);
  call(op, "layer_norm", outs, {denseBufferOf(op.getX()), denseBufferOf(op.getScale()), denseBufferOf(op.getBias())},
       named("epsilon", op.getEpsilonAttr()));
  return success();
}

template <> LogicalResult FunctionLowering::lower(LayerNormGradOp op) {
  lowerNormGradient(op, "layer_norm_grad", [&](rank::BufferType x) { return rowBlocks(op, x, 2); });
  return success();
}

//===----------------------------------------------------------------------===//
// group_norm
//===----------------------------------------------------------------------===//

template <> LogicalResult FunctionLowering::lower(GroupNormOp op) {
  SmallVector<Value> outs;
  for (Value result : op->getResults())
    outs.push_back(buffers[result] = destinationOf(result, Layout::Dense).buffer);
  call(op, "group_norm", outs, {denseBufferOf(op.getX()), denseBufferOf(op.getScale()), denseBufferOf(op.getBias())},
       named("epsilon", op.getEpsilonAttr()));
  return success();
}

template <> LogicalResult FunctionLowering::lower(GroupNormGradOp op) {
  lowerNormGradient(op, "group_norm_grad",
                    [&](rank::BufferType x) { return floats(x, groupNormWorkspaceBytes(x.getShape(), isForGpu(op))); });
  return success();
}

//===----------------------------------------------------------------------===//
// rms_norm
//===----------------------------------------------------------------------===//

template <> LogicalResult FunctionLowering::lower(RmsNormOp op) {
  SmallVector<Value> outs;
  for (Value result : op->getResults())
    outs.push_back(buffers[result] = destinationOf(result, Layout::Dense).buffer);
  call(op, "rms_norm", outs, {denseBufferOf(op.getX()), denseBufferOf(op.getScale())},
       named("epsilon", op.getEpsilonAttr()));
  return success();
}

template <> LogicalResult FunctionLowering::lower(RmsNormGradOp op) {
  Value x = denseBufferOf(op.getX()), dy = denseBufferOf(op.getCotangent()), scale = denseBufferOf(op.getScale());
  Value rstd = denseBufferOf(op.getRstd());
  Value dx = destinationOf(op.getXCotangent(), Layout::Dense).buffer;
  Destination dscale = accumulationOrDestination(op.getScaleCotangent(), Layout::Dense);
  Value workspace =
      allocate(rowBlocks(op, cast<rank::BufferType>(x.getType()), 1), rank::kActivations, op.getLoc(), getId(op));
  call(op, "rms_norm_grad", {dx, dscale.buffer, workspace}, {x, scale, rstd, dy}, {}, dscale.mode);
  buffers[op.getXCotangent()] = dx;
  buffers[op.getScaleCotangent()] = dscale.buffer;
  return success();
}

//===----------------------------------------------------------------------===//
// rope
//===----------------------------------------------------------------------===//

/// The kernel's tables are f32 whatever turns by them.
static LogicalResult checkTable(Operation *op, Value table) {
  Type element = cast<RankedTensorType>(table.getType()).getElementType();
  if (element.isF32() || element.isF64())
    return success();
  return op->emitOpError("has tables of ") << element << ", expected f32, which the kernel turns by";
}

template <> LogicalResult FunctionLowering::lower(RotaryTableOp op) {
  if (failed(checkTable(op, op.getCos())))
    return failure();
  SmallVector<Value> outs;
  for (Value result : op->getResults())
    outs.push_back(buffers[result] = destinationOf(result, Layout::Dense).buffer);
  // Elements are printed to the last digit, which arrays are not.
  ArrayRef<float> frequencies = op.getFrequencies();
  auto vector = RankedTensorType::get({static_cast<int64_t>(frequencies.size())}, builder.getF32Type());
  call(op, "rotary_table", outs, {},
       {named("frequencies", DenseElementsAttr::get(vector, frequencies)), named("factor", op.getFactorAttr())});
  return success();
}

template <> LogicalResult FunctionLowering::lower(RopeOp op) {
  if (failed(checkTable(op, op.getCos())))
    return failure();
  Value result = destinationOf(op.getResult(), Layout::Dense).buffer;
  SmallVector<NamedAttribute> attributes;
  if (op.getInverse())
    attributes.push_back(named("inverse", builder.getUnitAttr()));
  call(op, "rope", result, {denseBufferOf(op.getX()), denseBufferOf(op.getCos()), denseBufferOf(op.getSin())},
       attributes);
  buffers[op.getResult()] = result;
  return success();
}

void hyc::addNormLowerings(LoweringTable &table) {
  table.add<LayerNormOp, LayerNormGradOp, RmsNormOp, RmsNormGradOp, GroupNormOp, GroupNormGradOp, RotaryTableOp,
            RopeOp>();
}
