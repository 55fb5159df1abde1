// Dropout: which elements are kept, and what becomes of them.
#include "Ops/OpTable.h"
#include "dialects/Hyc/HycDialect.h"
#include "hyc/Interpreter/Philox.h"

#include <cmath>

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

static LogicalResult evaluateDropoutMask(OpCall &call) {
  auto op = cast<DropoutMaskOp>(call.op);
  const Tensor &keys = call.operands[0];
  int64_t first = 0, threshold = static_cast<int64_t>(std::floor(op.getRate().convertToDouble() * 0x1p32));
  for (const Tensor &offset : call.operands.drop_front())
    first += offset.getInteger();
  SmallVector<int64_t> strides = op.getSampleStrides();
  Tensor mask = call.makeResult();
  SmallVector<int64_t> local = rowMajorStrides(mask.getShape());
  for (int64_t i = 0, e = mask.getNumElements(); i < e; ++i) {
    int64_t number = first;
    for (auto [dim, stride] : llvm::enumerate(strides))
      number += i / local[dim + 1] % mask.getDim(static_cast<int64_t>(dim) + 1) * stride;
    int64_t key = keys.getInteger(i / local[0] * keys.getDim(1) + static_cast<int64_t>(op.getColumn()));
    mask.mutableData<int64_t>()[i] = randomWord(key, number) >= threshold;
  }
  call.results.push_back(mask);
  return success();
}

static LogicalResult evaluateDropout(OpCall &call) {
  auto op = cast<DropoutOp>(call.op);
  if (!op.getMask())
    return op.emitError("the interpreter drops by masks; run hyc-key-random-ops first");
  const int64_t *mask = call.operands[1].data<int64_t>();
  Tensor result = call.makeResult();
  dispatchFloat(result.getKind(), [&](auto zero) {
    using T = decltype(zero);
    T scale = static_cast<float>(1 / (1 - op.getRate().convertToDouble())); // one number in all arithmetics
    const T *x = call.operands[0].data<T>();
    T *y = result.mutableData<T>();
    for (int64_t i = 0, e = result.getNumElements(); i < e; ++i)
      y[i] = mask[i] ? x[i] * scale : T(0);
  });
  call.results.push_back(result);
  return success();
}

void hyc::interpreter::addRandomOps(OpTable &table) {
  table.add<DropoutMaskOp>(evaluateDropoutMask);
  table.add<DropoutOp>(evaluateDropout);
}
