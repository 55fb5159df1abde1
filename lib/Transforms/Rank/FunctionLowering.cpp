// Arguments, results, dispatch, and where values lie.
#include "FunctionLowering.h"

#include "dialects/Hyc/PhaseNames.h"
#include "hyc/Analysis/Workspaces.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace hyc;

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

std::pair<Value, int64_t> hyc::rootOf(Value buffer) {
  int64_t offset = 0;
  while (auto view = buffer.getDefiningOp<rank::ViewOp>()) {
    offset += view.getOffset();
    buffer = view.getSource();
  }
  return {buffer, offset};
}

std::optional<SmallVector<int64_t>> hyc::reshapeStrides(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides,
                                                        ArrayRef<int64_t> newShape) {
  SmallVector<int64_t> newStrides(newShape.size(), 1);
  if (llvm::is_contained(shape, 0))
    return newStrides;
  // Walk both shapes from the last dimension, matching runs of equal size whose old dimensions are contiguous.
  int64_t i = static_cast<int64_t>(shape.size()) - 1, j = static_cast<int64_t>(newShape.size()) - 1;
  while (i >= 0 || j >= 0) {
    while (i >= 0 && shape[i] == 1)
      --i;
    if (i < 0) {
      while (j >= 0 && newShape[j] == 1)
        --j;
      return j < 0 ? std::optional(newStrides) : std::nullopt;
    }
    int64_t oldSize = shape[i], inner = strides[i], newSize = 1, stride = inner;
    while (newSize < oldSize || (newSize == oldSize && j >= 0 && newShape[j] == 1)) {
      if (j < 0)
        return std::nullopt;
      newStrides[j] = stride;
      newSize *= newShape[j];
      stride = inner * newSize;
      --j;
      while (newSize > oldSize) {
        int64_t outer = i - 1;
        while (outer >= 0 && shape[outer] == 1)
          --outer;
        if (outer < 0 || strides[outer] != inner * oldSize)
          return std::nullopt;
        oldSize *= shape[outer];
        i = outer;
      }
    }
    if (newSize != oldSize)
      return std::nullopt;
    --i;
  }
  return newStrides;
}

Value FunctionLowering::view(Value buffer, int64_t offset, rank::BufferType type) {
  auto [root, rootOffset] = rootOf(buffer);
  if (rootOffset + offset == 0 && root.getType() == type)
    return root;
  return rank::ViewOp::create(builder, buffer.getLoc(), type, root, rootOffset + offset);
}

Value FunctionLowering::reshapeView(Value buffer, ArrayRef<int64_t> shape) {
  auto type = cast<rank::BufferType>(buffer.getType());
  std::optional<SmallVector<int64_t>> strides = reshapeStrides(type.getShape(), type.getStridesOrDense(), shape);
  return strides ? view(buffer, 0, type.withLayout(shape, *strides)) : Value();
}

//===----------------------------------------------------------------------===//
// Destinations
//===----------------------------------------------------------------------===//

Value FunctionLowering::allocate(rank::BufferType type, StringRef arena, Location loc, StringRef id) {
  return allocateAs(rank::BufferType::get(type.getContext(), type.getShape(), type.getElementType(), {}), arena, loc,
                    id);
}

Value FunctionLowering::allocateAs(rank::BufferType type, StringRef arena, Location loc, StringRef id) {
  auto alloc = rank::AllocOp::create(builder, loc, type, tables.arenaRef(arena));
  if (!id.empty())
    setId(alloc, id);
  return alloc;
}

Value FunctionLowering::denseBufferOf(Value tensor) {
  Value buffer = bufferOf(tensor);
  auto type = cast<rank::BufferType>(buffer.getType());
  if (type.isDense())
    return buffer;
  // In the first step, before the others: they find the copy.
  if (Value outside = scanStep.invariants.lookup(tensor))
    return buffers[tensor] = denseBufferOf(outside);
  StringRef id = tensor.getDefiningOp() ? getId(tensor.getDefiningOp()) : StringRef();
  Value dense = allocate(type, rank::kActivations, tensor.getLoc(), id);
  copy(dense, buffer, id);
  // Later users read the copy too.
  return buffers[tensor] = dense;
}

Value FunctionLowering::rowsBufferOf(Value tensor) {
  return typeOf(tensor).getRowStride() ? bufferOf(tensor) : denseBufferOf(tensor);
}

void FunctionLowering::copy(Value destination, Value from, StringRef id) {
  auto isShard = [](Value buffer) { return cast<rank::BufferType>(buffer.getType()).isShard(); };
  // How many elements a shard has is known at run time only.
  StringRef kernel = isShard(destination) || isShard(from) ? "accumulate" : "strided_copy";
  auto op = rank::CallOp::create(builder, from.getLoc(), kernel, ValueRange(destination), ValueRange(from));
  if (!id.empty())
    setId(op, id);
}

bool FunctionLowering::needsShared(Value tensor) {
  for (OpOperand &use : tensor.getUses()) {
    Operation *user = use.getOwner();
    // What is to hold the result, too, is shared only if nothing else sees it.
    if (auto exchange = dyn_cast<dist::ExchangeOpInterface>(user))
      if (exchange.getExchange() != dist::ExchangeKind::all_reduce || worksInPlace(user))
        return true;
    if (isa<ReturnOp>(user) && source.getResultAttr(use.getOperandNumber(), dist::kChannel))
      return true;
    if (isa<ReshapeOp>(user) && needsShared(user->getResult(0)))
      return true;
  }
  return false;
}

StringRef FunctionLowering::arenaFor(Value tensor) {
  if (needsShared(tensor)) {
    tables.share(rank::kCommunication);
    return rank::kCommunication;
  }
  return cast<RankedTensorType>(tensor.getType()).getRank() == 0 ? rank::kFeeds : rank::kActivations;
}

/// Whether every reader of `tensor` takes rows that are apart: products, losses, and backward.
static bool takesPaddedRows(Value tensor) {
  int64_t columns = cast<RankedTensorType>(tensor.getType()).getShape().back();
  return llvm::all_of(tensor.getUses(), [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (auto reshape = dyn_cast<ReshapeOp>(user))
      return cast<RankedTensorType>(reshape.getResult().getType()).getShape().back() == columns &&
             takesPaddedRows(reshape.getResult());
    if (isa<ReturnOp>(user))
      return user->getParentOfType<FuncOp>().getResultAttr(use.getOperandNumber(), kSaved) &&
             !user->getParentOfType<FuncOp>().getResultAttr(use.getOperandNumber(), dist::kChannel);
    auto takes = LoweringTable::get().find(user).takesPaddedRows;
    return takes && takes(use);
  });
}

/// A cache line; also what TMA and the widest loads ask for, and more.
static constexpr int64_t kPaddedRowBytes = 128;
/// Narrower rows are not worth the memory.
static constexpr int64_t kLeastPaddedRowBytes = 4 * kPaddedRowBytes;

rank::BufferType FunctionLowering::paddedType(Value tensor) {
  auto type = rank::BufferType::get(cast<RankedTensorType>(tensor.getType()));
  auto module = source->getParentOfType<ModuleOp>();
  if (!module || !module->hasAttr(kTargetAttribute) || type.getShape().size() < 2)
    return {};
  int64_t columns = type.getShape().back(), bytes = columns * type.getElementBytes();
  // 16 bytes are what one load may take.
  if (bytes % 16 == 0 || bytes < kLeastPaddedRowBytes || arenaFor(tensor) != rank::kActivations ||
      !takesPaddedRows(tensor))
    return {};
  SmallVector<int64_t> strides(type.getShape().size(), 1);
  int64_t stride = llvm::alignTo(bytes, kPaddedRowBytes) / type.getElementBytes();
  for (size_t i = strides.size() - 1; i-- > 0; stride *= type.getShape()[i])
    strides[i] = stride;
  return type.withLayout(type.getShape(), strides);
}

Value FunctionLowering::placeIn(ConcatOp concat, unsigned part) {
  Value whole = concatBuffer(concat);
  auto wholeType = cast<rank::BufferType>(whole.getType());
  SmallVector<int64_t> strides = wholeType.getStridesOrDense();
  int64_t before = 0;
  for (Value other : concat.getParts().take_front(part))
    before += cast<RankedTensorType>(other.getType()).getDimSize(concat.getDim());
  ArrayRef<int64_t> shape = cast<RankedTensorType>(concat.getParts()[part].getType()).getShape();
  return view(whole, before * strides[concat.getDim()], wholeType.withLayout(shape, strides));
}

/// Of several uses one may be a concatenation, or what a step of a scan gives: the others then read it there, if its
/// elements follow one another. Not where a use has claims of its own on where it lies.
Value FunctionLowering::placeBesideOtherUses(Value tensor) {
  if (llvm::any_of(tensor.getUsers(), [](Operation *user) {
        return isa<ReturnOp, AccumulateOp, WriteOp>(user) || isa<dist::DistDialect>(user->getDialect());
      }))
    return {};
  for (OpOperand &use : tensor.getUses()) {
    Value place;
    if (auto concat = dyn_cast<ConcatOp>(use.getOwner()); concat && concat.getDim() == 0)
      place = placeIn(concat, use.getOperandNumber());
    else if (isa<YieldOp>(use.getOwner()))
      place = scanStep.places.lookup(tensor);
    else if (auto reshape = dyn_cast<ReshapeOp>(use.getOwner()))
      place = placeBesideOtherUses(reshape.getResult());
    if (place)
      place = reshapeView(place, cast<RankedTensorType>(tensor.getType()).getShape());
    if (place && cast<rank::BufferType>(place.getType()).isDense())
      return place;
  }
  return {};
}

FunctionLowering::Destination FunctionLowering::destinationOf(Value tensor, Layout layout) {
  auto type = cast<RankedTensorType>(tensor.getType());
  StringRef id = tensor.getDefiningOp() ? getId(tensor.getDefiningOp()) : StringRef();
  auto accept = [&](Value buffer) {
    return buffer && (layout == Layout::Strided || cast<rank::BufferType>(buffer.getType()).isDense());
  };
  if (tensor.hasOneUse()) {
    OpOperand &use = *tensor.use_begin();
    if (auto concat = dyn_cast<ConcatOp>(use.getOwner())) {
      if (Value part = placeIn(concat, use.getOperandNumber()); accept(part))
        return {part};
    } else if (isa<YieldOp>(use.getOwner())) {
      if (Value place = scanStep.places.lookup(tensor); accept(place))
        return {place};
    } else if (auto reshape = dyn_cast<ReshapeOp>(use.getOwner())) {
      Value final = destinationOf(reshape.getResult(), Layout::Strided).buffer;
      if (Value part = reshapeView(final, type.getShape()); accept(part))
        return {part};
      if (auto alloc = final.getDefiningOp<rank::AllocOp>(); alloc && alloc->use_empty())
        alloc->erase();
    }
  } else if (Value place = placeBesideOtherUses(tensor)) {
    return {place};
  }
  if (rank::BufferType padded = layout == Layout::Strided ? paddedType(tensor) : rank::BufferType())
    return {allocateAs(padded, arenaFor(tensor), tensor.getLoc(), id)};
  return {allocate(rank::BufferType::get(type), arenaFor(tensor), tensor.getLoc(), id)};
}

rank::WriteMode FunctionLowering::modeOfAccumulation(StringRef state) {
  return tables.accumulated.insert(state).second ? rank::WriteMode::first : rank::WriteMode::add;
}

AccumulateOp FunctionLowering::soleAccumulation(Value value) {
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  if (!element.isF32() && !isHalfWidth(element))
    return {};
  while (value.hasOneUse() && isa<ReshapeOp>(*value.user_begin()))
    value = value.user_begin()->getResult(0);
  auto accumulate = value.hasOneUse() ? dyn_cast<AccumulateOp>(*value.user_begin()) : AccumulateOp();
  // What is kept elsewhere is added to where it was fetched to, and not before it is there.
  bool isThere =
      accumulate && (copies.contains(accumulate.getTarget()) || !isKeptElsewhere(accumulate, accumulate.getTarget()));
  // Kernels add to what is there; none of them takes the greater of both.
  isThere &= accumulate && !accumulate.getMax();
  return isThere ? accumulate : AccumulateOp();
}

std::optional<FunctionLowering::Destination> FunctionLowering::accumulationOf(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  AccumulateOp accumulate = soleAccumulation(tensor);
  if (!accumulate)
    return std::nullopt;
  Value state = addressOf(accumulate, accumulate.getTarget());
  Value target = state ? reshapeView(state, type.getShape()) : Value();
  if (!target)
    return std::nullopt;
  fusedAccumulations.insert(accumulate);
  return Destination{target, modeOfAccumulation(accumulate.getTarget())};
}

FunctionLowering::Destination FunctionLowering::accumulationOrDestination(Value tensor, Layout layout) {
  if (std::optional<Destination> state = accumulationOf(tensor))
    return *state;
  return destinationOf(tensor, layout);
}

bool FunctionLowering::isKeptElsewhere(Operation *user, StringRef name) {
  rank::StateOp state = tables.getState(user, name);
  return state && (state.getArena() == rank::kHost || state.getArena() == rank::kNvme);
}

Value FunctionLowering::addressOf(Operation *user, StringRef name) {
  if (Value copy = copies.lookup(name).buffer)
    return copy;
  return homeOf(user, name);
}

Value FunctionLowering::homeOf(Operation *user, StringRef name) {
  rank::StateOp state = tables.getState(user, name);
  if (!state)
    return {};
  return rank::AddressOp::create(builder, user->getLoc(), state.getBufferType(),
                                 FlatSymbolRefAttr::get(state.getSymNameAttr()));
}

rank::CallOp FunctionLowering::call(Operation *op, StringRef kernel, ValueRange outs, ValueRange ins,
                                    ArrayRef<NamedAttribute> attributes, rank::WriteMode mode) {
  auto result = rank::CallOp::create(builder, op->getLoc(), kernel, outs, ins, mode);
  for (NamedAttribute attribute : attributes)
    result->setAttr(attribute.getName(), attribute.getValue());
  copyId(op, result);
  return result;
}

//===----------------------------------------------------------------------===//
// Arguments and results
//===----------------------------------------------------------------------===//

/// Whether an op's results hold nothing but its operands' numbers, in another order or width.
static bool keepsNumbers(Operation *op) {
  if (auto convert = dyn_cast<ConvertOp>(op))
    return isa<IntegerType>(cast<RankedTensorType>(convert.getOperand().getType()).getElementType()) &&
           isa<IntegerType>(cast<RankedTensorType>(convert.getType()).getElementType());
  return isa<ReshapeOp, TransposeOp, BroadcastOp, SliceOp, ConcatOp>(op);
}

/// What the uses of an input make of its numbers, all of them together.
static IndexUse indexUseOf(Value ids) {
  IndexUse all;
  for (OpOperand &use : ids.getUses()) {
    IndexUse one;
    if (keepsNumbers(use.getOwner()))
      one = indexUseOf(use.getOwner()->getResult(0));
    else if (auto scan = dyn_cast<ScanOp>(use.getOwner()))
      one = indexUseOf(scan.getStep().getArgument(use.getOperandNumber()));
    else if (auto indexUse = LoweringTable::get().find(use.getOwner()).indexUse)
      one = indexUse(use);
    all.bound = std::min(all.bound, one.bound);
    all.isLookup |= one.isLookup;
    if (one.uncounted)
      all.uncounted = one.uncounted;
  }
  if (all.isLookup)
    all.uncounted.reset();
  return all;
}

/// Whether numbers are known to be below `bound`, or are a label that is not counted: those of an input, whose bound is
/// the least of all that use it, of a constant, of an order, and what was checked when it was saved.
static bool areBounded(FuncOp function, Value numbers, int64_t bound, std::optional<int64_t> uncounted) {
  if (auto argument = dyn_cast<BlockArgument>(numbers)) {
    // Nobody knows what a scan carries on.
    if (auto scan = dyn_cast<ScanOp>(argument.getOwner()->getParentOp()))
      return argument.getArgNumber() >= scan.countCarried() &&
             areBounded(function, scan->getOperand(argument.getArgNumber()), bound, uncounted);
    return function.getArgAttr(argument.getArgNumber(), kInput) || function.getArgAttr(argument.getArgNumber(), kSaved);
  }
  Operation *op = numbers.getDefiningOp();
  if (keepsNumbers(op))
    return llvm::all_of(op->getOperands(),
                        [&](Value operand) { return areBounded(function, operand, bound, uncounted); });
  if (auto order = dyn_cast<ArgSortOp>(op))
    return cast<RankedTensorType>(order.getOperand().getType()).getShape().back() <= bound;
  DenseIntElementsAttr constant;
  return matchPattern(numbers, m_Constant(&constant)) && llvm::all_of(constant, [&](const APInt &number) {
           int64_t value = number.getSExtValue();
           return (value >= 0 && value < bound) || (uncounted && value == *uncounted);
         });
}

void FunctionLowering::boundIndices(rank::CallOp call, Value indices, StringRef operand, int64_t bound) {
  auto uncounted = call->getAttrOfType<IntegerAttr>("ignore_index");
  if (bound == INT64_MAX ||
      areBounded(source, indices, bound, uncounted ? std::optional(uncounted.getInt()) : std::nullopt))
    return;
  call.setIndexBound(bound);
  call.setIndexOperand(operand);
}

LogicalResult FunctionLowering::lowerArgument(BlockArgument argument) {
  unsigned index = argument.getArgNumber();
  Location loc = argument.getLoc();
  auto type = rank::BufferType::get(cast<RankedTensorType>(argument.getType()));
  auto attribute = [&](StringRef name) { return source.getArgAttrOfType<StringAttr>(index, name); };
  auto address = [&](Operation *symbol) {
    auto name = FlatSymbolRefAttr::get(SymbolTable::getSymbolName(symbol));
    buffers[argument] = rank::AddressOp::create(builder, loc, type, name);
    return success();
  };
  if (StringAttr input = attribute(kInput)) {
    StringAttr from = attribute(kSource);
    IndexUse indices = indexUseOf(argument);
    rank::InputOp placed =
        tables.addInput(input.getValue(), from ? from.getValue() : nameOf(InputSource::token),
                        source.getArgAttrOfType<ArrayAttr>(index, kStreams), indices.bound, type, loc);
    if (indices.uncounted) // also of tokens, which a file of samples may bring as well
      placed.setUncounted(*indices.uncounted);
    return address(placed);
  }
  if (StringAttr scalar = attribute(kScalar))
    return address(tables.addScalar(scalar.getValue(), type, loc));
  if (StringAttr channel = attribute(dist::kChannel)) {
    StringRef arena = rank::kActivations;
    if (needsShared(argument)) {
      tables.share(rank::kCommunication);
      arena = rank::kCommunication;
    }
    rank::RecordOp record = tables.addRecord(channel.getValue(), arena, type, loc);
    addTransfer(record, channel.getValue(), /*send=*/false, loc);
    return address(record);
  }
  StringAttr saved = attribute(kSaved);
  if (!saved)
    return source.emitError("argument ") << index << " of @" << source.getSymName()
                                         << " says nothing of where it comes from, expected hyc.input, hyc.saved, "
                                            "hyc.scalar or dist.channel";
  const llvm::StringMap<SavedValue> &ofForward = tables.saved[virtualStage];
  auto found = ofForward.find(saved.getValue());
  if (found == ofForward.end())
    return source.emitError("@") << source.getSymName() << " wants the saved value " << saved
                                 << ", which the forward function of its stage does not return";
  const SavedValue &value = found->second;
  Value whole = rank::AddressOp::create(builder, loc, value.symbolType, value.symbol);
  buffers[argument] = view(whole, value.offset, value.type);
  return success();
}

void FunctionLowering::addTransfer(rank::RecordOp record, StringRef channel, bool send, Location loc) {
  auto direction = kind == dist::InstructionKind::backward ? dist::Direction::backward : dist::Direction::forward;
  tables.addTransfer(record, channel, send, direction, virtualStage, loc);
}

/// The tensors that a temporary holds, which is then forgotten: what is made later may have its address.
SmallVector<Value, 2> FunctionLowering::takeTensorsIn(Value temporary) {
  if (!tensorsIn) {
    tensorsIn.emplace();
    for (auto [tensor, buffer] : buffers)
      if (buffer && buffer.getDefiningOp<rank::AllocOp>())
        (*tensorsIn)[buffer].push_back(tensor);
  }
  auto entry = tensorsIn->find(temporary);
  if (entry == tensorsIn->end())
    return {};
  SmallVector<Value, 2> tensors = std::move(entry->second);
  tensorsIn->erase(entry);
  return tensors;
}

/// The record that `buffer` lies in as a whole; a temporary becomes one. Null where it is something else.
rank::RecordOp FunctionLowering::recordOf(Value buffer, StringRef name) {
  auto [root, offset] = rootOf(buffer);
  if (auto address = root.getDefiningOp<rank::AddressOp>())
    return tables.findRecord(address.getSymbol());
  auto alloc = root.getDefiningOp<rank::AllocOp>();
  if (!alloc)
    return {};
  rank::RecordOp record = tables.addRecord(name, alloc.getArena(), alloc.getResult().getType(), alloc.getLoc());
  OpBuilder atAlloc(alloc);
  Value address = rank::AddressOp::create(atAlloc, alloc.getLoc(), alloc.getResult().getType(),
                                          FlatSymbolRefAttr::get(record.getSymNameAttr()));
  for (Value tensor : takeTensorsIn(alloc.getResult()))
    buffers[tensor] = address;
  alloc.replaceAllUsesWith(address);
  alloc.erase();
  return record;
}

LogicalResult FunctionLowering::lowerResult(unsigned index, Value value, Location loc) {
  if (auto channel = dyn_cast_or_null<StringAttr>(source.getResultAttr(index, dist::kChannel))) {
    rank::RecordOp record = recordOf(bufferOf(value), channel.getValue());
    Value buffer = bufferOf(value); // after recordOf, which replaces temporaries
    auto type = cast<rank::BufferType>(buffer.getType());
    bool isWhole = record && record.getArena() == rank::kCommunication && rootOf(buffer).second == 0 &&
                   type.isDense() && type.getBytes() == record.getBufferType().getBytes();
    if (!isWhole) {
      auto dense = rank::BufferType::get(cast<RankedTensorType>(value.getType()));
      tables.share(rank::kCommunication);
      record = tables.addRecord(channel.getValue(), rank::kCommunication, dense, loc);
      Value address = rank::AddressOp::create(builder, loc, dense, FlatSymbolRefAttr::get(record.getSymNameAttr()));
      copy(address, buffer, channel.getValue());
    }
    addTransfer(record, channel.getValue(), /*send=*/true, loc);
  }
  auto saved = dyn_cast_or_null<StringAttr>(source.getResultAttr(index, kSaved));
  if (!saved)
    return success();
  recordOf(bufferOf(value), saved.getValue());
  Value buffer = bufferOf(value);
  auto [root, offset] = rootOf(buffer);
  auto address = root.getDefiningOp<rank::AddressOp>();
  tables.saved[virtualStage][saved.getValue()] = {address.getSymbolAttr(), address.getResult().getType(), offset,
                                                  cast<rank::BufferType>(buffer.getType())};
  return success();
}

LogicalResult FunctionLowering::run() {
  Block &block = source.getBody().front();
  for (BlockArgument argument : block.getArguments())
    if (failed(lowerArgument(argument)))
      return failure();
  for (Operation &op : block.without_terminator())
    if (failed(lowerAny(&op)))
      return failure();
  for (auto [index, value] : llvm::enumerate(source.getReturn()->getOperands()))
    if (failed(lowerResult(index, value, source.getReturn().getLoc())))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Dispatch
//===----------------------------------------------------------------------===//

LoweringTable::LoweringTable() {
  addSymbolLowerings(*this);
  addShapeLowerings(*this);
  addProductLowerings(*this);
  addCompositeLowerings(*this);
  addExpertLowerings(*this);
  addNormLowerings(*this);
  addWindowLowerings(*this);
  addIndexLowerings(*this);
  addLoopLowerings(*this);
  addExchangeLowerings(*this);
  addMoveLowerings(*this);
}

const LoweringTable &LoweringTable::get() {
  static const LoweringTable table;
  return table;
}

const OpLowering &LoweringTable::find(Operation *op) const {
  static const OpLowering none;
  auto row = rows.find(op->getName().getTypeID());
  return row == rows.end() ? none : row->second;
}

LogicalResult FunctionLowering::lowerAny(Operation *op) {
  if (auto handler = LoweringTable::get().find(op).lower)
    return handler(*this, op);
  if (auto update = dyn_cast<UpdateOpInterface>(op))
    return lowerUpdate(update);
  return op->emitOpError("has no kernel on this target; expected hyc-form-clusters to have run before, or a "
                         "decomposition");
}
