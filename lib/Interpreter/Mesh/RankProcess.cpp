// The instructions of a schedule, one rank at a time.
#include "Mesh/RankProcess.h"
#include "Mesh/StateMoves.h"

#include "dialects/Hyc/PhaseNames.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;
using dist::Direction;
using dist::InstructionAttr;
using dist::InstructionKind;

static size_t indexOf(Direction direction) { return direction == Direction::forward ? 0 : 1; }

std::string RankProcess::Work::describe() const {
  std::string text = "micro-batch " + std::to_string(microBatch);
  return virtualStage == 0 ? text : text + " of virtual stage " + std::to_string(virtualStage);
}

InFlightDiagnostic RankProcess::emitError() const {
  return schedule().emitError(step.topology.describe(worldRank))
         << ", instruction " << position << " (" << current() << "): ";
}

//===----------------------------------------------------------------------===//
// The schedule
//===----------------------------------------------------------------------===//

RankProcess::Outcome RankProcess::advance() {
  bool moved = false;
  while (!isFinished()) {
    if (!isInsideInstruction()) {
      if (failed(begin(current())))
        return Outcome::Failed;
      moved = true;
    }
    std::optional<bool> ended = proceed(moved);
    if (!ended)
      return Outcome::Failed;
    if (!*ended)
      return moved ? Outcome::Advanced : Outcome::Waits;
    if (failed(end(current())))
      return Outcome::Failed;
    ++position;
    moved = true;
  }
  return Outcome::Finished;
}

LogicalResult RankProcess::begin(InstructionAttr instruction) {
  switch (instruction.getKind()) {
  case InstructionKind::begin_step:
    device.accumulated.clear();
    return success();
  case InstructionKind::forward:
    return beginCompute(instruction, Direction::forward);
  case InstructionKind::backward:
    return beginCompute(instruction, Direction::backward);
  case InstructionKind::exchange:
    return beginExchange(instruction);
  case InstructionKind::reduce:
    frame.emplace(program.reduce, device);
    return frame->bind({});
  case InstructionKind::apply:
    return beginApply();
  }
  return failure();
}

std::optional<bool> RankProcess::proceed(bool &moved) {
  if (frame)
    return runFrame(moved);
  return llvm::all_of(posted, [](const auto &end) { return end->isDone; });
}

LogicalResult RankProcess::end(InstructionAttr instruction) {
  LogicalResult result = success();
  if (instruction.getKind() == InstructionKind::forward)
    result = endCompute(instruction, Direction::forward);
  if (instruction.getKind() == InstructionKind::backward)
    result = endCompute(instruction, Direction::backward);
  for (const std::shared_ptr<TransferEnd> &end : posted)
    if (!end->transfer.getIsSend())
      slots[end->transfer.getSlot()].received[indexOf(end->transfer.getDirection())] =
          Parcel{Work::of(end->transfer), end->tensors};
  posted.clear();
  if (frame && failed(endMoves(frame->getFunction(), device)))
    result = failure();
  frame.reset();
  pending.clear();
  return result;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

std::optional<bool> RankProcess::runFrame(bool &moved) {
  while (!frame->isDone()) {
    Operation *op = frame->current();
    LogicalResult result = success();
    if (auto exchange = dyn_cast<dist::ExchangeOpInterface>(op)) {
      result = startCollective(exchange);
    } else if (isa<dist::FetchStartOp, dist::EvictStartOp, dist::WaitMoveOp>(op)) {
      result = succeeded(executeMove(op, device)) ? frame->complete({}) : failure();
    } else if (auto copy = dyn_cast<dist::CopyStartOp>(op)) {
      copied[copy.getPending()] = frame->valueOf(copy.getOperand());
      result = frame->complete({});
    } else if (auto wait = dyn_cast<dist::WaitOp>(op)) {
      if (auto copy = copied.find(wait.getPending()); copy != copied.end()) {
        Tensor value = copy->second;
        copied.erase(copy);
        if (failed(frame->complete({value})))
          return std::nullopt;
        moved = true;
        continue;
      }
      const Collective &collective = *pending.find(wait.getPending())->second;
      if (!collective.isDone)
        return false;
      result = frame->complete({collective.results[collective.indexOf(worldRank)]});
    } else {
      result = frame->step();
    }
    if (failed(result))
      return std::nullopt;
    moved = true;
  }
  return true;
}

LogicalResult RankProcess::startCollective(dist::ExchangeOpInterface op) {
  FailureOr<std::shared_ptr<Collective>> collective =
      step.collectives.start(worldRank, CollectiveStart::of(op), frame->valueOf(op->getOperand(0)));
  if (failed(collective))
    return failure();
  pending[op->getResult(0)] = *collective;
  return frame->complete({});
}

LogicalResult RankProcess::beginCompute(InstructionAttr instruction, Direction direction) {
  FuncOp function = program.compute(direction, instruction.getVirtualStage());
  Slot &slot = slots[instruction.getSlot()];
  Work work = Work::of(instruction);
  std::optional<Parcel> &received = slot.received[indexOf(direction)];
  if (received && received->work != work)
    return emitError() << "the slot received " << received->work.describe();
  if (direction == Direction::forward && slot.saved)
    return emitError() << "the slot still holds what " << slot.saved->work.describe() << " saved";
  if (direction == Direction::backward && (!slot.saved || slot.saved->work != work))
    return emitError() << "the slot does not hold what the micro-batch saved";
  SmallVector<Tensor> arguments;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    FailureOr<Tensor> argument = takeArgument(function, i, slot, direction, work.microBatch);
    if (failed(argument))
      return failure();
    arguments.push_back(*argument);
  }
  received.reset();
  if (direction == Direction::backward)
    slot.saved.reset();
  frame.emplace(function, device);
  return frame->bind(arguments);
}

FailureOr<Tensor> RankProcess::takeArgument(FuncOp function, unsigned index, const Slot &slot, Direction direction,
                                            int64_t microBatch) {
  if (auto input = function.getArgAttrOfType<StringAttr>(index, kInput))
    return localInput(function, index, input.getValue(), microBatch);
  auto saved = function.getArgAttrOfType<StringAttr>(index, kSaved);
  auto id = saved ? saved : function.getArgAttrOfType<StringAttr>(index, dist::kChannel);
  const std::optional<Parcel> &parcel = saved ? slot.saved : slot.received[indexOf(direction)];
  auto entry = parcel ? parcel->tensors.find(id.getValue()) : NamedTensors::const_iterator();
  if (!parcel || entry == parcel->tensors.end())
    return emitError() << "\"" << id.getValue() << "\" was not " << (saved ? "saved" : "received") << " in slot "
                       << current().getSlot(),
           failure();
  return entry->second;
}

LogicalResult RankProcess::endCompute(InstructionAttr instruction, Direction direction) {
  FuncOp function = program.compute(direction, instruction.getVirtualStage());
  Slot &slot = slots[instruction.getSlot()];
  Parcel saved{Work::of(instruction), {}}, toSend = saved;
  for (auto [index, result] : llvm::enumerate(frame->getResults())) {
    auto id = function.getResultAttrOfType<StringAttr>(index, kSaved);
    (id ? saved : toSend)
        .tensors[id ? id.getValue() : function.getResultAttrOfType<StringAttr>(index, dist::kChannel).getValue()] =
        result;
  }
  if (direction == Direction::forward)
    slot.saved = std::move(saved);
  if (channelResults(function).empty())
    return success();
  std::optional<Parcel> &outgoing = slot.toSend[indexOf(direction)];
  if (outgoing)
    return emitError() << "what " << outgoing->work.describe() << " has to send lies still in the slot";
  outgoing = std::move(toSend);
  return success();
}

LogicalResult RankProcess::beginApply() {
  FuncOp apply = program.apply;
  SmallVector<Tensor> arguments;
  for (unsigned i = 0; i < apply.getNumArguments(); ++i) {
    auto name = apply.getArgAttrOfType<StringAttr>(i, kScalar);
    std::optional<double> scalar = step.scalars.get(name.getValue());
    if (!scalar)
      return emitError() << "the interpreter knows no scalar \"" << name.getValue() << "\"";
    arguments.push_back(Tensor::scalar(ElementKind::F64, *scalar));
  }
  frame.emplace(apply, device);
  return frame->bind(arguments);
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

/// The rank's part of a micro-batch: cut as the argument's sharding says, else in its first dimension over
/// the axes that split samples.
FailureOr<Tensor> RankProcess::localInput(FuncOp function, unsigned index, StringRef name, int64_t microBatch) const {
  auto entry = step.globalBatch.find(name);
  if (entry == step.globalBatch.end())
    return emitError() << "no value is given for input \"" << name << "\"", failure();
  const Tensor &batch = entry->second;
  int64_t microBatches = program.numMicroBatches;
  if (!batch || batch.getTensorRank() == 0 || batch.getDim(0) % microBatches != 0 || microBatch < 0 ||
      microBatch >= microBatches)
    return emitError() << "input \"" << name << "\" is " << (batch ? batch.describeType() : "missing")
                       << ", expected a multiple of " << microBatches
                       << " samples, the micro-batches of a step; give it as many",
           failure();
  int64_t samples = batch.getDim(0) / microBatches;
  Tensor whole = batch.window(0, microBatch * samples, samples);
  auto sharding = function.getArgAttrOfType<dist::ShardingAttr>(index, dist::kSharding);
  if (!sharding) {
    SmallVector<SmallVector<StringAttr>> dims(whole.getTensorRank());
    llvm::append_range(dims[0], step.topology.getBatchAxes().getAxes());
    sharding = dist::ShardingAttr::get(function.getContext(), dims);
  }
  if (sharding.getDims().size() != static_cast<size_t>(whole.getTensorRank()))
    return emitError() << "input \"" << name << "\" is " << whole.describeType() << ", but its sharding is "
                       << sharding,
           failure();
  int64_t parts = step.topology.getPosition(worldRank, sharding.getDims()[0]).size;
  if (samples % parts != 0)
    return emitError() << "the " << samples << " samples of a micro-batch cannot be cut into " << parts
                       << " equal parts; give a step a multiple of " << parts * microBatches << " samples",
           failure();
  return step.topology.cut(whole, sharding, worldRank);
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

LogicalResult RankProcess::beginExchange(InstructionAttr instruction) {
  for (dist::TransferAttr transfer : instruction.getTransfers()) {
    auto end = std::make_shared<TransferEnd>();
    std::optional<int64_t> peer = step.topology.getPeer(worldRank, transfer);
    if (!peer)
      return emitError() << "there is no chunk " << transfer.getPeerOf(step.topology.getChunk(worldRank, transfer));
    end->transfer = transfer;
    end->worldRank = worldRank;
    end->peer = *peer;
    FuncOp function = program.compute(transfer.getDirection(), transfer.getVirtualStage());
    if (!function)
      return emitError() << "the stage has no such function";
    end->owner = function;
    end->channels = transfer.getIsSend() ? channelResults(function) : channelArguments(function);
    Slot &slot = slots[transfer.getSlot()];
    std::optional<Parcel> &parcel =
        (transfer.getIsSend() ? slot.toSend : slot.received)[indexOf(transfer.getDirection())];
    if (transfer.getIsSend() && end->channels.empty()) {
      // Nothing crosses here, as where no gradient flows further back; the ends still meet.
    } else if (transfer.getIsSend()) {
      if (!parcel || parcel->work != Work::of(transfer))
        return emitError() << "slot " << transfer.getSlot() << " has nothing of " << Work::of(transfer).describe()
                           << " to send";
      end->tensors = std::move(parcel->tensors);
      parcel.reset();
    } else if (parcel) {
      return emitError() << "slot " << transfer.getSlot() << " still holds what was received for "
                         << parcel->work.describe();
    } else if (transfer.getDirection() == Direction::forward && slot.saved) {
      return emitError() << "slot " << transfer.getSlot() << " still holds what " << slot.saved->work.describe()
                         << " saved";
    }
    posted.push_back(end);
    if (failed(step.transfers.post(end)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Telling where it stands
//===----------------------------------------------------------------------===//

std::string RankProcess::describeWait() const {
  std::string text = step.topology.describe(worldRank);
  if (isFinished())
    return text + " has finished its step";
  llvm::raw_string_ostream stream(text);
  stream << " at instruction " << position << " waits for ";
  if (frame) {
    auto wait = cast<dist::WaitOp>(frame->current());
    stream << step.collectives.describeWait(worldRank, *pending.find(wait.getPending())->second) << ", in @"
           << FuncOp(frame->getFunction()).getSymName();
    return text;
  }
  llvm::interleave(
      llvm::make_filter_range(posted, [](const auto &end) { return !end->isDone; }), stream,
      [&](const auto &end) { stream << end->describe(step.topology); }, " and ");
  return text;
}

LogicalResult RankProcess::checkNothingIsLeft() const {
  for (const auto &[index, slot] : slots) {
    if (slot.saved)
      return schedule().emitError(step.topology.describe(worldRank))
             << " ends its step with slot " << index << " full: no backward used what " << slot.saved->work.describe()
             << " saved";
    for (Direction direction : {Direction::forward, Direction::backward})
      for (const std::optional<Parcel> &parcel : {slot.received[indexOf(direction)], slot.toSend[indexOf(direction)]})
        if (parcel)
          return schedule().emitError(step.topology.describe(worldRank))
                 << " ends its step with unused " << dist::stringifyDirection(direction) << " tensors of "
                 << parcel->work.describe() << " in slot " << index;
  }
  if (const Collective *left = step.collectives.getUnfinished(worldRank))
    return schedule().emitError(step.topology.describe(worldRank))
           << " ends its step before " << left->starts[left->indexOf(worldRank)].text << " has completed";
  return success();
}
