// Ops by number or place, and running sums: one library kernel each.
#include "FunctionLowering.h"

using namespace mlir;
using namespace hyc;

static Type elementOf(Value tensor) { return cast<RankedTensorType>(tensor.getType()).getElementType(); }

static int64_t sizeAlong(Value tensor, uint64_t dim) {
  return cast<RankedTensorType>(tensor.getType()).getDimSize(static_cast<unsigned>(dim));
}

/// The kernels take their numbers as i64.
static LogicalResult checkIndices(Operation *op, Value indices) {
  if (elementOf(indices).isSignlessInteger(64))
    return success();
  return op->emitOpError("has indices ") << indices.getType() << ", expected i64 on this target; convert them";
}

static LogicalResult checkNumbers(Operation *op, Value tensor) {
  Type type = elementOf(tensor);
  if (type.isF32() || type.isF64() || type.isSignlessInteger(64) || type.isSignlessInteger(32))
    return success();
  return op->emitOpError("has no kernel on this target for ") << tensor.getType() << ", expected f32, f64, i64 or i32";
}

template <> LogicalResult FunctionLowering::lower(GatherOp op) {
  if (failed(checkIndices(op, op.getIndices())))
    return failure();
  Value data = denseBufferOf(op.getData()), indices = denseBufferOf(op.getIndices());
  Value rows = destinationOf(op.getResult(), Layout::Dense).buffer;
  rank::CallOp picks =
      call(op, "gather", rows, {data, indices}, {named("dim", op.getDimAttr()), named("batch", op.getBatchAttr())});
  boundIndices(picks, op.getIndices(), "indices", sizeAlong(op.getData(), op.getDim()));
  buffers[op.getResult()] = rows;
  return success();
}

template <> LogicalResult FunctionLowering::lower(ScatterOp op) {
  if (failed(checkIndices(op, op.getIndices())) || failed(checkNumbers(op, op.getUpdates())))
    return failure();
  Value indices = denseBufferOf(op.getIndices()), rows = denseBufferOf(op.getUpdates());
  Value data = destinationOf(op.getResult(), Layout::Dense).buffer;
  rank::CallOp puts = call(op, "scatter", data, {indices, rows},
                           {named("dim", op.getDimAttr()), named("batch", op.getBatchAttr()),
                            named("kind", builder.getStringAttr(stringifyReductionKind(op.getKind())))});
  boundIndices(puts, op.getIndices(), "indices", sizeAlong(op.getResult(), op.getDim()));
  buffers[op.getResult()] = data;
  return success();
}

template <> LogicalResult FunctionLowering::lower(CumSumOp op) {
  if (failed(checkNumbers(op, op.getOperand())))
    return failure();
  Value x = denseBufferOf(op.getOperand()), y = destinationOf(op.getResult(), Layout::Dense).buffer;
  SmallVector<NamedAttribute> attributes{named("dim", op.getDimAttr())};
  if (op.getReverse())
    attributes.push_back(named("reverse", builder.getUnitAttr()));
  if (op.getExclusive())
    attributes.push_back(named("exclusive", builder.getUnitAttr()));
  call(op, "cumsum", y, x, attributes);
  buffers[op.getResult()] = y;
  return success();
}

template <> LogicalResult FunctionLowering::lower(ArgSortOp op) {
  if (failed(checkNumbers(op, op.getOperand())))
    return failure();
  Value x = denseBufferOf(op.getOperand()), order = destinationOf(op.getResult(), Layout::Dense).buffer;
  SmallVector<NamedAttribute> attributes;
  if (op.getDescending())
    attributes.push_back(named("descending", builder.getUnitAttr()));
  call(op, "argsort", order, x, attributes);
  buffers[op.getResult()] = order;
  return success();
}

/// Sizes and strides of what is made, dimensions that lie in one row of places joined; six of each, ones first.
static std::optional<std::pair<SmallVector<int64_t>, SmallVector<int64_t>>> placesOf(DequantizeOp op) {
  SmallVector<int64_t> sizes, strides;
  for (auto [size, stride] : llvm::zip_equal(cast<RankedTensorType>(op.getType()).getShape(), op.getStrides())) {
    if (size == 1)
      continue;
    if (!sizes.empty() && strides.back() == size * stride) {
      sizes.back() *= size;
      strides.back() = stride;
      continue;
    }
    sizes.push_back(size);
    strides.push_back(stride);
  }
  constexpr size_t kMost = 6;
  if (sizes.size() > kMost)
    return std::nullopt;
  sizes.insert(sizes.begin(), kMost - sizes.size(), 1);
  strides.insert(strides.begin(), kMost - strides.size(), 1);
  return std::pair(sizes, strides);
}

template <> LogicalResult FunctionLowering::lower(DequantizeOp op) {
  auto places = placesOf(op);
  if (!places)
    return op.emitOpError("is split in more dimensions than the kernel steps through, 6");
  SmallVector<Value> ins{denseBufferOf(op.getCodes())};
  for (Value scale : op.getScales())
    ins.push_back(denseBufferOf(scale));
  Value result = destinationOf(op.getResult(), Layout::Dense).buffer;
  SmallVector<NamedAttribute> attributes{named("sizes", builder.getDenseI64ArrayAttr(places->first)),
                                         named("strides", builder.getDenseI64ArrayAttr(places->second)),
                                         named("inputs", op.getBlockAttr())};
  call(op, op.getKind() == CodeKind::int8 ? "dequantize_int8" : "dequantize_nf4", result, ins, attributes);
  buffers[op.getResult()] = result;
  return success();
}

void hyc::addIndexLowerings(LoweringTable &table) {
  table.add<GatherOp, ScatterOp, CumSumOp, ArgSortOp, DequantizeOp>();
  // Every number must be one of the data.
  table.of<GatherOp>().indexUse = [](OpOperand &use) {
    auto gather = cast<GatherOp>(use.getOwner());
    if (use.getOperandNumber() == 0)
      return IndexUse{};
    return IndexUse{.bound = sizeAlong(gather.getData(), gather.getDim()), .isLookup = true};
  };
  table.of<ScatterOp>().indexUse = [](OpOperand &use) {
    auto scatter = cast<ScatterOp>(use.getOwner());
    if (use.getOperandNumber() == 1)
      return IndexUse{};
    return IndexUse{.bound = sizeAlong(scatter.getResult(), scatter.getDim()), .isLookup = true};
  };
}
