// Ops that move elements (views where strides can say it), reductions, and clusters.
#include "FunctionLowering.h"

#include "mlir/IR/IRMapping.h"

#include <numeric>

using namespace mlir;
using namespace hyc;

static ArrayRef<int64_t> shapeOf(Value tensor) { return cast<RankedTensorType>(tensor.getType()).getShape(); }

LogicalResult FunctionLowering::lowerReshape(ReshapeOp op) {
  Value buffer = reshapeView(bufferOf(op.getOperand()), shapeOf(op.getResult()));
  if (!buffer)
    buffer = reshapeView(denseBufferOf(op.getOperand()), shapeOf(op.getResult()));
  buffers[op.getResult()] = buffer;
  return success();
}

LogicalResult FunctionLowering::lowerTranspose(TransposeOp op) {
  rank::BufferType type = typeOf(op.getOperand());
  SmallVector<int64_t> strides = type.getStridesOrDense(), permuted;
  for (int64_t dim : op.getPermutation())
    permuted.push_back(strides[dim]);
  buffers[op.getResult()] = view(bufferOf(op.getOperand()), 0, type.withLayout(shapeOf(op.getResult()), permuted));
  return success();
}

/// Elements offsets[d] + i·steps[d] of a buffer.
static std::pair<int64_t, SmallVector<int64_t>> sliceStrides(rank::BufferType type, ArrayRef<int64_t> offsets,
                                                             ArrayRef<int64_t> steps) {
  int64_t offset = 0;
  SmallVector<int64_t> strides = type.getStridesOrDense();
  for (size_t i = 0; i < strides.size(); ++i) {
    offset += offsets[i] * strides[i];
    strides[i] *= steps[i];
  }
  return {offset, strides};
}

LogicalResult FunctionLowering::lowerSlice(SliceOp op) {
  rank::BufferType type = typeOf(op.getOperand());
  auto [offset, strides] = sliceStrides(type, op.getOffsets(), op.getStrides());
  buffers[op.getResult()] = view(bufferOf(op.getOperand()), offset, type.withLayout(shapeOf(op.getResult()), strides));
  return success();
}

LogicalResult FunctionLowering::lowerPad(PadOp op) {
  Value whole = destinationOf(op.getResult(), Layout::Dense).buffer;
  auto type = cast<rank::BufferType>(whole.getType());
  call(op, "fill", whole, {}, named("value", builder.getF64FloatAttr(0)));
  auto [offset, strides] = sliceStrides(type, op.getOffsets(), op.getStrides());
  copy(view(whole, offset, type.withLayout(shapeOf(op.getOperand()), strides)), bufferOf(op.getOperand()), getId(op));
  buffers[op.getResult()] = whole;
  return success();
}

LogicalResult FunctionLowering::lowerSplit(SplitOp op) {
  rank::BufferType type = typeOf(op.getOperand());
  SmallVector<int64_t> strides = type.getStridesOrDense();
  int64_t before = 0;
  for (Value part : op.getParts()) {
    buffers[part] =
        view(bufferOf(op.getOperand()), before * strides[op.getDim()], type.withLayout(shapeOf(part), strides));
    before += shapeOf(part)[op.getDim()];
  }
  return success();
}

Value FunctionLowering::concatBuffer(ConcatOp op) {
  Value &whole = concats[op];
  if (!whole)
    whole = destinationOf(op.getResult(), Layout::Dense).buffer;
  return whole;
}

LogicalResult FunctionLowering::lowerConcat(ConcatOp op) {
  Value whole = concatBuffer(op);
  auto type = cast<rank::BufferType>(whole.getType());
  SmallVector<int64_t> strides = type.getStridesOrDense();
  int64_t before = 0;
  for (Value part : op.getParts()) {
    Value place = view(whole, before * strides[op.getDim()], type.withLayout(shapeOf(part), strides));
    if (rootOf(place) != rootOf(bufferOf(part)))
      copy(place, bufferOf(part), getId(op));
    before += shapeOf(part)[op.getDim()];
  }
  buffers[op.getResult()] = whole;
  return success();
}

LogicalResult FunctionLowering::lowerConstant(ConstantOp op) {
  Value buffer = destinationOf(op.getResult(), Layout::Dense).buffer;
  if (auto splat = dyn_cast<SplatElementsAttr>(op.getValue()))
    call(op, "fill", buffer, {}, named("value", splat.getSplatValue<Attribute>()));
  else
    call(op, "constant", buffer, {}, named("values", op.getValue()));
  buffers[op.getResult()] = buffer;
  return success();
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

LogicalResult FunctionLowering::lowerReduce(ReduceOp op) {
  auto type = cast<RankedTensorType>(op.getOperand().getType());
  if (!type.getElementType().isF32())
    return op.emitOpError("has no kernel on this target: ")
           << stringifyReductionKind(op.getKind()) << " of " << type.getElementType() << ", expected f32";
  // One run of adjacent dimensions at a time, the last one first; only the last step makes the result itself.
  SmallVector<int64_t> dims(op.getDims()), shape(type.getShape());
  Value current = denseBufferOf(op.getOperand());
  Value final;
  // The minimum is the negated maximum of what is negated.
  bool isMinimum = op.getKind() == ReductionKind::min && !dims.empty();
  if (isMinimum) {
    Value negated = allocate(cast<rank::BufferType>(current.getType()), kActivations, op.getLoc(), getId(op));
    launchUnary(op, "neg", negated, current);
    current = negated;
  }
  if (dims.empty()) {
    final = destinationOf(op.getResult(), Layout::Strided).buffer;
    copy(final, current, getId(op));
  }
  while (!dims.empty()) {
    int64_t last = dims.pop_back_val(), first = last;
    while (!dims.empty() && dims.back() == first - 1)
      first = dims.pop_back_val();
    auto product = [&](int64_t from, int64_t to) {
      return std::accumulate(shape.begin() + from, shape.begin() + to, int64_t(1), std::multiplies<int64_t>());
    };
    int64_t outer = product(0, first), reduced = product(first, last + 1), inner = product(last + 1, shape.size());
    shape.erase(shape.begin() + first, shape.begin() + last + 1);
    Destination to;
    if (!dims.empty()) {
      to.buffer = allocate(rank::BufferType::get(op.getContext(), shape, type.getElementType(), {}), kActivations,
                           op.getLoc(), getId(op));
    } else if (op.getKind() == ReductionKind::sum) {
      to = accumulationOrDestination(op.getResult(), Layout::Dense);
    } else {
      to = destinationOf(op.getResult(), Layout::Dense);
    }
    call(op, "reduce", to.buffer, current,
         {named("outer", builder.getI64IntegerAttr(outer)), named("reduced", builder.getI64IntegerAttr(reduced)),
          named("inner", builder.getI64IntegerAttr(inner)),
          named("kind", builder.getStringAttr(op.getKind() == ReductionKind::sum ? "sum" : "max"))},
         to.mode);
    final = current = to.buffer;
  }
  if (isMinimum)
    launchUnary(op, "neg", final, final);
  buffers[op.getResult()] = final;
  return success();
}

//===----------------------------------------------------------------------===//
// Clusters
//===----------------------------------------------------------------------===//

/// Joins dimension d + 1 into d wherever every operand steps through both as through one.
static void collapse(SmallVectorImpl<int64_t> &space, MutableArrayRef<SmallVector<int64_t>> strides) {
  auto eraseDim = [&](size_t d) {
    space.erase(space.begin() + d);
    for (SmallVector<int64_t> &list : strides)
      list.erase(list.begin() + d);
  };
  for (size_t d = space.size(); d-- > 0;)
    if (space[d] == 1)
      eraseDim(d);
  for (size_t d = 0; d + 1 < space.size();) {
    bool contiguous =
        llvm::all_of(strides, [&](ArrayRef<int64_t> list) { return list[d] == list[d + 1] * space[d + 1]; });
    if (!contiguous) {
      ++d;
      continue;
    }
    space[d + 1] *= space[d];
    eraseDim(d);
  }
}

/// What a kernel is called: its functions, in order, but no more than a line can hold.
static std::string kernelName(Region &body) {
  std::string name;
  for (auto compute : body.getOps<rank::ScalarComputeOp>()) {
    if (name.size() > 32)
      return name + "_etc";
    name += (name.empty() ? "" : "_") + compute.getFunction().str();
  }
  return name.empty() ? "copy" : name;
}

void FunctionLowering::launchUnary(Operation *op, StringRef function, Value to, Value from) {
  auto type = cast<rank::BufferType>(from.getType());
  Region body;
  Block &block = body.emplaceBlock();
  OpBuilder inner(op->getContext());
  inner.setInsertionPointToStart(&block);
  Value element = block.addArgument(type.getElementType(), op->getLoc());
  rank::YieldOp::create(
      inner, op->getLoc(),
      rank::ScalarComputeOp::create(inner, op->getLoc(), type.getElementType(), function, element).getResult());
  SmallVector<SmallVector<int64_t>> strides(2, SmallVector<int64_t>{1});
  rank::KernelOp kernel = tables.kernels.getOrCreate(function, {type.getNumElements()}, strides, type.getElementType(),
                                                     body, op->getLoc());
  auto launch =
      rank::LaunchOp::create(builder, op->getLoc(), kernel.getSymName(), ValueRange(to), ValueRange(from));
  if (StringRef id = getId(op); !id.empty())
    launch->setAttr("id", builder.getStringAttr(id));
}

LogicalResult FunctionLowering::lowerCluster(rank::ClusterOp op) {
  SmallVector<int64_t> space(shapeOf(op.getResult()));
  SmallVector<Value> inputs;
  SmallVector<SmallVector<int64_t>> strides;
  for (auto [tensor, dims] : llvm::zip_equal(op.getInputs(), op.getDims().getAsRange<DenseI64ArrayAttr>())) {
    inputs.push_back(bufferOf(tensor));
    SmallVector<int64_t> own = typeOf(tensor).getStridesOrDense(), &list = strides.emplace_back(space.size(), 0);
    for (auto [i, dim] : llvm::enumerate(dims.asArrayRef()))
      list[dim] = own[i];
  }
  Value result = destinationOf(op.getResult(), Layout::Strided).buffer;
  strides.push_back(cast<rank::BufferType>(result.getType()).getStridesOrDense());

  Region body;
  IRMapping mapping;
  op.getBody().cloneInto(&body, mapping);
  if (body.getOps<rank::IndexOp>().empty())
    collapse(space, strides);
  Type element = cast<RankedTensorType>(op.getResult().getType()).getElementType();
  rank::KernelOp kernel = tables.kernels.getOrCreate(kernelName(body), space, strides, element, body, op.getLoc());
  auto launch = rank::LaunchOp::create(builder, op.getLoc(), kernel.getSymName(), ValueRange(result), inputs);
  if (StringRef id = getId(op); !id.empty())
    launch->setAttr("id", builder.getStringAttr(id));
  buffers[op.getResult()] = result;
  return success();
}
