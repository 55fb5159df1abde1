// What is flat of a parameter and its states.
#include "hyc/Analysis/FlatStates.h"

using namespace mlir;
using namespace hyc;
using dist::AxisListAttr;
using dist::ShardingAttr;

AxisListAttr hyc::flatAxesOf(Operation *symbol) {
  auto sharding = symbol->getAttrOfType<ShardingAttr>(dist::kSharding);
  return sharding ? sharding.getFlat() : AxisListAttr::get(symbol->getContext(), {});
}

bool hyc::isReducedPerMicroBatch(Operation *gradient) {
  auto reduction = gradient->getAttrOfType<StringAttr>(dist::kReduction);
  return reduction && reduction == "micro_batch";
}

AxisListAttr ParamStates::updateAxes() const {
  if (!gradient) // nothing updates it
    return AxisListAttr::get(ParamOp(param).getContext(), {});
  if (!optimizer.empty())
    return flatAxesOf(optimizer.front());
  for (Operation *symbol : {StateOp(gradient).getOperation(), ParamOp(param).getOperation()})
    if (AxisListAttr axes = flatAxesOf(symbol); !axes.empty())
      return axes;
  return flatAxesOf(used());
}

Operation *ParamStates::used() const { return copy ? StateOp(copy).getOperation() : ParamOp(param).getOperation(); }

SmallVector<ParamStates> hyc::collectParamStates(ModuleOp module) {
  SmallVector<ParamStates> all;
  llvm::DenseMap<StringAttr, size_t> index;
  for (auto param : module.getOps<ParamOp>()) {
    index[param.getSymNameAttr()] = all.size();
    all.push_back({param, {}, {}, {}});
  }
  for (auto state : module.getOps<StateOp>()) {
    FlatSymbolRefAttr param = state.getParamAttr();
    auto entry = param ? index.find(param.getAttr()) : index.end();
    if (entry == index.end())
      continue;
    ParamStates &states = all[entry->second];
    switch (state.getFacts().role) {
    case StateRole::gradient:
      states.gradient = state;
      break;
    case StateRole::compute:
    case StateRole::codes:
      states.copy = state;
      break;
    default:
      states.optimizer.push_back(state);
    }
  }
  return all;
}

RankedTensorType hyc::heldType(RankedTensorType whole, ShardingAttr sharding, dist::MeshOp mesh) {
  auto local = RankedTensorType::get(dist::localShape(whole.getShape(), sharding, mesh), whole.getElementType());
  if (sharding.getFlat().empty())
    return local;
  int64_t shard = dist::flatShardSize(local.getNumElements(), mesh.getSize(sharding.getFlat()));
  return RankedTensorType::get({shard}, whole.getElementType());
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

static LogicalResult checkAxes(Operation *symbol, AxisListAttr flat, dist::MeshOp mesh) {
  for (StringAttr axis : flat.getAxes())
    if (!llvm::is_contained(mesh.getAxes(), axis))
      return (symbol->emitError("[flat.axes] is flat over axis \"")
              << axis.getValue() << "\", which the mesh does not have; expected some of " << mesh.getAxes())
                 .attachNote(mesh.getLoc())
             << "mesh declared here";
  return success();
}

static LogicalResult checkParam(const ParamStates &states) {
  AxisListAttr axes = states.updateAxes();
  StringRef name = ParamOp(states.param).getSymName();
  for (StateOp state : states.optimizer)
    if (AxisListAttr own = flatAxesOf(state); own != axes)
      return (state.emitError("[flat.states] is flat over ")
              << own << ", but @" << StateOp(states.optimizer.front()).getSymName() << " of the same parameter over "
              << axes << "; one update works on one kind of shard, so make them equal")
                 .attachNote(StateOp(states.optimizer.front()).getLoc())
             << "the other state";
  for (Operation *symbol : {ParamOp(states.param).getOperation(), StateOp(states.gradient).getOperation(),
                            StateOp(states.copy).getOperation()}) {
    AxisListAttr own = symbol ? flatAxesOf(symbol) : axes;
    if (!symbol || own.empty() || own == axes || !states.gradient)
      continue;
    return symbol->emitError("[flat.states] is flat over ")
           << own << ", but the optimizer states of @" << name << " over " << axes << "; expected them to be flat over "
           << own << " too, or this to be whole";
  }
  if (states.gradient && !flatAxesOf(states.gradient).empty() && !isReducedPerMicroBatch(states.gradient))
    return StateOp(states.gradient)
        .emitError("[flat.gradient] is flat, but summed over ranks once a step: until then its sum "
                   "over micro-batches needs the whole tensor; expected reduction micro_batch, or "
                   "the gradient to be whole");
  return success();
}

LogicalResult hyc::checkFlatStates(ModuleOp module, dist::MeshOp mesh) {
  for (Operation &op : module.getBody()->getOperations()) {
    auto state = dyn_cast<StateOp>(op);
    if (!state && !isa<ParamOp>(op))
      continue;
    AxisListAttr flat = flatAxesOf(&op);
    if (failed(checkAxes(&op, flat, mesh)))
      return failure();
    if (state && !state.getParam() && !state.is(StateRole::codeScale) && !flat.empty())
      return op.emitError("[flat.axes] is flat over ")
             << flat << ", but it is a state of the whole run; expected it whole";
  }
  for (const ParamStates &states : collectParamStates(module))
    if (failed(checkParam(states)))
      return failure();
  return success();
}
