// Ops that move elements (views where strides can say it), and clusters.
#include "FunctionLowering.h"

#include "dialects/Rank/KernelStructure.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace hyc;

static ArrayRef<int64_t> shapeOf(Value tensor) { return cast<RankedTensorType>(tensor.getType()).getShape(); }

template <> LogicalResult FunctionLowering::lower(ReshapeOp op) {
  Value buffer = reshapeView(bufferOf(op.getOperand()), shapeOf(op.getResult()));
  if (!buffer)
    buffer = reshapeView(denseBufferOf(op.getOperand()), shapeOf(op.getResult()));
  buffers[op.getResult()] = buffer;
  return success();
}

template <> LogicalResult FunctionLowering::lower(TransposeOp op) {
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

template <> LogicalResult FunctionLowering::lower(SliceOp op) {
  rank::BufferType type = typeOf(op.getOperand());
  auto [offset, strides] = sliceStrides(type, op.getOffsets(), op.getStrides());
  buffers[op.getResult()] = view(bufferOf(op.getOperand()), offset, type.withLayout(shapeOf(op.getResult()), strides));
  return success();
}

template <> LogicalResult FunctionLowering::lower(PadOp op) {
  Value whole = destinationOf(op.getResult(), Layout::Dense).buffer;
  auto type = cast<rank::BufferType>(whole.getType());
  call(op, "fill", whole, {}, named("value", builder.getF64FloatAttr(0)));
  auto [offset, strides] = sliceStrides(type, op.getOffsets(), op.getStrides());
  copy(view(whole, offset, type.withLayout(shapeOf(op.getOperand()), strides)), bufferOf(op.getOperand()), getId(op));
  buffers[op.getResult()] = whole;
  return success();
}

template <> LogicalResult FunctionLowering::lower(SplitOp op) {
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
  if (Value known = concats.lookup(op))
    return known;
  // May come here for a concat that this one is a part of, which moves what a reference would refer to.
  Value whole = destinationOf(op.getResult(), Layout::Dense).buffer;
  return concats[op] = whole;
}

template <> LogicalResult FunctionLowering::lower(ConcatOp op) {
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

template <> LogicalResult FunctionLowering::lower(ConstantOp op) {
  if (isOnlyWritten(op))
    return success();
  Value buffer = destinationOf(op.getResult(), Layout::Dense).buffer;
  if (auto splat = dyn_cast<SplatElementsAttr>(op.getValue()))
    call(op, "fill", buffer, {}, named("value", splat.getSplatValue<Attribute>()));
  else
    call(op, "constant", buffer, {}, named("values", op.getValue()));
  buffers[op.getResult()] = buffer;
  return success();
}

/// Reductions of what kernels combine are clusters by now.
template <> LogicalResult FunctionLowering::lower(ReduceOp op) {
  return op.emitOpError("has no kernel on this target: ")
         << stringifyReductionKind(op.getKind()) << " of " << op.getOperand().getType()
         << ", expected numbers, and hyc-form-clusters to have run before";
}

//===----------------------------------------------------------------------===//
// Clusters
//===----------------------------------------------------------------------===//

namespace {
/// The loop nest of a kernel: sizes, which dimensions are reduced, and the strides of each operand.
struct Nest {
  SmallVector<int64_t> space;
  SmallVector<bool> isReduced;
  SmallVector<SmallVector<int64_t>> strides;

  void eraseDim(size_t d) {
    space.erase(space.begin() + d);
    isReduced.erase(isReduced.begin() + d);
    for (SmallVector<int64_t> &list : strides)
      list.erase(list.begin() + d);
  }
  SmallVector<int64_t> reduced() const {
    SmallVector<int64_t> dims;
    for (auto [dim, is] : llvm::enumerate(isReduced))
      if (is)
        dims.push_back(dim);
    return dims;
  }
  void collapse();
};
} // namespace

/// Joins dimension d + 1 into d wherever every operand steps through both as through one. One reduced dimension stays.
/// What a row is of and what its steps are is not mixed: lanes go by the place in a row, and in which order something
/// is summed must not depend on what else the cluster reads.
void Nest::collapse() {
  for (size_t d = space.size(); d-- > 0;)
    if (space[d] == 1 && (!isReduced[d] || llvm::count(isReduced, true) > 1))
      eraseDim(d);
  SmallVector<bool> isInRow(space.size(), false);
  if (SmallVector<int64_t> dims = reduced(); !dims.empty())
    if (rank::ReductionLoops loops = rank::reductionLoops(space, dims); loops.isRows)
      for (unsigned dim : loops.inner)
        isInRow[dim] = true;
  for (size_t d = 0; d + 1 < space.size();) {
    bool joins = isReduced[d] == isReduced[d + 1] && isInRow[d] == isInRow[d + 1];
    bool contiguous =
        joins && llvm::all_of(strides, [&](ArrayRef<int64_t> list) { return list[d] == list[d + 1] * space[d + 1]; });
    if (!contiguous) {
      ++d;
      continue;
    }
    space[d + 1] *= space[d];
    isInRow.erase(isInRow.begin() + d);
    eraseDim(d);
  }
}

/// What a kernel is called: its functions, in order, but no more than a line can hold.
static std::string kernelName(Region &body) {
  std::string name;
  for (Operation &op : body.front()) {
    auto compute = dyn_cast<rank::ScalarComputeOp>(op);
    auto combine = dyn_cast<rank::CombineOp>(op);
    if (!compute && !combine)
      continue;
    if (name.size() > 32)
      return name + "_etc";
    name += (name.empty() ? "" : "_") +
            (compute ? compute.getFunction() : rank::stringifyCombineKind(combine.getKind())).str();
  }
  return name.empty() ? "copy" : name;
}

/// How the combined results of a cluster can all be added to states, if they can: they share the launch's mode.
std::optional<rank::WriteMode> FunctionLowering::accumulationMode(ArrayRef<Value> results) {
  std::optional<rank::WriteMode> common;
  llvm::StringSet<> targets;
  for (Value result : results) {
    AccumulateOp accumulate = soleAccumulation(result);
    if (!accumulate || !targets.insert(accumulate.getTarget()).second)
      return std::nullopt;
    auto mode = tables.accumulated.contains(accumulate.getTarget()) ? rank::WriteMode::add : rank::WriteMode::first;
    if (common && *common != mode)
      return std::nullopt;
    common = mode;
  }
  return common;
}

template <> LogicalResult FunctionLowering::lower(rank::ClusterOp op) {
  Nest nest;
  nest.space = llvm::to_vector(op.getSpace());
  SmallVector<int64_t> every, kept; // dimensions of the space that a result has
  for (int64_t dim = 0, e = nest.space.size(); dim < e; ++dim) {
    nest.isReduced.push_back(llvm::is_contained(op.getReduced(), dim));
    every.push_back(dim);
    if (!nest.isReduced.back())
      kept.push_back(dim);
  }
  auto addStrides = [&](Value buffer, ArrayRef<int64_t> dims) {
    SmallVector<int64_t> own = cast<rank::BufferType>(buffer.getType()).getStridesOrDense();
    SmallVector<int64_t> &list = nest.strides.emplace_back(nest.space.size(), 0);
    for (auto [dim, stride] : llvm::zip_equal(dims, own))
      list[dim] = stride;
  };
  SmallVector<Value> inputs;
  for (auto [tensor, dims] : llvm::zip_equal(op.getInputs(), op.getDims().getAsRange<DenseI64ArrayAttr>())) {
    inputs.push_back(bufferOf(tensor));
    addStrides(inputs.back(), dims.asArrayRef());
  }

  Block &source = op.getBody().front();
  llvm::DenseSet<Value> combined = rank::combinedValues(source);
  SmallVector<Value> sums, buffersOut;
  for (auto [result, value] : llvm::zip_equal(op.getOuts(), source.getTerminator()->getOperands()))
    if (combined.contains(value))
      sums.push_back(result);
  std::optional<rank::WriteMode> mode = accumulationMode(sums);
  SmallVector<Type> elements;
  for (auto [result, value] : llvm::zip_equal(op.getOuts(), source.getTerminator()->getOperands())) {
    bool isCombined = combined.contains(value);
    std::optional<Destination> to =
        isCombined && mode ? accumulationOf(result) : std::optional(destinationOf(result, Layout::Strided));
    if (!to)
      return op.emitOpError("cannot add a result of ") << result.getType() << " to the state that it belongs to";
    buffersOut.push_back(to->buffer);
    addStrides(to->buffer, isCombined ? kept : every);
    elements.push_back(cast<RankedTensorType>(result.getType()).getElementType());
    buffers[result] = to->buffer;
  }

  Region body;
  IRMapping mapping;
  op.getBody().cloneInto(&body, mapping);
  if (body.getOps<rank::IndexOp>().empty())
    nest.collapse();
  rank::KernelOp kernel = tables.kernels.getOrCreate(kernelName(body), nest.space, nest.reduced(), nest.strides,
                                                     elements, body, op.getLoc());
  auto launch = rank::LaunchOp::create(builder, op.getLoc(), kernel.getSymName(), buffersOut, inputs,
                                       mode.value_or(rank::WriteMode::overwrite));
  copyId(op, launch);
  return success();
}

void hyc::addShapeLowerings(LoweringTable &table) {
  table.add<ReshapeOp, TransposeOp, SliceOp, PadOp, SplitOp, ConcatOp, ConstantOp, ReduceOp, rank::ClusterOp>();
}
