// Reads, writes and updates of states: most need no copy, since a state is its address.
#include "FunctionLowering.h"

#include "kernels/exact_sum/description.h"

using namespace mlir;
using namespace hyc;

static_assert(kExactSumLimbs == kernels::kExactSumLimbs, "an exact sum is what kernels make of it");

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

template <> LogicalResult FunctionLowering::lower(ReadOp op) {
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

template <> LogicalResult FunctionLowering::lower(WriteOp op) {
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

template <> LogicalResult FunctionLowering::lower(AccumulateOp op) {
  if (fusedAccumulations.contains(op))
    return success();
  Value target = shardOrAddressOf(op, op.getTarget());
  if (!target)
    return failure();
  rank::WriteMode mode = modeOfAccumulation(op.getTarget());
  auto add = call(op, op.getMax() ? "accumulate_max" : "accumulate", target, denseBufferOf(op.getValue()), {}, mode);
  if (Operation *producer = op.getValue().getDefiningOp(); producer && !getIdAttr(add))
    copyId(producer, add);
  return success();
}

template <> LogicalResult FunctionLowering::lower(SumOfSquaresOp op) {
  Value result = destinationOf(op.getResult(), Layout::Dense).buffer, sum = result;
  bool rounds = cast<rank::BufferType>(result.getType()).getShape().empty();
  if (rounds)
    sum = allocate(rank::BufferType::get(op.getContext(), {kExactSumLimbs}, builder.getI64Type(), {}), rank::kFeeds,
                   op.getLoc(), getId(op));
  rank::WriteMode mode = rank::WriteMode::overwrite;
  for (auto name : op.getStates().getAsRange<FlatSymbolRefAttr>()) {
    Value state = shardOrAddressOf(op, name.getValue());
    if (!state)
      return failure();
    setId(call(op, "sum_of_squares", sum, state, {}, mode), name.getAttr());
    mode = rank::WriteMode::add;
  }
  if (op.getStates().empty())
    call(op, "fill", sum, {}, named("value", builder.getI64IntegerAttr(0)));
  if (rounds)
    call(op, "round_sum", result, sum);
  buffers[op.getResult()] = result;
  return success();
}

template <> LogicalResult FunctionLowering::lower(RoundSumOp op) {
  Value result = destinationOf(op.getResult(), Layout::Dense).buffer;
  call(op, "round_sum", result, denseBufferOf(op.getSum()));
  buffers[op.getResult()] = result;
  return success();
}

template <> LogicalResult FunctionLowering::lower(GradientScaleOp op) {
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

template <> LogicalResult FunctionLowering::lower(IncrementOp op) {
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

/// What an update changes comes first, in the order of its symbols, then what it reads, and what it takes by value, its
/// predicate as the last. It is named in the report after the parameter.
LogicalResult FunctionLowering::lowerUpdate(UpdateOpInterface op) {
  SmallVector<Value> states = addressesOf(op), outs, ins;
  if (states.empty())
    return failure();
  (op.changesParam() ? outs : ins).push_back(states[0]);
  (op.changesGradient() ? outs : ins).push_back(states[1]);
  outs.append(states.begin() + 2, states.end());
  for (Value scalar : op->getOperands())
    ins.push_back(denseBufferOf(scalar));
  SmallVector<NamedAttribute> numbers = op.getNumbers();
  if (op.getCycledMomentum())
    numbers.push_back(named("cycles", builder.getUnitAttr()));
  setId(call(op, op.getKernel(), outs, ins, numbers), op.getParamAttr().getAttr());
  return success();
}

template <> LogicalResult FunctionLowering::lower(TrustRatioOp op) {
  Value ratio = destinationOf(op.getResult(), Layout::Dense).buffer;
  call(op, "trust_ratio", ratio, {denseBufferOf(op.getParam()), denseBufferOf(op.getDirection())},
       {named("least", op.getLeastAttr()), named("most", op.getMostAttr())});
  buffers[op.getResult()] = ratio;
  return success();
}

template <> LogicalResult FunctionLowering::lower(RefreshOp op) {
  Value copy = shardOrAddressOf(op, op.getCopy()), param = shardOrAddressOf(op, op.getParam());
  if (!copy || !param)
    return failure();
  setId(call(op, "round", copy, param), op.getCopy());
  return success();
}

template <> LogicalResult FunctionLowering::lower(UpdateLossScaleOp op) {
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

template <> LogicalResult FunctionLowering::lower(UpdateFp8ScaleOp op) {
  SmallVector<Value> states;
  for (StringRef name : {op.getScale(), op.getInverse(), op.getHistory(), op.getAmax()})
    if (Value state = addressOf(op, name))
      states.push_back(state);
  if (states.size() != 4)
    return failure();
  call(op, "update_fp8_scale", ArrayRef(states).take_front(3), states[3], named("largest", op.getLargestAttr()));
  return success();
}

void hyc::addSymbolLowerings(LoweringTable &table) {
  table.add<ReadOp, WriteOp, AccumulateOp, SumOfSquaresOp, RoundSumOp, GradientScaleOp, IncrementOp, TrustRatioOp,
            RefreshOp, UpdateLossScaleOp, UpdateFp8ScaleOp>();
}
