// Copies of states, and moves of them.
#include "Mesh/StateMoves.h"
#include "Mesh/StateShards.h"
#include "hyc/Analysis/Workspaces.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

FailureOr<HeldState> hyc::interpreter::findHeldState(OpCall &call, StringRef symbol) {
  Device &device = call.device;
  if (auto copy = device.copies.find(symbol); copy != device.copies.end())
    return HeldState{&copy->second.value, copy->second.isShard};
  auto entry = device.states.find(symbol);
  if (entry == device.states.end())
    return call.op->emitError("@") << symbol << " is not held by the rank that executes this", failure();
  if (device.evicted.contains(symbol))
    return call.op->emitError("@") << symbol << " is on its way to where it is kept; expected a dist.wait_move before",
           failure();
  return HeldState{&entry->second, false};
}

StringRef hyc::interpreter::placeOfHeldState(const Device &device, StringRef symbol) {
  if (auto copy = device.copies.find(symbol); copy != device.copies.end())
    return copy->second.place;
  auto home = device.homes.find(symbol);
  return home == device.homes.end() ? StringRef(dist::kOnDevice) : StringRef(home->second);
}

LogicalResult hyc::interpreter::checkPlaces(OpCall &call, ArrayRef<StringRef> symbols, StringRef place) {
  auto module = call.op->getParentOfType<ModuleOp>();
  bool reachesBoth = place.empty() && module && module->hasAttr(kTargetAttribute);
  for (StringRef symbol : symbols) {
    StringRef found = placeOfHeldState(call.device, symbol);
    if (place.empty() || reachesBoth)
      place = found;
    if (found == dist::kOnDisk)
      return call.op->emitError("works on @") << symbol << ", which is on a disk; expected a fetch before";
    if (found != place)
      return call.op->emitError("works on @") << symbol << ", which is on the " << found << ", expected the " << place;
  }
  return success();
}

static LogicalResult startFetch(dist::FetchStartOp op, Device &device) {
  if (!device.states.contains(op.getState()))
    return op.emitError("@") << op.getState() << " is not held by the rank that executes this";
  if (device.evicted.contains(op.getState()) || !device.fetched.insert(op.getState()).second)
    return op.emitError("@") << op.getState() << " is on its way already";
  return success();
}

static LogicalResult startEvict(dist::EvictStartOp op, Device &device) {
  auto copy = device.copies.find(op.getState());
  if (copy == device.copies.end() || copy->second.place != op.getFrom())
    return op.emitError("there is no copy of @") << op.getState() << " on the " << op.getFrom();
  if (device.fetched.contains(op.getState()))
    return op.emitError("@") << op.getState() << " is on its way already";
  if (copy->second.isShard != op.getFlat().has_value())
    return op.emitError("the copy of @") << op.getState() << (op.getFlat() ? " is of all of it" : " is of one shard");
  device.evicted[op.getState()] = copy->second;
  device.copies.erase(copy);
  return success();
}

static LogicalResult finishFetch(dist::FetchStartOp op, Operation *wait, Device &device) {
  if (!device.fetched.contains(op.getState()))
    return wait->emitError("@") << op.getState() << " was waited for already";
  Tensor &home = device.states.find(op.getState())->second;
  StateCopy copy{home, op.getTo().str(), op.getFlat().has_value()};
  if (std::optional<dist::AxisListAttr> flat = op.getFlat()) {
    FailureOr<StateShard> shard = StateShard::slice(wait, device, home, *flat);
    if (failed(shard))
      return failure();
    copy.value = shard->load();
  }
  device.fetched.erase(op.getState());
  device.copies[op.getState()] = std::move(copy);
  return success();
}

static LogicalResult finishEvict(dist::EvictStartOp op, Operation *wait, Device &device) {
  auto entry = device.evicted.find(op.getState());
  if (entry == device.evicted.end())
    return wait->emitError("@") << op.getState() << " was waited for already";
  Tensor &home = device.states.find(op.getState())->second;
  if (std::optional<dist::AxisListAttr> flat = op.getFlat()) {
    FailureOr<StateShard> shard = StateShard::slice(wait, device, home, *flat);
    if (failed(shard))
      return failure();
    shard->store(entry->second.value);
  } else {
    home = entry->second.value;
  }
  device.evicted.erase(entry);
  return success();
}

LogicalResult hyc::interpreter::executeMove(Operation *op, Device &device) {
  if (auto fetch = dyn_cast<dist::FetchStartOp>(op))
    return startFetch(fetch, device);
  if (auto evict = dyn_cast<dist::EvictStartOp>(op))
    return startEvict(evict, device);
  Operation *start = cast<dist::WaitMoveOp>(op).getPending().getDefiningOp();
  if (auto fetch = dyn_cast<dist::FetchStartOp>(start))
    return finishFetch(fetch, op, device);
  return finishEvict(cast<dist::EvictStartOp>(start), op, device);
}

LogicalResult hyc::interpreter::endMoves(Operation *function, Device &device) {
  device.copies.clear();
  if (!device.fetched.empty())
    return function->emitError("ends before it has waited for the fetch of @") << device.fetched.begin()->first();
  if (!device.evicted.empty())
    return function->emitError("ends before it has waited for the eviction of @") << device.evicted.begin()->first();
  return success();
}
