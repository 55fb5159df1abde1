// Ops that read and write states by name, and what a rank may ask of its own coordinates.
#include "Mesh/StateMoves.h"
#include "Mesh/StateShards.h"
#include "dialects/Hyc/HycDialect.h"
#include <cmath>

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

/// The rank's value of `symbol`, which has to be on the device.
static FailureOr<StateShard> findOnDevice(OpCall &call, StringRef symbol) {
  if (failed(checkPlaces(call, symbol, dist::kOnDevice)))
    return failure();
  return StateShard::find(call, symbol);
}

static LogicalResult evaluateRead(OpCall &call) {
  FailureOr<StateShard> state = findOnDevice(call, cast<ReadOp>(call.op).getSource());
  if (failed(state))
    return failure();
  call.results.push_back(state->load());
  return success();
}

static LogicalResult evaluateWrite(OpCall &call) {
  FailureOr<StateShard> state = findOnDevice(call, cast<WriteOp>(call.op).getTarget());
  if (failed(state))
    return failure();
  state->store(call.operands[0]);
  return success();
}

static LogicalResult evaluateAccumulate(OpCall &call) {
  StringRef symbol = cast<AccumulateOp>(call.op).getTarget();
  FailureOr<StateShard> state = findOnDevice(call, symbol);
  if (failed(state))
    return failure();
  if (call.device.accumulated.insert(symbol).second) {
    state->store(call.operands[0]);
    return success();
  }
  Tensor total = state->load();
  ElementKind kind = total.getKind();
  if (cast<AccumulateOp>(call.op).getMax()) {
    for (int64_t i = 0, e = total.getNumElements(); i < e; ++i)
      if (double value = call.operands[0].getDouble(i), now = total.getDouble(i); !(value <= now) && !std::isnan(now))
        total.set(i, value);
    state->store(total);
    return success();
  }
  dispatchStorage(kind, [&](auto zero) {
    using T = decltype(zero);
    const T *value = call.operands[0].data<T>();
    T *sum = total.mutableData<T>();
    for (int64_t i = 0, e = total.getNumElements(); i < e; ++i) {
      if constexpr (std::is_integral_v<T>)
        sum[i] = wrapInteger(kind, static_cast<T>(static_cast<uint64_t>(sum[i]) + static_cast<uint64_t>(value[i])));
      else
        sum[i] += value[i];
    }
  });
  total.roundElements();
  state->store(total);
  return success();
}

static LogicalResult evaluateIncrement(OpCall &call) {
  FailureOr<StateShard> state = findOnDevice(call, cast<IncrementOp>(call.op).getState());
  if (failed(state))
    return failure();
  bool counts = call.operands.empty() || call.operands[0].getInteger() != 0;
  Tensor counter = state->load();
  if (isFloat(counter.getKind()))
    return call.op->emitError("counts in ") << counter.describeType() << ", expected an integer state";
  int64_t *data = counter.mutableData<int64_t>();
  for (int64_t i = 0, e = counter.getNumElements(); i < e; ++i)
    data[i] = wrapInteger(counter.getKind(), static_cast<int64_t>(static_cast<uint64_t>(data[i]) + counts));
  state->store(counter);
  call.results.push_back(counter);
  return success();
}

void hyc::interpreter::addStateOps(OpTable &table) {
  table.add<ReadOp>(evaluateRead);
  table.add<WriteOp>(evaluateWrite);
  table.add<AccumulateOp>(evaluateAccumulate);
  table.add<IncrementOp>(evaluateIncrement);
}

//===----------------------------------------------------------------------===//
// Coordinates
//===----------------------------------------------------------------------===//

static LogicalResult evaluateShardOffset(OpCall &call) {
  auto op = cast<dist::ShardOffsetOp>(call.op);
  std::optional<AxisPosition> position = linearPosition(call, op.getAxes());
  if (!position)
    return failure();
  if (!call.resultShape().empty() || isFloat(call.resultKind()))
    return op.emitError("gives ") << op.getResult().getType() << ", expected an integer scalar";
  call.results.push_back(
      Tensor::integer(call.resultKind(), position->coordinate * static_cast<int64_t>(op.getShardSize())));
  return success();
}

static LogicalResult evaluateDistSlice(OpCall &call) {
  auto op = cast<dist::SliceOp>(call.op);
  std::optional<AxisPosition> position = linearPosition(call, op.getAxes());
  if (!position)
    return failure();
  if (!op.getDim()) {
    int64_t size = call.resultShape()[0];
    call.results.push_back(flatWindow(call.operands[0], position->coordinate * size, size));
    return success();
  }
  int64_t dim = static_cast<int64_t>(*op.getDim()), size = call.resultShape()[dim];
  call.results.push_back(call.operands[0].window(dim, position->coordinate * size, size));
  return success();
}

void hyc::interpreter::addCoordinateOps(OpTable &table) {
  table.add<dist::ShardOffsetOp>(evaluateShardOffset);
  table.add<dist::SliceOp>(evaluateDistSlice);
}
