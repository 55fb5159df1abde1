// Copies in front of and behind what the host exchanges.
#include "comm/staged_exchanger.h"

#include <algorithm>

#include "comm/channels.h"

namespace hycrt {

// This rank's shard of a flat exchange, where it lies in the whole.
BufferRef StagedExchanger::ownSlice(const CollectiveCall& call, const FlatPart& part, int64_t* bytes) const {
  const CollectiveDesc& row = program_.collectives[call.collective];
  const FlatShard shard = flatShard(flatCoordinate(program_, row, rank_), part.shardElements, part.elements);
  *bytes = shard.count * sizeOf(call.dtype);
  return {part.whole.arena, part.whole.offset + shard.begin * sizeOf(call.dtype)};
}

// Calls use(buffer, bytes) for what others read of this rank.
template <typename Use>
Status StagedExchanger::forSources(const CollectiveCall& call, Use use) const {
  const int64_t size = sizeOf(call.dtype);
  const CollectiveDesc& row = program_.collectives[call.collective];
  if (!call.parts) return use(call.source, sourceCount(call, memberCount(row.group)) * size);
  for (int i = 0; i < call.partCount; ++i) {
    const FlatPart& part = call.parts[i];
    int64_t bytes = 0;
    const BufferRef slice = ownSlice(call, part, &bytes);
    if (factsOf(call.kind).reduces) {
      HYCRT_RETURN_IF_ERROR(use(part.whole, part.elements * size));
    } else {
      HYCRT_RETURN_IF_ERROR(use(part.shard.arena < 0 ? slice : part.shard, bytes));
    }
  }
  return {};
}

// The same for what this rank gets.
template <typename Use>
Status StagedExchanger::forResults(const CollectiveCall& call, Use use) const {
  const int64_t size = sizeOf(call.dtype);
  const CollectiveDesc& row = program_.collectives[call.collective];
  if (!call.parts) return use(call.destination, resultCount(call, memberCount(row.group)) * size);
  for (int i = 0; i < call.partCount; ++i) {
    const FlatPart& part = call.parts[i];
    int64_t bytes = 0;
    const BufferRef slice = ownSlice(call, part, &bytes);
    if (factsOf(call.kind).reduces) {
      HYCRT_RETURN_IF_ERROR(use(slice, bytes));
    } else {
      HYCRT_RETURN_IF_ERROR(use(part.whole, part.elements * size));
    }
  }
  return {};
}

Result<Ticket> StagedExchanger::start(const CollectiveCall& call) {
  HYCRT_RETURN_IF_ERROR(forSources(
      call, [&](BufferRef buffer, int64_t bytes) { return bytes > 0 ? device_.copyToHost(buffer, bytes) : Status(); }));
  HYCRT_RETURN_IF_ERROR(device_.finish());
  Result<Ticket> ticket = host_.start(call);
  if (ticket.ok()) pending_.push_back({*ticket, call});
  return ticket;
}

Status StagedExchanger::wait(Ticket ticket) {
  if (ticket.channel < 0) return {};
  HYCRT_RETURN_IF_ERROR(host_.wait(ticket));
  const auto found = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& one) {
    return one.ticket.channel == ticket.channel && one.ticket.sequence == ticket.sequence;
  });
  if (found == pending_.end()) return internalError("a collective is waited for that was not started");
  const CollectiveCall call = found->call;
  pending_.erase(found);
  return forResults(call, [&](BufferRef buffer, int64_t bytes) {
    return bytes > 0 ? device_.copyToDevice(buffer, bytes) : Status();
  });
}

Status StagedExchanger::exchange(const TransferUse* uses, int count) {
  const auto forTransfers = [&](Direction direction, auto use) -> Status {
    for (int i = 0; i < count; ++i) {
      const TransferDesc& transfer = program_.transfers[uses[i].transfer];
      if (transfer.direction != direction) continue;
      const BufferRef buffer{transfer.buffer.arena, transfer.buffer.offset + transfer.slotStride * uses[i].slot};
      HYCRT_RETURN_IF_ERROR(use(buffer, transfer.bytes));
    }
    return {};
  };
  HYCRT_RETURN_IF_ERROR(forTransfers(
      Direction::kSend, [&](BufferRef buffer, int64_t bytes) { return device_.copyToHost(buffer, bytes); }));
  // Also where nothing is sent: images that are received into may still be on their way to the device.
  HYCRT_RETURN_IF_ERROR(device_.finish());
  HYCRT_RETURN_IF_ERROR(host_.exchange(uses, count));
  return forTransfers(Direction::kReceive,
                      [&](BufferRef buffer, int64_t bytes) { return device_.copyToDevice(buffer, bytes); });
}

}  // namespace hycrt
