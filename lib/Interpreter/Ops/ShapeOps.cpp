// Ops that rearrange, combine or contract elements. Sums are accumulated in f64 and rounded once.
#include "Ops/OpTable.h"
#include "Values/Contraction.h"
#include "Values/StridedCopy.h"
#include "dialects/Hyc/HycDialect.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

//===----------------------------------------------------------------------===//
// Rearranging
//===----------------------------------------------------------------------===//

static LogicalResult evaluateReshape(OpCall &call) {
  call.results.push_back(call.operands[0].reshaped(call.resultShape()));
  return success();
}

static LogicalResult evaluateTranspose(OpCall &call) {
  call.results.push_back(call.operands[0].transposed(cast<TransposeOp>(call.op).getPermutation()));
  return success();
}

static LogicalResult evaluateBroadcast(OpCall &call) {
  Tensor result = call.makeResult();
  const Tensor &operand = call.operands[0];
  SmallVector<int64_t> from = rowMajorStrides(operand.getShape()), sourceStrides(result.getTensorRank(), 0);
  for (auto [index, dim] : llvm::enumerate(cast<BroadcastOp>(call.op).getDims()))
    sourceStrides[dim] = from[index];
  if (result.getNumElements() > 0)
    dispatchStorage(result.getKind(), [&](auto zero) {
      using T = decltype(zero);
      copyStrided<T>(result.getShape(), operand.data<T>(), sourceStrides, result.mutableData<T>(),
                     rowMajorStrides(result.getShape()));
    });
  call.results.push_back(result);
  return success();
}

static LogicalResult evaluateSlice(OpCall &call) {
  auto slice = cast<SliceOp>(call.op);
  call.results.push_back(call.operands[0].sliced(slice.getOffsets(), slice.getStrides(), call.resultShape()));
  return success();
}

static LogicalResult evaluatePad(OpCall &call) {
  auto pad = cast<PadOp>(call.op);
  Tensor result = call.makeResult();
  result.insert(call.operands[0], pad.getOffsets(), pad.getStrides());
  call.results.push_back(result);
  return success();
}

static LogicalResult evaluateSplit(OpCall &call) {
  int64_t dim = static_cast<int64_t>(cast<SplitOp>(call.op).getDim()), offset = 0;
  for (unsigned index = 0; index < call.op->getNumResults(); ++index) {
    int64_t size = call.resultShape(index)[dim];
    call.results.push_back(call.operands[0].window(dim, offset, size));
    offset += size;
  }
  return success();
}

static LogicalResult evaluateConcat(OpCall &call) {
  int64_t dim = static_cast<int64_t>(cast<ConcatOp>(call.op).getDim());
  Tensor result = call.makeResult();
  SmallVector<int64_t> offsets(result.getTensorRank(), 0), ones(result.getTensorRank(), 1);
  for (const Tensor &part : call.operands) {
    result.insert(part, offsets, ones);
    offsets[dim] += part.getDim(dim);
  }
  call.results.push_back(result);
  return success();
}

//===----------------------------------------------------------------------===//
// Combining
//===----------------------------------------------------------------------===//

template <typename T> static T combineRow(ReductionKind reduction, const T *row, int64_t count) {
  if (reduction == ReductionKind::sum) {
    using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
    Sum sum = 0;
    for (int64_t i = 0; i < count; ++i)
      sum += static_cast<Sum>(row[i]);
    return static_cast<T>(sum);
  }
  if (reduction == ReductionKind::prod) {
    using Product = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
    Product product = 1;
    for (int64_t i = 0; i < count; ++i)
      product *= static_cast<Product>(row[i]);
    return static_cast<T>(product);
  }
  using Limits = std::numeric_limits<T>;
  const bool isMax = reduction == ReductionKind::max;
  T best = Limits::has_infinity ? (isMax ? -Limits::infinity() : Limits::infinity())
                                : (isMax ? Limits::min() : Limits::max());
  for (int64_t i = 0; i < count; ++i)
    if ((isMax ? row[i] > best : row[i] < best) || row[i] != row[i]) {
      best = row[i];
      if (best != best)
        break;
    }
  return best;
}

static LogicalResult evaluateReduce(OpCall &call) {
  auto reduce = cast<ReduceOp>(call.op);
  const Tensor &operand = call.operands[0];
  SmallVector<int64_t> permutation;
  for (int64_t dim = 0; dim < operand.getTensorRank(); ++dim)
    if (!llvm::is_contained(reduce.getDims(), dim))
      permutation.push_back(dim);
  llvm::append_range(permutation, reduce.getDims());
  Tensor rows = operand.transposed(permutation), result = call.makeResult();
  int64_t count = result.getNumElements() ? rows.getNumElements() / result.getNumElements() : 0;
  ElementKind kind = result.getKind();
  dispatchStorage(kind, [&](auto zero) {
    using T = decltype(zero);
    T *out = result.mutableData<T>();
    for (int64_t i = 0; i < result.getNumElements(); ++i) {
      out[i] = combineRow(reduce.getKind(), rows.data<T>() + i * count, count);
      if constexpr (std::is_integral_v<T>)
        out[i] = wrapInteger(kind, out[i]);
    }
  });
  call.results.push_back(result);
  return success();
}

static LogicalResult evaluateEinsum(OpCall &call) {
  EinsumOp::Letters letters = cast<EinsumOp>(call.op).getLetters();
  ElementKind kind = call.operands[0].getKind(), resultKind = call.resultKind();
  ElementKind other = call.operands[1].getKind();
  if ((kind != other && !areStoredAlike(kind, other)) || (kind != resultKind && !areStoredAlike(kind, resultKind)))
    return call.op->emitError("the interpreter contracts one element type, not ")
           << call.op->getOperandTypes() << " into " << call.op->getResultTypes();
  Tensor result = contract(letters.lhs, call.operands[0], letters.rhs, call.operands[1], letters.result, resultKind);
  call.results.push_back(result);
  return success();
}

static LogicalResult evaluateSoftmax(OpCall &call) {
  if (!isFloat(call.resultKind()) || call.resultShape().empty())
    return call.op->emitError("the interpreter knows no softmax of ") << call.op->getResult(0).getType();
  Tensor result = call.makeResult();
  const int64_t columns = call.resultShape().back();
  dispatchFloat(call.resultKind(), [&](auto zero) {
    using T = decltype(zero);
    const T *in = call.operands[0].data<T>();
    T *out = result.mutableData<T>();
    for (int64_t start = 0; start < result.getNumElements(); start += columns) {
      const T max = combineRow(ReductionKind::max, in + start, columns);
      double sum = 0;
      for (int64_t i = start; i < start + columns; ++i)
        sum += out[i] = std::exp(in[i] - max);
      for (int64_t i = start; i < start + columns; ++i)
        out[i] = static_cast<T>(out[i] / static_cast<T>(sum));
    }
  });
  call.results.push_back(result);
  return success();
}

void hyc::interpreter::addShapeOps(OpTable &table) {
  table.add<ReshapeOp>(evaluateReshape);
  table.add<TransposeOp>(evaluateTranspose);
  table.add<BroadcastOp>(evaluateBroadcast);
  table.add<SliceOp>(evaluateSlice);
  table.add<PadOp>(evaluatePad);
  table.add<SplitOp>(evaluateSplit);
  table.add<ConcatOp>(evaluateConcat);
  table.add<ReduceOp>(evaluateReduce);
  table.add<EinsumOp>(evaluateEinsum);
  table.add<SoftmaxOp>(evaluateSoftmax);
}
