// Reads, writes and updates of states: most need no copy, since a state is its address.
#include "FunctionLowering.h"

using namespace mlir;
using namespace hyc;

/// Whether what has been read is used, itself or under another shape, after its state has been written.
bool FunctionLowering::outlivesWrite(ReadOp read) {
  Block *block = read->getBlock();
  SmallVector<Value> shown{read.getResult()};
  SmallVector<Operation *> users;
  while (!shown.empty())
    for (Operation *user : shown.pop_back_val().getUsers()) {
      users.push_back(user);
      if (isa<ReshapeOp>(user))
        shown.push_back(user->getResult(0));
    }
  return llvm::any_of(writes.lookup(read.getSource()), [&](WriteOp write) {
    return read->isBeforeInBlock(write) && llvm::any_of(users, [&](Operation *user) {
             Operation *there = block->findAncestorOpInBlock(*user);
             return there != write && write->isBeforeInBlock(there);
           });
  });
}

LogicalResult FunctionLowering::lowerRead(ReadOp op) {
  Value address = shardOrAddressOf(op, op.getSource());
  if (address && outlivesWrite(op)) {
    Value own = destinationOf(op.getResult(), Layout::Dense).buffer;
    copy(own, address, getId(op));
    address = own;
  }
  buffers[op.getResult()] = address;
  return success(address != nullptr);
}

bool hyc::isOnlyWritten(ConstantOp constant) {
  return isa<SplatElementsAttr>(constant.getValue()) &&
         llvm::all_of(constant->getUsers(), [](Operation *user) { return isa<WriteOp>(user); });
}

LogicalResult FunctionLowering::lowerWrite(WriteOp op) {
  Value target = shardOrAddressOf(op, op.getTarget());
  if (!target)
    return failure();
  if (auto constant = op.getValue().getDefiningOp<ConstantOp>(); constant && isOnlyWritten(constant)) {
    call(op, "fill", target, {},
         named("value", cast<SplatElementsAttr>(constant.getValue()).getSplatValue<Attribute>()));
    return success();
  }
  Value value = bufferOf(op.getValue());
  Value root = rootOf(value).first;
  auto from = root.getDefiningOp<rank::AddressOp>();
  bool isThere = from ? from.getSymbol() == op.getTarget() : root == rootOf(target).first;
  if (!isThere)
    copy(target, value, getId(op));
  return success();
}

LogicalResult FunctionLowering::lowerAccumulate(AccumulateOp op) {
  if (fusedAccumulations.contains(op))
    return success();
  Value target = shardOrAddressOf(op, op.getTarget());
  if (!target)
    return failure();
  rank::WriteMode mode = modeOfAccumulation(op.getTarget());
  auto add = call(op, op.getMax() ? "accumulate_max" : "accumulate", target, denseBufferOf(op.getValue()), {}, mode);
  if (Operation *producer = op.getValue().getDefiningOp(); producer && !add->hasAttr("id"))
    if (StringRef id = getId(producer); !id.empty())
      add->setAttr("id", builder.getStringAttr(id));
  return success();
}

LogicalResult FunctionLowering::lowerSumOfSquares(SumOfSquaresOp op) {
  Value result = destinationOf(op.getResult(), Layout::Dense).buffer, sum = result;
  bool rounds = cast<rank::BufferType>(result.getType()).getShape().empty();
  if (rounds)
    sum = allocate(rank::BufferType::get(op.getContext(), {kExactSumLimbs}, builder.getI64Type(), {}), kFeeds,
                   op.getLoc(), getId(op));
  rank::WriteMode mode = rank::WriteMode::overwrite;
  for (auto name : op.getStates().getAsRange<FlatSymbolRefAttr>()) {
    Value state = shardOrAddressOf(op, name.getValue());
    if (!state)
      return failure();
    call(op, "sum_of_squares", sum, state, {}, mode)->setAttr("id", builder.getStringAttr(name.getValue()));
    mode = rank::WriteMode::add;
  }
  if (op.getStates().empty())
    call(op, "fill", sum, {}, named("value", builder.getI64IntegerAttr(0)));
  if (rounds)
    call(op, "round_sum", result, sum);
  buffers[op.getResult()] = result;
  return success();
}

LogicalResult FunctionLowering::lowerRoundSum(RoundSumOp op) {
  Value result = destinationOf(op.getResult(), Layout::Dense).buffer;
  call(op, "round_sum", result, denseBufferOf(op.getSum()));
  buffers[op.getResult()] = result;
  return success();
}

LogicalResult FunctionLowering::lowerGradientScale(GradientScaleOp op) {
  Value scale = destinationOf(op.getScale(), Layout::Dense).buffer,
        norm = destinationOf(op.getNorm(), Layout::Dense).buffer;
  SmallVector<NamedAttribute> attributes;
  SmallVector<Value> ins{denseBufferOf(op.getSumOfSquares()), denseBufferOf(op.getCount())};
  if (op.getMaxNormAttr())
    attributes.push_back(named("max_norm", op.getMaxNormAttr()));
  if (op.getLossScale()) {
    ins.push_back(denseBufferOf(op.getLossScale()));
    attributes.push_back(named("normalizer", op.getNormalizerAttr()));
  }
  call(op, "gradient_scale", {scale, norm}, ins, attributes);
  buffers[op.getScale()] = scale;
  buffers[op.getNorm()] = norm;
  return success();
}

LogicalResult FunctionLowering::lowerIncrement(IncrementOp op) {
  Value state = addressOf(op, op.getState());
  if (!state)
    return failure();
  SmallVector<Value> ins;
  if (op.getPredicate())
    ins.push_back(denseBufferOf(op.getPredicate()));
  call(op, "increment", state, ins);
  buffers[op.getResult()] = state;
  return success();
}

/// What an update changes and reads: the addresses of its symbols, in the order of getSymbols; empty after a
/// diagnostic.
SmallVector<Value> FunctionLowering::addressesOf(UpdateOpInterface op) {
  SmallVector<Value> addresses;
  for (FlatSymbolRefAttr symbol : op.getSymbols())
    addresses.push_back(shardOrAddressOf(op, symbol.getValue()));
  if (llvm::is_contained(addresses, Value()))
    addresses.clear();
  return addresses;
}

/// A kernel of an update, named in the report after the parameter. What the op takes by value, its predicate as the
/// last, follows `ins`.
void FunctionLowering::callUpdate(UpdateOpInterface op, StringRef kernel, ValueRange outs, ArrayRef<Value> ins,
                                  bool takesMomentum) {
  SmallVector<Value> inputs(ins);
  for (Value scalar : op->getOperands())
    inputs.push_back(denseBufferOf(scalar));
  // What is not the name of a symbol is a number that the kernel takes under the same name.
  SmallVector<NamedAttribute> numbers;
  for (NamedAttribute attribute : op->getAttrs())
    if (isa<FloatAttr, UnitAttr>(attribute.getValue()))
      numbers.push_back(attribute);
  if (takesMomentum)
    numbers.push_back(named("cycles", builder.getUnitAttr()));
  call(op, kernel, outs, inputs, numbers)->setAttr("id", builder.getStringAttr(op.getParamAttr().getValue()));
}

/// Parameter and moments change; the gradient is only read.
LogicalResult FunctionLowering::lowerAdam(UpdateOpInterface op, StringRef kernel, bool takesMomentum) {
  SmallVector<Value> states = addressesOf(op);
  if (states.empty())
    return failure();
  SmallVector<Value> outs{states[0]};
  llvm::append_range(outs, ArrayRef(states).drop_front(2));
  callUpdate(op, kernel, outs, states[1], takesMomentum);
  return success();
}

/// The gradient becomes the direction; the parameter is only read.
LogicalResult FunctionLowering::lowerLambDirection(LambDirectionOp op) {
  SmallVector<Value> states = addressesOf(op);
  if (states.empty())
    return failure();
  callUpdate(op, "lamb_direction", ArrayRef(states).drop_front(), states[0], bool(op.getMomentum()));
  return success();
}

LogicalResult FunctionLowering::lowerTrustRatio(TrustRatioOp op) {
  Value ratio = destinationOf(op.getResult(), Layout::Dense).buffer;
  call(op, "trust_ratio", ratio, {denseBufferOf(op.getParam()), denseBufferOf(op.getDirection())},
       {named("least", op.getLeastAttr()), named("most", op.getMostAttr())});
  buffers[op.getResult()] = ratio;
  return success();
}

LogicalResult FunctionLowering::lowerSgd(SgdOp op) {
  SmallVector<Value> outs{shardOrAddressOf(op, op.getParam())};
  if (op.getVelocity())
    outs.push_back(shardOrAddressOf(op, *op.getVelocity()));
  Value gradient = shardOrAddressOf(op, op.getGradient());
  if (!gradient || llvm::is_contained(outs, Value()))
    return failure();
  SmallVector<NamedAttribute> attributes{named("weight_decay", op.getWeightDecayAttr())};
  if (op.getVelocity())
    attributes.push_back(named("momentum", op.getMomentumAttr()));
  SmallVector<Value> ins{gradient, denseBufferOf(op.getLr()), denseBufferOf(op.getScale())};
  if (op.getPredicate())
    ins.push_back(denseBufferOf(op.getPredicate()));
  call(op, op.getVelocity() ? "sgd_momentum" : "sgd", outs, ins, attributes)
      ->setAttr("id", builder.getStringAttr(op.getParam()));
  return success();
}

LogicalResult FunctionLowering::lowerRefresh(RefreshOp op) {
  Value copy = shardOrAddressOf(op, op.getCopy()), param = shardOrAddressOf(op, op.getParam());
  if (!copy || !param)
    return failure();
  call(op, "round", copy, param)->setAttr("id", builder.getStringAttr(op.getCopy()));
  return success();
}

LogicalResult FunctionLowering::lowerUpdateLossScale(UpdateLossScaleOp op) {
  SmallVector<Value> outs;
  for (StringRef name : {op.getScale(), op.getGoodSteps(), op.getHysteresisLeft()})
    if (Value state = addressOf(op, name))
      outs.push_back(state);
  if (outs.size() != 3)
    return failure();
  SmallVector<NamedAttribute> attributes{named("window", op.getWindowAttr()),
                                         named("hysteresis", op.getHysteresisAttr()),
                                         named("min_scale", op.getMinScaleAttr())};
  if (op.getConsecutiveHysteresis())
    attributes.push_back(named("consecutive_hysteresis", builder.getUnitAttr()));
  call(op, "update_loss_scale", outs, denseBufferOf(op.getFinite()), attributes);
  return success();
}

LogicalResult FunctionLowering::lowerUpdateFp8Scale(UpdateFp8ScaleOp op) {
  SmallVector<Value> states;
  for (StringRef name : {op.getScale(), op.getInverse(), op.getHistory(), op.getAmax()})
    if (Value state = addressOf(op, name))
      states.push_back(state);
  if (states.size() != 4)
    return failure();
  call(op, "update_fp8_scale", ArrayRef(states).take_front(3), states[3], named("largest", op.getLargestAttr()));
  return success();
}
