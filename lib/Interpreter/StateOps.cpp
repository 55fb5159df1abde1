// Ops that read and write states by name, and what a rank may ask of its own coordinates.
#include "OpTable.h"
#include "dialects/Dist/DistDialect.h"
#include "dialects/Hyc/HycDialect.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

/// The rank's value of `symbol`, or null after a diagnostic.
static Tensor *findState(OpCall &call, StringRef symbol) {
  auto entry = call.device.states.find(symbol);
  if (entry != call.device.states.end())
    return &entry->second;
  call.op->emitError("@") << symbol << " is not held by the rank that executes this";
  return nullptr;
}

static LogicalResult evaluateRead(OpCall &call) {
  Tensor *state = findState(call, cast<ReadOp>(call.op).getSource());
  if (!state)
    return failure();
  call.results.push_back(*state);
  return success();
}

static LogicalResult evaluateWrite(OpCall &call) {
  Tensor *state = findState(call, cast<WriteOp>(call.op).getTarget());
  if (!state)
    return failure();
  *state = call.operands[0];
  return success();
}

static LogicalResult evaluateAccumulate(OpCall &call) {
  StringRef symbol = cast<AccumulateOp>(call.op).getTarget();
  Tensor *state = findState(call, symbol);
  if (!state)
    return failure();
  if (call.device.accumulated.insert(symbol).second) {
    *state = call.operands[0];
    return success();
  }
  ElementKind kind = state->getKind();
  dispatchStorage(kind, [&](auto zero) {
    using T = decltype(zero);
    const T *value = call.operands[0].data<T>();
    T *sum = state->mutableData<T>();
    for (int64_t i = 0, e = state->getNumElements(); i < e; ++i) {
      if constexpr (std::is_integral_v<T>)
        sum[i] = wrapInteger(kind, static_cast<T>(static_cast<uint64_t>(sum[i]) + static_cast<uint64_t>(value[i])));
      else
        sum[i] += value[i];
    }
  });
  return success();
}

static LogicalResult evaluateIncrement(OpCall &call) {
  Tensor *state = findState(call, cast<IncrementOp>(call.op).getState());
  if (!state)
    return failure();
  if (isFloat(state->getKind()))
    return call.op->emitError("counts in ") << state->describeType() << ", expected an integer state";
  int64_t *data = state->mutableData<int64_t>();
  for (int64_t i = 0, e = state->getNumElements(); i < e; ++i)
    data[i] = wrapInteger(state->getKind(), static_cast<int64_t>(static_cast<uint64_t>(data[i]) + 1));
  call.results.push_back(*state);
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

/// This rank's linear coordinate along `axes`, major to minor; nothing, after a diagnostic, where there is no mesh.
static std::optional<int64_t> linearCoordinate(OpCall &call, dist::AxisListAttr axes) {
  int64_t coordinate = 0;
  for (StringAttr axis : axes.getAxes()) {
    auto entry = call.device.axes.find(axis.getValue());
    if (entry == call.device.axes.end())
      return call.op->emitError("asks for a coordinate along axis \"")
                 << axis.getValue() << "\", which no mesh here has",
             std::nullopt;
    coordinate = coordinate * entry->second.size + entry->second.coordinate;
  }
  return coordinate;
}

static LogicalResult evaluateShardOffset(OpCall &call) {
  auto op = cast<dist::ShardOffsetOp>(call.op);
  std::optional<int64_t> coordinate = linearCoordinate(call, op.getAxes());
  if (!coordinate)
    return failure();
  if (!call.resultShape().empty() || isFloat(call.resultKind()))
    return op.emitError("gives ") << op.getResult().getType() << ", expected an integer scalar";
  call.results.push_back(Tensor::integer(call.resultKind(), *coordinate * static_cast<int64_t>(op.getShardSize())));
  return success();
}

static LogicalResult evaluateDistSlice(OpCall &call) {
  auto op = cast<dist::SliceOp>(call.op);
  std::optional<int64_t> coordinate = linearCoordinate(call, op.getAxes());
  if (!coordinate)
    return failure();
  int64_t dim = static_cast<int64_t>(op.getDim()), size = call.resultShape()[dim];
  call.results.push_back(call.operands[0].window(dim, *coordinate * size, size));
  return success();
}

void hyc::interpreter::addCoordinateOps(OpTable &table) {
  table.add<dist::ShardOffsetOp>(evaluateShardOffset);
  table.add<dist::SliceOp>(evaluateDistSlice);
}
