// Slices of whole states.
#include "Mesh/StateShards.h"
#include "Mesh/StateMoves.h"

#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

std::optional<AxisPosition> hyc::interpreter::linearPosition(Operation *op, const Device &device,
                                                             dist::AxisListAttr axes) {
  AxisPosition position;
  for (StringAttr axis : axes.getAxes()) {
    auto entry = device.axes.find(axis.getValue());
    if (entry == device.axes.end())
      return op->emitError("asks for a coordinate along axis \"") << axis.getValue() << "\", which no mesh here has",
             std::nullopt;
    position.coordinate = position.coordinate * entry->second.size + entry->second.coordinate;
    position.size *= entry->second.size;
  }
  return position;
}

Tensor hyc::interpreter::flatWindow(const Tensor &whole, int64_t begin, int64_t size) {
  return whole.reshaped({whole.getNumElements()}).window(0, std::min(begin, whole.getNumElements()), size);
}

FailureOr<StateShard> StateShard::slice(Operation *op, const Device &device, Tensor &whole, dist::AxisListAttr axes) {
  std::optional<AxisPosition> position = linearPosition(op, device, axes);
  if (!position)
    return failure();
  StateShard shard;
  shard.state = &whole;
  shard.size = dist::flatShardSize(whole.getNumElements(), position->size);
  shard.begin = position->coordinate * shard.size;
  return shard;
}

FailureOr<StateShard> StateShard::find(OpCall &call, StringRef symbol) {
  FailureOr<HeldState> held = findHeldState(call, symbol);
  if (failed(held))
    return failure();
  auto axes = call.op->getAttrOfType<dist::AxisListAttr>(dist::kFlat);
  Operation *declared = SymbolTable::lookupNearestSymbolFrom(call.op, StringAttr::get(call.op->getContext(), symbol));
  auto sharding = declared ? declared->getAttrOfType<dist::ShardingAttr>(dist::kSharding) : dist::ShardingAttr();
  if (axes && !held->isShard && (!sharding || sharding.getFlat().empty()))
    return slice(call.op, call.device, *held->value, axes);
  StateShard shard;
  shard.state = held->value;
  return shard;
}

Tensor StateShard::load() const { return begin ? flatWindow(*state, *begin, size) : *state; }

void StateShard::store(const Tensor &value) const {
  if (!begin) {
    *state = value;
    return;
  }
  int64_t elements = state->getNumElements(), first = std::min(*begin, elements);
  Tensor flat = state->reshaped({elements});
  SmallVector<int64_t> shape(state->getShape());
  int64_t count = std::min(size, elements - first);
  if (count > 0)
    flat.insert(value.window(0, 0, count), {first}, {1});
  *state = flat.reshaped(shape);
}
