// Matching of transfers, and the check that both ends mean the same tensors.
#include "Mesh/TransferBoard.h"

#include "dialects/Hyc/HycDialect.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

llvm::StringMap<Type> hyc::interpreter::channelArguments(Operation *op) {
  llvm::StringMap<Type> channels;
  auto function = cast<FuncOp>(op);
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (auto id = function.getArgAttrOfType<StringAttr>(i, dist::kChannel))
      channels[id.getValue()] = function.getArgumentTypes()[i];
  return channels;
}

llvm::StringMap<Type> hyc::interpreter::channelResults(Operation *op) {
  llvm::StringMap<Type> channels;
  auto function = cast<FuncOp>(op);
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (auto id = function.getResultAttrOfType<StringAttr>(i, dist::kChannel))
      channels[id.getValue()] = function.getResultTypes()[i];
  return channels;
}

std::string TransferEnd::describe(const Topology &topology) const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << (transfer.getIsSend() ? "send " : "receive ") << dist::stringifyDirection(transfer.getDirection())
         << (transfer.getVirtualStage() == 0 ? "" : " virtual_stage " + std::to_string(transfer.getVirtualStage()))
         << " micro_batch " << transfer.getMicroBatch() << (transfer.getIsSend() ? " to " : " from ")
         << topology.describe(peer);
  return text;
}

/// Fails where an id or a type of one side is not the other's.
static LogicalResult checkChannels(const TransferEnd &send, const TransferEnd &receive) {
  const llvm::StringMap<Type> &sent = send.channels, &expected = receive.channels;
  Operation *from = send.owner, *to = receive.owner;
  for (const auto &channel : expected) {
    auto entry = sent.find(channel.first());
    if (entry != sent.end() && entry->second == channel.second)
      continue;
    auto error = to->emitError("channel \"") << channel.first() << "\" is received as " << channel.second;
    auto &note = error.attachNote(from->getLoc()) << "but @" << SymbolTable::getSymbolName(from).getValue();
    if (entry == sent.end())
      note << " does not send it";
    else
      note << " sends it as " << entry->second;
    return failure();
  }
  for (const auto &channel : sent)
    if (!expected.contains(channel.first()))
      return (from->emitError("channel \"") << channel.first() << "\" is sent").attachNote(to->getLoc())
             << "but @" << SymbolTable::getSymbolName(to).getValue() << " does not receive it";
  return success();
}

LogicalResult TransferBoard::meet(TransferEnd &send, TransferEnd &receive) const {
  if (send.transfer.getDirection() != receive.transfer.getDirection() ||
      send.transfer.getMicroBatch() != receive.transfer.getMicroBatch() ||
      send.transfer.getPeerOf(topology.getChunk(send.worldRank, send.transfer)) !=
          topology.getChunk(receive.worldRank, receive.transfer)) {
    auto error = send.owner->emitError(topology.describe(send.worldRank)) << " posts " << send.describe(topology);
    error.attachNote(receive.owner->getLoc())
        << "but " << topology.describe(receive.worldRank) << " posts " << receive.describe(topology);
    return failure();
  }
  if (failed(checkChannels(send, receive)))
    return failure();
  receive.tensors = send.tensors;
  send.isDone = receive.isDone = true;
  return success();
}

LogicalResult TransferBoard::post(const std::shared_ptr<TransferEnd> &end) {
  bool isSend = end->transfer.getIsSend();
  Lane &lane = isSend ? lanes[{end->worldRank, end->peer}] : lanes[{end->peer, end->worldRank}];
  (isSend ? lane.sends : lane.receives).push_back(end);
  while (!lane.sends.empty() && !lane.receives.empty()) {
    if (failed(meet(*lane.sends.front(), *lane.receives.front())))
      return failure();
    lane.sends.pop_front();
    lane.receives.pop_front();
  }
  return success();
}
