// Collectives over a group: publish, wait for everyone's publication, do this member's share, wait until all have.
#include <algorithm>
#include <cstring>

#include "comm/communicator.h"
#include "comm/vector_reduce.h"

namespace hycrt {
namespace {

const char* nameOf(uint8_t kind) {
  return kind == kTransferKind ? "transfer" : factsOf(static_cast<CollectiveKind>(kind)).name;
}

Publication& itemOf(ChannelRow& row, uint64_t item) { return row.ring[item % kRingSize]; }

// The op that asked for a collective; empty for a barrier.
const char* causeOf(const Program& program, const CollectiveCall& call) {
  return call.collective < 0 ? "" : program.collectives[call.collective].name;
}

bool allHave(const std::vector<ChannelRow*>& rows, std::atomic<uint64_t> ChannelRow::* counter, uint64_t item) {
  for (const ChannelRow* row : rows) {
    if ((row->*counter).load(std::memory_order_acquire) <= item) return false;
  }
  return true;
}

// Of the work in progress, on whichever thread that is; they keep their capacity, since a step must not allocate.
std::vector<const std::byte*>& sourcesOfThread() {
  thread_local std::vector<const std::byte*> sources;
  return sources;
}

std::vector<std::byte*>& targetsOfThread() {
  thread_local std::vector<std::byte*> targets;
  return targets;
}

}  // namespace

Result<Ticket> Communicator::start(const CollectiveCall& call) {
  const CollectiveDesc& row = program_.collectives[call.collective];
  const int channelIndex = plans_.ofGroup[static_cast<size_t>(row.group)];
  Publication publication{};
  publication.id = row.id;
  publication.kind = static_cast<uint8_t>(call.kind);
  publication.dtype = call.dtype;
  publication.op = call.op;
  publication.count = call.count;
  publication.partCount = call.partCount;
  publication.distance = call.distance;
  publication.name = call.collective;
  publication.arena = call.source.arena;
  publication.offset = call.source.offset;
  return startOn(channelIndex, call, publication);
}

// Beyond the ring's size the oldest has to be over first, for everyone.
Result<Ticket> Communicator::startOn(int channelIndex, const CollectiveCall& call, const Publication& publication) {
  Channel& channel = channels_[static_cast<size_t>(channelIndex)];
  if (channel.started - channel.completed == kRingSize) HYCRT_RETURN_IF_ERROR(wait({channelIndex, channel.completed}));
  const uint64_t item = channel.started;
  channel.calls[item % kRingSize] = call;
  itemOf(channel.own(), item) = publication;
  channel.started.store(item + 1, std::memory_order_release);
  channel.own().published.store(item + 1, std::memory_order_release);
  ring(channel.members);
  if (options_.ownThread) ringSelf();
  return Ticket{channelIndex, item};
}

Status Communicator::wait(Ticket ticket) {
  if (ticket.channel < 0) return {};
  const int64_t begin = monotonicNs();
  Status status = waitFor(ticket);
  const int64_t end = monotonicNs();
  waitedNs_ += end - begin;
  if (options_.trace) {
    const Channel& channel = channels_[static_cast<size_t>(ticket.channel)];
    const CollectiveCall& call = channel.calls[ticket.sequence % kRingSize];
    options_.trace->add(
        {TraceTrack::kWait, nameOf(static_cast<uint8_t>(call.kind)), causeOf(program_, call), begin, end});
  }
  return status;
}

Status Communicator::waitFor(Ticket ticket) {
  Channel& channel = channels_[static_cast<size_t>(ticket.channel)];
  if (options_.ownThread) {
    const auto what = [&] { return nameItem(rank_, itemOf(channel.own(), ticket.sequence)); };
    HYCRT_RETURN_IF_ERROR(
        waitUntil(channel.members, what, [&] { return threadFailed_ || channel.worked > ticket.sequence; }));
    if (threadFailed_) return threadStatus_;
  }
  while (channel.worked <= ticket.sequence) HYCRT_RETURN_IF_ERROR(workOn(channel));
  return finishUpTo(channel, ticket.sequence);
}

bool Communicator::isPublishedByAll(const Channel& channel, uint64_t item) const {
  return allHave(channel.rows, &ChannelRow::published, item);
}

// This member's share of the oldest item that it has not worked on.
Status Communicator::workOn(Channel& channel) {
  const uint64_t item = channel.worked;
  const auto what = [&] { return nameItem(rank_, itemOf(channel.own(), item)); };
  if (!isPublishedByAll(channel, item)) {
    HYCRT_RETURN_IF_ERROR(waitUntil(channel.members, what, [&] { return isPublishedByAll(channel, item); }));
  }
  const int64_t begin = monotonicNs();
  for (size_t member = 0; member < channel.members.size(); ++member) {
    HYCRT_RETURN_IF_ERROR(compare(channel, item, static_cast<int>(member)));
  }
  const CollectiveCall& call = channel.calls[item % kRingSize];
  HYCRT_RETURN_IF_ERROR(performWork(channel, call, item));
  if (options_.trace) {
    options_.trace->add({TraceTrack::kCommunication, nameOf(static_cast<uint8_t>(call.kind)), causeOf(program_, call),
                         begin, monotonicNs()});
  }
  channel.own().finished.store(item + 1, std::memory_order_release);
  // Last: from here on the caller may use the item's place for another.
  channel.worked.store(item + 1, std::memory_order_release);
  ring(channel.members);
  return {};
}

Status Communicator::finishUpTo(Channel& channel, uint64_t item) {
  if (channel.completed > item) return {};
  const auto what = [&] { return nameItem(rank_, itemOf(channel.own(), item)); };
  HYCRT_RETURN_IF_ERROR(
      waitUntil(channel.members, what, [&] { return allHave(channel.rows, &ChannelRow::finished, item); }));
  channel.completed = item + 1;
  return {};
}

Status Communicator::compare(const Channel& channel, uint64_t item, int member) const {
  const Publication& own = itemOf(channel.own(), item);
  const Publication& other = itemOf(*channel.rows[static_cast<size_t>(member)], item);
  const bool same = own.id == other.id && own.kind == other.kind && own.dtype == other.dtype && own.op == other.op &&
                    own.count == other.count && own.partCount == other.partCount && own.distance == other.distance;
  // A bucket's further tensors are found where this member has them.
  const bool sameOffsets = own.partCount < 2 || (own.arena == other.arena && own.offset == other.offset);
  if (same && sameOffsets) return {};
  const int otherRank = channel.members[static_cast<size_t>(member)];
  return internalError("collectives do not meet: " + describe(rank_, own) + " where " + describe(otherRank, other));
}

std::string Communicator::describe(int rank, const Publication& publication) const {
  return "rank " + std::to_string(rank) + " does " + nameItem(rank, publication);
}

// "all_reduce 'h.0.mlp.c_proj' (id 7, sum of 1024 × f32)", "shift 'kv' (id 8, by 1 of 512 × bf16)".
std::string Communicator::nameItem(int rank, const Publication& publication) const {
  const SharedBlock& block = peers_[static_cast<size_t>(rank)].block;
  const bool known = publication.name >= 0 && publication.name < block.header().nameCount;
  std::string text = std::string(nameOf(publication.kind)) + " '" + (known ? block.name(publication.name) : "?") + "'";
  if (publication.kind == static_cast<uint8_t>(CollectiveKind::kBarrier)) return text;
  text += " (id " + std::to_string(publication.id) + ", ";
  if (publication.kind == kTransferKind) {
    return text + "micro-batch " + std::to_string(publication.microBatch) + ", " + std::to_string(publication.count) +
           " bytes)";
  }
  const CollectiveKind kind = static_cast<CollectiveKind>(publication.kind);
  if (factsOf(kind).reduces) text += publication.op == ReduceOp::kSum ? "sum of " : "max of ";
  if (kind == CollectiveKind::kShift) text += "by " + std::to_string(publication.distance) + " of ";
  return text + std::to_string(publication.count) + " × " + hycrt::nameOf(publication.dtype) + ")";
}

Result<std::byte*> Communicator::addressAt(const Channel& channel, int member, uint64_t item, int64_t bytes) const {
  const int rank = channel.members[static_cast<size_t>(member)];
  const Publication& publication = itemOf(*channel.rows[static_cast<size_t>(member)], item);
  std::byte* address = peers_[static_cast<size_t>(rank)].block.address(publication.arena, publication.offset, bytes);
  if (address) return address;
  return internalError(describe(rank, publication) + ", which lies outside that rank's shared arenas (arena " +
                       std::to_string(publication.arena) + ", offset " + std::to_string(publication.offset) + ")");
}

Status Communicator::performWork(Channel& channel, const CollectiveCall& call, uint64_t item) {
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
      return reduce(channel, call, item);
    case CollectiveKind::kReduceScatter:
      return call.parts ? reduceFlat(channel, call, item) : reduce(channel, call, item);
    case CollectiveKind::kAllGather:
      return call.parts ? gatherFlat(channel, call, item) : gather(channel, call, item);
    case CollectiveKind::kAllToAll:
      return allToAll(channel, call, item);
    case CollectiveKind::kShift:
      return shift(channel, call, item);
    case CollectiveKind::kBarrier:
      return {};
  }
  return internalError("an exchange of a kind that is not known");
}

Status Communicator::reduce(Channel& channel, const CollectiveCall& call, uint64_t item) {
  const int members = static_cast<int>(channel.members.size());
  const bool scatter = call.kind == CollectiveKind::kReduceScatter;
  const int64_t total = scatter ? call.count * members : call.count;
  std::vector<const std::byte*>& sources = sourcesOfThread();
  std::vector<std::byte*>& targets = targetsOfThread();
  sources.clear();
  targets.clear();
  for (int member = 0; member < members; ++member) {
    Result<std::byte*> address = addressAt(channel, member, item, total * sizeOf(call.dtype));
    if (!address.ok()) return address.status();
    sources.push_back(*address);
    if (!scatter) targets.push_back(*address);
  }
  ReduceRange range{call.dtype, call.op, 0, 0};
  if (scatter) {
    range.begin = range.targetShift = call.count * channel.self;
    range.end = range.begin + call.count;
    targets.push_back(ownAddress(call.destination));
  } else {
    if (members == 1) return {};
    range.begin = sliceBegin(total, members, channel.self);
    range.end = sliceBegin(total, members, channel.self + 1);
  }
  reduceRange(range, sources, targets);
  return {};
}

int64_t Communicator::flatCoordinate(const CollectiveDesc& row, int rank) const {
  const Coordinates at = coordinatesOf(program_.mesh, rank);
  int64_t coordinate = 0;
  for (Axis axis : row.flat) coordinate = coordinate * sizeOf(program_.mesh, axis) + coordinateOf(at, axis);
  return coordinate;
}

// Of a bucket's tensors only the first one's place is published: the members of one stage have them at equal offsets.
Result<std::byte*> Communicator::flatAddressAt(const Channel& channel, const CollectiveCall& call, int member,
                                               uint64_t item, int part) const {
  const FlatPart& own = call.parts[part];
  const bool inPlace = own.shard.arena < 0;
  const int64_t bytes = (inPlace ? own.elements : own.shardElements) * sizeOf(call.dtype);
  if (part == 0) return addressAt(channel, member, item, bytes);
  const int rank = channel.members[static_cast<size_t>(member)];
  const BufferRef place = inPlace ? own.whole : own.shard;
  std::byte* address = peers_[static_cast<size_t>(rank)].block.address(place.arena, place.offset, bytes);
  if (address) return address;
  return internalError("tensor " + std::to_string(part) + " of " + nameItem(rank_, itemOf(channel.own(), item)) +
                       " lies outside the shared arenas of rank " + std::to_string(rank));
}

// Nobody but the members with this one's shard reads or writes it, so sums are left in the sources themselves; these
// members divide its elements among them and write to all of them.
Status Communicator::reduceFlat(Channel& channel, const CollectiveCall& call, uint64_t item) {
  const CollectiveDesc& row = program_.collectives[call.collective];
  const int64_t coordinate = flatCoordinate(row, rank_);
  int sharing = 0, self = 0;
  for (int rank : channel.members) {
    if (flatCoordinate(row, rank) != coordinate) continue;
    if (rank == rank_) self = sharing;
    ++sharing;
  }
  std::vector<const std::byte*>& sources = sourcesOfThread();
  std::vector<std::byte*>& targets = targetsOfThread();
  for (int i = 0; i < call.partCount; ++i) {
    sources.clear();
    targets.clear();
    for (int member = 0; member < static_cast<int>(channel.members.size()); ++member) {
      Result<std::byte*> address = flatAddressAt(channel, call, member, item, i);
      if (!address.ok()) return address.status();
      sources.push_back(*address);
      if (flatCoordinate(row, channel.members[static_cast<size_t>(member)]) == coordinate) targets.push_back(*address);
    }
    const FlatShard shard = flatShard(coordinate, call.parts[i].shardElements, call.parts[i].elements);
    ReduceRange range{call.dtype, call.op, 0, 0};
    range.begin = shard.begin + sliceBegin(shard.count, sharing, self);
    range.end = shard.begin + sliceBegin(shard.count, sharing, self + 1);
    if (range.begin < range.end) reduceRange(range, sources, targets);
  }
  return {};
}

Status Communicator::gatherFlat(Channel& channel, const CollectiveCall& call, uint64_t item) {
  const CollectiveDesc& row = program_.collectives[call.collective];
  const int64_t size = sizeOf(call.dtype);
  for (int i = 0; i < call.partCount; ++i) {
    const FlatPart& part = call.parts[i];
    for (int member = 0; member < static_cast<int>(channel.members.size()); ++member) {
      Result<std::byte*> source = flatAddressAt(channel, call, member, item, i);
      if (!source.ok()) return source.status();
      const int64_t coordinate = flatCoordinate(row, channel.members[static_cast<size_t>(member)]);
      const FlatShard shard = flatShard(coordinate, part.shardElements, part.elements);
      std::byte* place = ownAddress(part.whole) + shard.begin * size;
      const std::byte* from = *source + (part.shard.arena < 0 ? shard.begin * size : 0);
      if (from != place && shard.count > 0) std::memcpy(place, from, static_cast<size_t>(shard.count * size));
    }
  }
  return {};
}

Status Communicator::gather(Channel& channel, const CollectiveCall& call, uint64_t item) {
  const int64_t bytes = call.count * sizeOf(call.dtype);
  std::byte* destination = ownAddress(call.destination);
  for (int member = 0; member < static_cast<int>(channel.members.size()); ++member) {
    Result<std::byte*> source = addressAt(channel, member, item, bytes);
    if (!source.ok()) return source.status();
    std::byte* place = destination + bytes * member;
    if (*source != place) std::memcpy(place, *source, static_cast<size_t>(bytes));
  }
  return {};
}

// Each member begins with itself, so that not all of them read the same one's memory at once.
Status Communicator::allToAll(Channel& channel, const CollectiveCall& call, uint64_t item) {
  const int members = static_cast<int>(channel.members.size());
  const int64_t bytes = call.count * sizeOf(call.dtype);
  for (int i = 0; i < members; ++i) {
    const int member = (channel.self + i) % members;
    Result<std::byte*> source = addressAt(channel, member, item, bytes * members);
    if (!source.ok()) return source.status();
    std::memcpy(ownAddress(call.destination) + bytes * member, *source + bytes * channel.self,
                static_cast<size_t>(bytes));
  }
  return {};
}

Status Communicator::shift(Channel& channel, const CollectiveCall& call, uint64_t item) {
  const int64_t bytes = call.count * sizeOf(call.dtype);
  Result<std::byte*> source =
      addressAt(channel, memberBefore(channel.self, call.distance, channel.members.size()), item, bytes);
  if (!source.ok()) return source.status();
  std::memcpy(ownAddress(call.destination), *source, static_cast<size_t>(bytes));
  return {};
}

}  // namespace hycrt
