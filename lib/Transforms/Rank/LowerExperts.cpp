// Products of rows with their experts' matrices: one library kernel each, whose scratch memory is planned by its
// description.
#include "FunctionLowering.h"

using namespace mlir;
using namespace hyc;

/// An expert beyond the matrices has none, on purpose: numbers need no bound.
template <typename OpT> static SmallVector<NamedAttribute> attributesOf(OpT op) {
  SmallVector<NamedAttribute> attributes;
  if (op.getTransposed())
    attributes.emplace_back(op.getTransposedAttrName(), op.getTransposedAttr());
  return attributes;
}

template <> LogicalResult FunctionLowering::lower(ExpertMatmulOp op) {
  Value result = destinationOf(op.getResult(), Layout::Dense).buffer;
  SmallVector<Value> ins{denseBufferOf(op.getX()), denseBufferOf(op.getW()), denseBufferOf(op.getExperts())};
  if (op.getOffset())
    ins.push_back(bufferOf(op.getOffset()));
  call(op, "expert_matmul", result, ins, attributesOf(op));
  buffers[op.getResult()] = result;
  return success();
}

template <> LogicalResult FunctionLowering::lower(ExpertMatmulGradOp op) {
  SmallVector<Value> ins{denseBufferOf(op.getX()), denseBufferOf(op.getCotangent()), denseBufferOf(op.getExperts())};
  if (op.getOffset())
    ins.push_back(bufferOf(op.getOffset()));
  Destination to = accumulationOrDestination(op.getResult(), Layout::Dense);
  call(op, "expert_matmul_grad", to.buffer, ins, attributesOf(op), to.mode);
  buffers[op.getResult()] = to.buffer;
  return success();
}

void hyc::addExpertLowerings(LoweringTable &table) { table.add<ExpertMatmulOp, ExpertMatmulGradOp>(); }
