// The instructions of a schedule and the calls of a program, over memory.
#include "Rank/RankMachine.h"
#include "dialects/Dist/ExchangeKinds.h"
#include "dialects/Hyc/OpId.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;
using dist::InstructionAttr;
using dist::InstructionKind;

Extent hyc::interpreter::placedRegion(Memory &memory, StringRef arena, int64_t offset, rank::BufferType type) {
  return {memory.find(arena), offset, type.getElementType(), SmallVector<int64_t>(type.getShape()),
          type.getStridesOrDense()};
}

InFlightDiagnostic RankMachine::emitError() const {
  return schedule().emitError(step.topology.describe(worldRank))
         << ", instruction " << position << " (" << current() << "): ";
}

//===----------------------------------------------------------------------===//
// The schedule
//===----------------------------------------------------------------------===//

RankMachine::Outcome RankMachine::advance() {
  bool moved = false;
  while (!isFinished()) {
    if (!isInside) {
      if (failed(begin()))
        return Outcome::Failed;
      isInside = moved = true;
    }
    std::optional<bool> ended = proceed(moved);
    if (!ended)
      return Outcome::Failed;
    if (!*ended)
      return moved ? Outcome::Advanced : Outcome::Waits;
    if (failed(end()))
      return Outcome::Failed;
    ++position;
    isInside = false;
    moved = true;
  }
  return Outcome::Finished;
}

LogicalResult RankMachine::begin() {
  InstructionKind kind = current().getKind();
  bool isForward = kind == InstructionKind::forward, isBackward = kind == InstructionKind::backward;
  if (kind == InstructionKind::begin_step)
    return success();
  if (kind == InstructionKind::exchange)
    return beginExchange();
  if ((isForward || isBackward) && failed(loadInputs(current().getMicroBatch())))
    return failure();
  return beginFunction();
}

std::optional<bool> RankMachine::proceed(bool &moved) {
  if (!stack.empty())
    return runFunction(moved);
  return llvm::all_of(posted, [](const Posted &transfer) { return transfer.end->isDone; });
}

LogicalResult RankMachine::end() {
  if (current().getKind() == InstructionKind::backward)
    forgetRecords(current());
  if (current().getKind() == InstructionKind::exchange)
    return endExchange();
  if (!moves.empty())
    return emitError() << "the function ends before it has waited for a move";
  if (!tickets.empty())
    return emitError() << "the function ends before it has waited for "
                       << tickets.begin()->second.parts[0].collective->starts[0].text;
  return success();
}

//===----------------------------------------------------------------------===//
// What functions find in memory
//===----------------------------------------------------------------------===//

LogicalResult RankMachine::beginFunction() {
  rank::ProgramOp owner = program.op;
  rank::FuncOp function = findFunction(current().getKind(), current().getVirtualStage());
  if (!function || function.isShared())
    return emitError() << "the program @" << owner.getSymName() << " has no function @"
                       << rank::functionName(current().getKind(), current().getVirtualStage());
  InstructionKind kind = current().getKind();
  isFirst = (kind == InstructionKind::forward || kind == InstructionKind::backward) &&
            seen.insert(function.getSymName()).second;
  forgetTemporaries();
  for (rank::ScalarOp scalar : program.scalars) {
    std::optional<double> number = step.scalars.get(scalar.getSymName());
    if (!number)
      return emitError() << "the interpreter knows no scalar \"" << scalar.getSymName() << "\"";
    Extent region = placedRegion(own.memory, scalar.getArena(), scalar.getOffset().value_or(0), scalar.getBufferType());
    Tensor value = Tensor::splat(*elementKind(region.elementType, step.arithmetic), region.shape, *number);
    if (failed(own.memory.store(scalar, region, value)))
      return failure();
  }
  stack.emplace_back(function.getBlock());
  return success();
}

LogicalResult RankMachine::prepare() {
  rank::ProgramOp owner = program.op;
  rank::FuncOp function = owner.getPrepare();
  if (!function)
    return success();
  forgetTemporaries();
  stack.emplace_back(function.getBlock());
  bool moved = false;
  std::optional<bool> ended = runFunction(moved);
  if (ended && !*ended)
    return function.emitOpError("waits for other ranks, which it cannot: it is no part of a step");
  return success(ended.has_value());
}

void RankMachine::forgetTemporaries() {
  for (const RankMemory::Range &range : own.temporaries)
    own.memory.poison(*range.arena, range.begin, range.end);
}

Extent RankMachine::recordRegion(rank::RecordOp record, int64_t slot) {
  Extent region = placedRegion(own.memory, record.getArena(), record.getOffset().value_or(0), record.getBufferType());
  if (!record.getSingle())
    region.offset += slot * region.arena->recordBytes;
  return region;
}

/// Whether `func` addresses a record, in whole or in part. A temporary may lie in the place of one that is gone: the
/// name tells them apart.
static bool addresses(rank::FuncOp func, rank::RecordOp record) {
  int64_t begin = record.getOffset().value_or(0), end = begin + record.getBufferType().getFootprint();
  WalkResult found = func.getBody().walk([&](rank::AtOp place) {
    int64_t offset = place.getOffset();
    bool isIts = getIdAttr(place) == record.getSymNameAttr() && place.getArena() == record.getArena() &&
                 place.getPerSlot() != record.getSingle() && begin <= offset && offset < end;
    return isIts ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found.wasInterrupted();
}

/// Whether the records that a transfer names are those of a row of the table.
static bool isOf(rank::TransferOp tensor, dist::TransferAttr transfer) {
  return tensor.getSend() == transfer.getIsSend() && tensor.getBackward() != transfer.isForward() &&
         static_cast<int64_t>(tensor.getVirtualStage()) == transfer.getVirtualStage();
}

rank::FuncOp RankMachine::findFunction(InstructionKind kind, int64_t virtualStage) const {
  rank::ProgramOp owner = program.op;
  return dyn_cast_or_null<rank::FuncOp>(SymbolTable::lookupSymbolIn(owner, rank::functionName(kind, virtualStage)));
}

/// Backward was the last to read what its chunk kept in the slot, but for what it made to be sent. What it does not
/// address may by now have given its place to something else: what another chunk's forward has still to send.
void RankMachine::forgetRecords(InstructionAttr backward) {
  rank::FuncOp function = findFunction(InstructionKind::backward, backward.getVirtualStage());
  auto isSent = [&](rank::RecordOp record) {
    return llvm::any_of(program.transfers, [&](rank::TransferOp transfer) {
      return transfer.getSend() && transfer.getBackward() && transfer.getRecord() == record.getSymName() &&
             static_cast<int64_t>(transfer.getVirtualStage()) == backward.getVirtualStage();
    });
  };
  std::vector<Extent> sent;
  for (rank::RecordOp record : program.records)
    if (isSent(record))
      sent.push_back(recordRegion(record, backward.getSlot()));
  for (rank::RecordOp record : program.records) {
    Extent region = recordRegion(record, backward.getSlot());
    int64_t end = region.offset + record.getBufferType().getFootprint();
    bool overlaps = llvm::any_of(sent, [&](const Extent &other) {
      int64_t otherEnd = other.offset + countElements(other.shape).value_or(0) * programBytes(other.elementType);
      return other.arena == region.arena && other.offset < end && region.offset < otherEnd;
    });
    if (!record.getSingle() && !overlaps && addresses(function, record))
      own.memory.poison(*region.arena, region.offset, end);
  }
}

/// What was sent is gone, unless backward still needs it.
void RankMachine::forgetSent(dist::TransferAttr transfer) {
  rank::FuncOp backward = findFunction(InstructionKind::backward, transfer.getVirtualStage());
  for (rank::TransferOp tensor : program.transfers) {
    if (!transfer.getIsSend() || !isOf(tensor, transfer))
      continue;
    auto record = llvm::find_if(program.records,
                                [&](rank::RecordOp candidate) { return candidate.getSymName() == tensor.getRecord(); });
    if (transfer.isForward() && backward && addresses(backward, *record))
      continue;
    Extent region = recordRegion(*record, transfer.getSlot());
    own.memory.poison(*region.arena, region.offset, region.offset + rank::RecordOp(*record).getBufferType().getBytes());
  }
}

/// The loader: this rank's samples of a micro-batch.
LogicalResult RankMachine::loadInputs(int64_t microBatch) {
  AxisPosition among = step.topology.getPosition(worldRank, step.topology.getBatchAxes());
  for (rank::InputOp input : program.inputs) {
    auto entry = step.globalBatch.find(input.getSymName());
    if (entry == step.globalBatch.end())
      return emitError() << "no value is given for input \"" << input.getSymName() << "\"";
    const Tensor &batch = entry->second;
    ArrayRef<int64_t> shape = input.getBufferType().getShape();
    int64_t samples = shape.empty() ? 0 : shape[0];
    if (!batch || batch.getTensorRank() == 0 || batch.getDim(0) != program.numMicroBatches * among.size * samples)
      return emitError() << "input \"" << input.getSymName() << "\" is " << (batch ? batch.describeType() : "missing")
                         << ", expected the " << program.numMicroBatches * among.size * samples
                         << " samples of a step: " << program.numMicroBatches << " micro-batches of " << samples
                         << " on each of " << among.size << " shares; give it as many";
    Tensor part = batch.window(0, (microBatch * among.size + among.coordinate) * samples, samples);
    Extent region = placedRegion(own.memory, input.getArena(), input.getOffset().value_or(0), input.getBufferType());
    if (failed(own.memory.store(input, region, part.converted(*elementKind(region.elementType, step.arithmetic)))))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

std::optional<bool> RankMachine::runFunction(bool &moved) {
  while (!stack.empty()) {
    Operation *op = stack.back().op;
    if (!op) {
      if (++stack.back().turn < stack.back().turns)
        stack.back().begin();
      else
        stack.pop_back();
      continue;
    }
    if (auto wait = dyn_cast<rank::WaitOp>(op);
        wait && !moves.contains(wait.getTicket()) && tickets.find(wait.getTicket())->second.findUnfinished())
      return false;
    stack.back().op = op->getNextNode();
    if (failed(execute(op)))
      return std::nullopt;
    moved = true;
  }
  return true;
}

LogicalResult RankMachine::execute(Operation *op) {
  Activation &top = stack.back();
  if (auto at = dyn_cast<rank::AtOp>(op)) {
    Arena *arena = own.memory.find(at.getArena());
    int64_t offset = placeInTurn(at);
    if (!arena)
      return op->emitError("names @") << at.getArena() << ", which is no arena";
    top.addresses[at.getResult()] = {arena, offset + (at.getPerSlot() ? current().getSlot() * arena->recordBytes : 0)};
    return success();
  }
  if (auto row = dyn_cast<rank::RowOp>(op)) {
    rank::ProgramOp owner = program.op;
    Operation *entry = SymbolTable::lookupSymbolIn(owner, row.getEntryAttr().getAttr());
    if (isa_and_nonnull<rank::SiteOp>(entry))
      return success();
    auto collective = dyn_cast_or_null<rank::CollectiveOp>(entry);
    if (!collective)
      return op->emitError("names @") << row.getEntry() << ", which is no collective";
    top.rows[row.getResult()] = collective;
    return success();
  }
  if (auto invoke = dyn_cast<rank::InvokeOp>(op))
    return enter(invoke);
  if (auto repeat = dyn_cast<rank::RepeatOp>(op))
    return enter(repeat), success();
  if (auto start = dyn_cast<rank::StartOp>(op))
    return startCollective(start);
  if (auto move = dyn_cast<rank::MoveOp>(op))
    return startMove(move);
  if (auto wait = dyn_cast<rank::WaitOp>(op))
    return moves.contains(wait.getTicket()) ? finishMove(wait) : finishCollective(wait);
  // Changes nothing; whoever compares the interpreter's values sees what is not finite.
  if (isa<rank::CheckOp>(op))
    return success();
  RankCall call{own.memory, step.arithmetic, top.addresses, own.axes, isFirst};
  if (auto gemm = dyn_cast<rank::GemmOp>(op))
    return executeGemm(call, gemm);
  if (auto launch = dyn_cast<rank::LaunchOp>(op))
    return executeLaunch(call, launch);
  if (auto kernel = dyn_cast<rank::CallOp>(op))
    return executeLibraryKernel(call, kernel);
  return op->emitError("the interpreter cannot execute '") << op->getName() << "' here";
}

LogicalResult RankMachine::enter(rank::InvokeOp op) {
  constexpr size_t kDeepest = 8;
  rank::ProgramOp owner = program.op;
  auto callee = dyn_cast_or_null<rank::FuncOp>(SymbolTable::lookupSymbolIn(owner, op.getCalleeAttr().getAttr()));
  if (!callee || callee.getBlock().getNumArguments() != op.getArguments().size())
    return op.emitError("calls @") << op.getCallee() << ", which is no function of these arguments";
  if (stack.size() > kDeepest)
    return op.emitError("functions call each other more than ") << kDeepest << " deep";
  Block &block = callee.getBlock();
  Activation next(block);
  const Activation &top = stack.back();
  for (auto [parameter, argument] : llvm::zip_equal(block.getArguments(), op.getArguments())) {
    if (isa<rank::BufferType>(argument.getType()))
      next.addresses[parameter] = top.addresses.lookup(argument);
    else
      next.rows[parameter] = top.rows.lookup(argument);
  }
  stack.push_back(std::move(next));
  return success();
}

/// Addresses and rows from before stay known in all turns.
void RankMachine::enter(rank::RepeatOp op) {
  Activation next(op.getBlock(), static_cast<int64_t>(op.getTimes()));
  next.addresses = stack.back().addresses;
  next.rows = stack.back().rows;
  stack.push_back(std::move(next));
}

int64_t RankMachine::placeInTurn(rank::AtOp at) const {
  int64_t turn = stack.back().turn, period = static_cast<int64_t>(at.getPeriod());
  return static_cast<int64_t>(at.getOffset()) + (period ? turn % period : turn) * static_cast<int64_t>(at.getStep());
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

Extent RankMachine::regionOf(Value buffer) const {
  auto type = cast<rank::BufferType>(buffer.getType());
  Address address = stack.back().addresses.lookup(buffer);
  if (type.isShard())
    return shardRegion(address, type, own.axes);
  return Extent::dense(address.arena, address.offset, type.getElementType(), {type.getNumElements()});
}

/// What an exchange that is not flat takes and gives on one member.
static void setShapes(rank::StartOp op, int64_t members, CollectiveStart &start) {
  int64_t count = static_cast<int64_t>(op.getCount());
  const dist::ExchangeFacts &facts = dist::factsOf(start.kind);
  start.operandShape = {facts.takesParts ? count * members : count};
  start.resultShape = {facts.givesParts ? count * members : count};
}

LogicalResult RankMachine::startPart(rank::StartOp op, size_t index, CollectiveStart &start, TicketPart &part) {
  Value source = op.getSources()[index];
  Value destination = op.getDestinations().empty() ? source : op.getDestinations()[index];
  part.source = regionOf(source);
  part.destination = regionOf(destination);
  int64_t shard = 0;
  if (start.flat) {
    bool gathers = dist::factsOf(start.kind).givesParts;
    int64_t whole = cast<rank::BufferType>((gathers ? destination : source).getType()).getNumElements();
    shard = dist::flatShardSize(whole, step.topology.getPosition(worldRank, start.flat).size);
    start.operandShape = {gathers ? shard : whole};
    start.resultShape = {gathers ? whole : shard};
    if (!gathers) {
      auto slice = cast<rank::BufferType>(source.getType()).shard(start.flat, shard);
      part.destination = shardRegion(stack.back().addresses.lookup(source), slice, own.axes);
      part.leavesRest = true;
    }
  } else if (!cast<rank::BufferType>(source.getType()).isShard()) {
    part.source.shape = start.operandShape;
    part.destination.shape = start.resultShape;
    part.source.strides = part.destination.strides = {1};
  } else {
    start.operandShape = start.resultShape = part.source.shape;
  }
  FailureOr<Tensor> operand = own.memory.load(op, part.source);
  // The destination is promised after the source is lent, since both may be the same.
  if (failed(operand) || failed(own.memory.note(op, part.source, ByteNote::Lent)) ||
      failed(own.memory.note(op, part.destination, ByteNote::Promised)))
    return failure();
  FailureOr<std::shared_ptr<Collective>> collective =
      step.collectives.start(worldRank, start, operand->window(0, 0, start.operandShape[0]));
  if (failed(collective))
    return failure();
  part.collective = *collective;
  return success();
}

LogicalResult RankMachine::startCollective(rank::StartOp op) {
  rank::CollectiveOp row = stack.back().rows.lookup(op.getRow());
  int64_t count = static_cast<int64_t>(op.getCount());
  int64_t members = static_cast<int64_t>(step.topology.getMembers(worldRank, row.getGroup()).size());
  if (count < 0 || count > (int64_t{1} << 31) || members == 0)
    return op.emitError("has a count of ") << count << " for " << members << " members";
  CollectiveStart start;
  start.op = op;
  start.group = row.getGroup();
  start.kind = op.getExchange();
  start.distance = static_cast<int64_t>(op.getDistance().value_or(0));
  start.takesMaximum = op.getCombine() == "max";
  start.joinsInWorldOrder = true;
  start.flat = op.getFlat().value_or(dist::AxisListAttr());
  setShapes(op, members, start);
  Ticket ticket;
  for (size_t index = 0; index < op.getSources().size(); ++index) {
    start.text.clear();
    llvm::raw_string_ostream text(start.text);
    text << op.getKind() << " " << op.getCombine() << " of " << count << " elements";
    if (start.distance != 0)
      text << " by " << start.distance;
    if (start.flat)
      text << " flat " << start.flat << ", tensor " << index << " of " << op.getSources().size();
    text << ", number " << row.getNumber() << " over " << row.getGroup() << " (cause \"" << row.getCause() << "\")";
    if (failed(startPart(op, index, start, ticket.parts.emplace_back())))
      return failure();
  }
  tickets[op.getTicket()] = std::move(ticket);
  return success();
}

LogicalResult RankMachine::finishCollective(rank::WaitOp op) {
  auto entry = tickets.find(op.getTicket());
  Ticket ticket = std::move(entry->second);
  tickets.erase(entry);
  for (TicketPart &part : ticket.parts) {
    if (failed(own.memory.note(op, part.source, ByteNote::Defined)) ||
        failed(own.memory.note(op, part.destination, ByteNote::Defined)))
      return failure();
    if (part.leavesRest)
      own.memory.poison(*part.source.arena, part.source.offset,
                        part.source.offset + part.source.shape[0] * programBytes(part.source.elementType));
    Tensor result = part.collective->results[part.collective->indexOf(worldRank)];
    if (failed(own.memory.store(op, part.destination, result.window(0, 0, part.destination.shape[0]))))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Transfers
//===----------------------------------------------------------------------===//

LogicalResult RankMachine::beginExchange() {
  for (dist::TransferAttr transfer : current().getTransfers())
    if (failed(postTransfer(transfer)))
      return failure();
  return success();
}

LogicalResult RankMachine::postTransfer(dist::TransferAttr transfer) {
  bool isSend = transfer.getIsSend();
  std::optional<int64_t> peer = step.topology.getPeer(worldRank, transfer);
  if (!peer)
    return emitError() << "there is no chunk " << transfer.getPeerOf(step.topology.getChunk(worldRank, transfer));
  int64_t peerStage = step.topology.getStage(*peer);
  Posted entry{std::make_shared<TransferEnd>(), {}};
  entry.end->transfer = transfer;
  entry.end->worldRank = worldRank;
  entry.end->owner = program.op;
  for (rank::TransferOp tensor : program.transfers) {
    if (!isOf(tensor, transfer))
      continue;
    auto record = llvm::find_if(program.records,
                                [&](rank::RecordOp candidate) { return candidate.getSymName() == tensor.getRecord(); });
    if (record == program.records.end())
      return tensor.emitError("names @") << tensor.getRecord() << ", which is no record";
    if (static_cast<int64_t>(tensor.getPeer()) != peerStage)
      return tensor.emitError("names stage ") << tensor.getPeer() << ", expected the neighbour " << peerStage;
    std::string tag = std::to_string(tensor.getTag());
    // Bytes travel, not shapes: one end may know them before a reshape, the other after it.
    Extent shaped = recordRegion(*record, transfer.getSlot());
    Extent region =
        Extent::dense(shaped.arena, shaped.offset, shaped.elementType, countElements(shaped.shape).value_or(0));
    entry.end->channels[tag] = RankedTensorType::get(region.shape, region.elementType);
    if (isSend) {
      FailureOr<Tensor> value = own.memory.load(tensor, region);
      if (failed(value))
        return failure();
      entry.end->tensors[tag] = *value;
    }
    if (failed(own.memory.note(tensor, region, isSend ? ByteNote::Lent : ByteNote::Promised)))
      return failure();
    entry.regions[tag] = region;
  }
  entry.end->peer = *peer;
  posted.push_back(entry);
  return step.transfers.post(entry.end);
}

LogicalResult RankMachine::endExchange() {
  for (const Posted &entry : posted)
    for (const auto &region : entry.regions)
      if (failed(own.memory.note(program.op, region.second, ByteNote::Defined)))
        return failure();
  for (const Posted &entry : posted)
    forgetSent(entry.end->transfer);
  for (const Posted &entry : posted) {
    if (entry.end->transfer.getIsSend())
      continue;
    for (const auto &region : entry.regions)
      if (failed(own.memory.store(program.op, region.second, entry.end->tensors.lookup(region.first()))))
        return failure();
  }
  posted.clear();
  return success();
}

std::string RankMachine::describeWait() const {
  std::string text = step.topology.describe(worldRank);
  if (isFinished())
    return text + " has finished its step";
  llvm::raw_string_ostream stream(text);
  stream << " at instruction " << position << " waits for ";
  if (!stack.empty()) {
    auto wait = cast<rank::WaitOp>(stack.back().op);
    stream << step.collectives.describeWait(worldRank, *tickets.find(wait.getTicket())->second.findUnfinished());
    return text;
  }
  llvm::interleave(
      llvm::make_filter_range(posted, [](const Posted &entry) { return !entry.end->isDone; }), stream,
      [&](const Posted &entry) { stream << entry.end->describe(step.topology); }, " and ");
  return text;
}
