// Exchanges of tensors that are on devices, by way of their images on the host: sources are copied there before others
// may read them, results are copied back when they are complete. The host waits for the device at each start, so
// nothing overlaps; what is gained is that ranks may share a device, and that sums have the CPU target's order.
#include <algorithm>

#include "comm/communicator.h"
#include "hycrt/accelerator.h"

namespace hycrt {

// Calls use(buffer, bytes) for what others read of this rank.
template <typename Use>
Status Communicator::forStagedSources(const CollectiveCall& call, Use use) const {
  const CollectiveDesc& row = program_.collectives[call.collective];
  const int64_t size = sizeOf(call.dtype);
  if (!call.parts) {
    return use(call.source, sourceCount(call, memberCount(row.group)) * size);
  }
  for (int i = 0; i < call.partCount; ++i) {
    const FlatPart& part = call.parts[i];
    const FlatShard shard = flatShard(flatCoordinate(row, rank_), part.shardElements, part.elements);
    const bool inPlace = part.shard.arena < 0;
    if (factsOf(call.kind).reduces) {
      HYCRT_RETURN_IF_ERROR(use(part.whole, part.elements * size));
    } else if (inPlace) {
      HYCRT_RETURN_IF_ERROR(
          use(BufferRef{part.whole.arena, part.whole.offset + shard.begin * size}, shard.count * size));
    } else {
      HYCRT_RETURN_IF_ERROR(use(part.shard, shard.count * size));
    }
  }
  return {};
}

// The same for what this rank gets.
template <typename Use>
Status Communicator::forStagedResults(const CollectiveCall& call, Use use) const {
  const CollectiveDesc& row = program_.collectives[call.collective];
  const int64_t size = sizeOf(call.dtype);
  if (!call.parts) {
    return use(call.destination, resultCount(call, memberCount(row.group)) * size);
  }
  for (int i = 0; i < call.partCount; ++i) {
    const FlatPart& part = call.parts[i];
    if (!factsOf(call.kind).reduces) {
      HYCRT_RETURN_IF_ERROR(use(part.whole, part.elements * size));
      continue;
    }
    const FlatShard shard = flatShard(flatCoordinate(row, rank_), part.shardElements, part.elements);
    HYCRT_RETURN_IF_ERROR(use(BufferRef{part.whole.arena, part.whole.offset + shard.begin * size}, shard.count * size));
  }
  return {};
}

Result<Ticket> Communicator::startStaged(Accelerator& device, const CollectiveCall& call) {
  HYCRT_RETURN_IF_ERROR(forStagedSources(
      call, [&](BufferRef buffer, int64_t bytes) { return bytes > 0 ? device.copyToHost(buffer, bytes) : Status(); }));
  HYCRT_RETURN_IF_ERROR(device.finish());
  Result<Ticket> ticket = start(call);
  if (ticket.ok()) staged_.push_back({*ticket, call});
  return ticket;
}

Status Communicator::waitStaged(Accelerator& device, Ticket ticket) {
  if (ticket.channel < 0) return {};
  HYCRT_RETURN_IF_ERROR(wait(ticket));
  const auto found = std::find_if(staged_.begin(), staged_.end(), [&](const StagedCall& one) {
    return one.ticket.channel == ticket.channel && one.ticket.sequence == ticket.sequence;
  });
  if (found == staged_.end()) return internalError("a collective is waited for that was not started");
  const CollectiveCall call = found->call;
  staged_.erase(found);
  return forStagedResults(
      call, [&](BufferRef buffer, int64_t bytes) { return bytes > 0 ? device.copyToDevice(buffer, bytes) : Status(); });
}

Status Communicator::exchangeStaged(Accelerator& device, const TransferUse* uses, int count) {
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
      Direction::kSend, [&](BufferRef buffer, int64_t bytes) { return device.copyToHost(buffer, bytes); }));
  // Also where nothing is sent: images that are received into may still be on their way to the device.
  HYCRT_RETURN_IF_ERROR(device.finish());
  HYCRT_RETURN_IF_ERROR(exchange(uses, count));
  return forTransfers(Direction::kReceive,
                      [&](BufferRef buffer, int64_t bytes) { return device.copyToDevice(buffer, bytes); });
}

}  // namespace hycrt
