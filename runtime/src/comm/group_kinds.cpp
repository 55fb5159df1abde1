// What each kind of collective does with the members' bytes, once all have published where they lie.
#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "comm/host_exchanger.h"

namespace hycrt {
namespace {

// Of the work in progress, on whichever thread that is; they keep their capacity, since a step must not allocate.
template <typename T, int kWhich>
std::vector<T>& listOfThread() {
  thread_local std::vector<T> list;
  list.clear();
  return list;
}

}  // namespace

Result<HostExchanger::Source> HostExchanger::sourceOf(const Item& item, int member, int64_t bytes) const {
  const int rank = item.channel.members[static_cast<size_t>(member)];
  const Publication& publication = item.channel.sides[static_cast<size_t>(member)]->ring[item.number % kRingSize];
  const Transport::Bytes found = transport_->find(rank, publication.arena, publication.offset, bytes);
  if (found.exist) {
    const bool hasCome = !found.address && bytes > 0 && publication.carried == bytes;
    return Source{rank,
                  {publication.arena, publication.offset},
                  found.address,
                  hasCome ? transport_->carriedBy(item.channel.index, member, item.number) : nullptr};
  }
  return internalError(describe(rank, publication) + ", which lies outside that rank's shared arenas (arena " +
                       std::to_string(publication.arena) + ", offset " + std::to_string(publication.offset) + ")");
}

// Of a bucket's tensors only the first one's place is published: the members of one stage have them at equal offsets.
Result<HostExchanger::Source> HostExchanger::flatSourceOf(const Item& item, int member, int part) const {
  const FlatPart& own = item.call.parts[part];
  const bool inPlace = own.shard.arena < 0;
  const int64_t bytes = (inPlace ? own.elements : own.shardElements) * sizeOf(item.call.dtype);
  if (part == 0) return sourceOf(item, member, bytes);
  const int rank = item.channel.members[static_cast<size_t>(member)];
  const BufferRef place = inPlace ? own.whole : own.shard;
  const Transport::Bytes found = transport_->find(rank, place.arena, place.offset, bytes);
  if (found.exist) return Source{rank, place, found.address};
  return internalError("tensor " + std::to_string(part) + " of " +
                       nameItem(rank_, item.channel.own().ring[item.number % kRingSize]) +
                       " lies outside the shared arenas of rank " + std::to_string(rank));
}

// From `offset` of the source on.
Status HostExchanger::copy(const Source& source, int64_t offset, int64_t bytes, std::byte* to) {
  if (bytes == 0) return {};
  if (const std::byte* const from = source.readable()) {
    if (from + offset != to) std::memcpy(to, from + offset, static_cast<size_t>(bytes));
    return {};
  }
  const auto what = [&] { return nameItem(pullsFor_.rank, *pullsFor_.publication); };
  const auto look = [&] { return lookWhilePulling(source.rank, what); };
  if (!isExchangeThread()) pullPatience_.begin();
  const int64_t begin = monotonicNs();
  HYCRT_RETURN_IF_ERROR(
      transport_->pull(source.rank, source.place.arena, source.place.offset + offset, bytes, to, look));
  receivingNs_.fetch_add(monotonicNs() - begin, std::memory_order_relaxed);
  receivedBytes_.fetch_add(bytes, std::memory_order_relaxed);
  return {};
}

// What cannot be read where it lies is pulled in chunks, one source after the other, as the fold comes to it.
Status HostExchanger::combine(const ReduceRange& range, const std::vector<Source>& sources,
                              const std::vector<std::byte*>& targets) {
  std::vector<const std::byte*>& from = listOfThread<const std::byte*, 0>();
  for (const Source& source : sources) from.push_back(source.readable());
  if (std::find(from.begin(), from.end(), nullptr) == from.end()) {
    reduceRange(range, from, targets);
    return {};
  }
  const int64_t size = sizeOf(range.dtype), chunk = kPulledChunkBytes / size;
  std::byte* const running = pulled_.data() + kPulledChunkBytes;
  std::vector<std::byte*>& to = listOfThread<std::byte*, 1>();
  for (int64_t begin = range.begin; begin < range.end; begin += chunk) {
    const int64_t count = std::min(chunk, range.end - begin);
    to.clear();
    for (std::byte* target : targets) to.push_back(target + (begin - range.targetShift) * size);
    const std::byte* before = nullptr;
    for (size_t i = 0; i < sources.size(); ++i) {
      from.assign(1, sources[i].readable() ? sources[i].readable() + begin * size : pulled_.data());
      if (!sources[i].readable()) {
        HYCRT_RETURN_IF_ERROR(copy(sources[i], begin * size, count * size, pulled_.data()));
      }
      const bool isLast = i + 1 == sources.size();
      foldRange({range.dtype, range.op, 0, count, 0}, before, from, isLast ? nullptr : running, to);
      before = running;
    }
  }
  return {};
}

// Whether a slice of the result is left where others have to fetch it.
bool HostExchanger::pullsSlices(const Item& item) const {
  if (wayOf(item.channel, item.call) != Way::kPulled) return false;
  switch (item.call.kind) {
    case CollectiveKind::kAllReduce:
      return true;
    case CollectiveKind::kReduceScatter:
      return item.call.parts != nullptr;
    case CollectiveKind::kAllGather:
    case CollectiveKind::kBarrier:
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kShift:
      return false;
  }
  return false;
}

// Each member begins with itself, so that not all of them read the same one's memory at once.
template <>
Status HostExchanger::performAlone<CollectiveKind::kAllToAll>(const Item& item) {
  const int members = static_cast<int>(item.channel.members.size()), self = item.channel.self;
  const int64_t bytes = item.call.count * sizeOf(item.call.dtype);
  std::byte* const destination = ownAddress(item.call.destination);
  for (int i = 0; i < members; ++i) {
    const int member = (self + i) % members;
    Result<Source> source = sourceOf(item, member, bytes * members);
    if (!source.ok()) return source.status();
    HYCRT_RETURN_IF_ERROR(copy(*source, bytes * self, bytes, destination + bytes * member));
  }
  return {};
}

template <>
Status HostExchanger::performAlone<CollectiveKind::kShift>(const Item& item) {
  const int64_t bytes = item.call.count * sizeOf(item.call.dtype);
  const Channel& channel = item.channel;
  Result<Source> source = sourceOf(item, memberBefore(channel.self, item.call.distance, channel.members.size()), bytes);
  if (!source.ok()) return source.status();
  return copy(*source, 0, bytes, ownAddress(item.call.destination));
}

// Before this member has finished the item, since its place may be another's afterwards.
template <>
Status HostExchanger::performAlone<CollectiveKind::kBarrier>(const Item& item) {
  for (size_t i = 0; i < item.channel.sides.size(); ++i) {
    const Publication& publication = item.channel.sides[i]->ring[item.number % kRingSize];
    shared_[static_cast<size_t>(item.channel.members[i])] = static_cast<uint64_t>(publication.offset);
  }
  return {};
}

Status HostExchanger::perform(const Item& item) {
  switch (item.call.kind) {
    case CollectiveKind::kAllReduce:
      return reduce(item);
    case CollectiveKind::kReduceScatter:
      return item.call.parts ? reduceFlat(item) : reduce(item);
    case CollectiveKind::kAllGather:
      return item.call.parts ? gatherFlat(item) : gather(item);
    case CollectiveKind::kAllToAll:
      return performAlone<CollectiveKind::kAllToAll>(item);
    case CollectiveKind::kShift:
      return performAlone<CollectiveKind::kShift>(item);
    case CollectiveKind::kBarrier:
      return performAlone<CollectiveKind::kBarrier>(item);
  }
  return internalError("an exchange of a kind that is not known");
}

// A slice of an all_reduce is written to all members that can be reached; the others pull it (pullSlices). Until then
// nobody but its member reads that slice of anyone's.
Status HostExchanger::reduce(const Item& item) {
  const CollectiveCall& call = item.call;
  const int members = static_cast<int>(item.channel.members.size());
  const bool scatter = call.kind == CollectiveKind::kReduceScatter;
  const int64_t total = sourceCount(call, members);
  std::vector<Source>& sources = listOfThread<Source, 2>();
  std::vector<std::byte*>& targets = listOfThread<std::byte*, 3>();
  for (int member = 0; member < members; ++member) {
    Result<Source> source = sourceOf(item, member, total * sizeOf(call.dtype));
    if (!source.ok()) return source.status();
    sources.push_back(*source);
    if (!scatter && source->address) targets.push_back(source->address);
  }
  ReduceRange range{call.dtype, call.op, 0, 0};
  if (scatter) {
    range.begin = range.targetShift = call.count * item.channel.self;
    range.end = range.begin + call.count;
    targets.push_back(ownAddress(call.destination));
  } else {
    if (members == 1) return {};
    // Those to whom all others' terms have come divide the work among them.
    const bool isCarried = wayOf(item.channel, call) == Way::kCarried;
    const int sharers = isCarried ? static_cast<int>(item.channel.beside.size()) : members;
    const int self = isCarried ? item.channel.place : item.channel.self;
    range.begin = sliceBegin(total, sharers, self);
    range.end = sliceBegin(total, sharers, self + 1);
  }
  return combine(range, sources, targets);
}

// A chunk of what can be done now.
Status HostExchanger::sumOverHosts(const Item& item) {
  return item.channel.sums->progress([&](int member, int part) -> Result<std::byte*> {
    const int64_t bytes =
        sourceCount(item.call, static_cast<int>(item.channel.members.size())) * sizeOf(item.call.dtype);
    Result<Source> source = item.call.parts ? flatSourceOf(item, member, part) : sourceOf(item, member, bytes);
    if (!source.ok()) return source.status();
    return source->address;
  });
}

HostExchanger::Sharers HostExchanger::sharingOf(const Item& item) const {
  const CollectiveDesc& row = program_.collectives[item.call.collective];
  Sharers sharing{flatCoordinate(program_, row, rank_)};
  for (int rank : item.channel.members) {
    if (flatCoordinate(program_, row, rank) != sharing.coordinate) continue;
    if (rank == rank_) sharing.self = sharing.count;
    ++sharing.count;
  }
  return sharing;
}

// Nobody but the members with this one's shard reads or writes it, so sums are left in the sources themselves; these
// members divide its elements among them and write to all of them.
Status HostExchanger::reduceFlat(const Item& item) {
  const CollectiveCall& call = item.call;
  const CollectiveDesc& row = program_.collectives[call.collective];
  const Sharers sharing = sharingOf(item);
  for (int i = 0; i < call.partCount; ++i) {
    std::vector<Source>& sources = listOfThread<Source, 2>();
    std::vector<std::byte*>& targets = listOfThread<std::byte*, 3>();
    for (int member = 0; member < static_cast<int>(item.channel.members.size()); ++member) {
      Result<Source> source = flatSourceOf(item, member, i);
      if (!source.ok()) return source.status();
      sources.push_back(*source);
      const int rank = item.channel.members[static_cast<size_t>(member)];
      if (source->address && flatCoordinate(program_, row, rank) == sharing.coordinate) {
        targets.push_back(source->address);
      }
    }
    const FlatShard shard = flatShard(sharing.coordinate, call.parts[i].shardElements, call.parts[i].elements);
    ReduceRange range{call.dtype, call.op, 0, 0};
    range.begin = shard.begin + sliceBegin(shard.count, sharing.count, sharing.self);
    range.end = shard.begin + sliceBegin(shard.count, sharing.count, sharing.self + 1);
    if (range.begin < range.end) HYCRT_RETURN_IF_ERROR(combine(range, sources, targets));
  }
  return {};
}

// The slices that others have computed and could not write here.
Status HostExchanger::pullSlices(const Item& item) {
  const CollectiveCall& call = item.call;
  const int members = static_cast<int>(item.channel.members.size());
  const int64_t size = sizeOf(call.dtype);
  const auto pull = [&](const Source& source, BufferRef to, int64_t begin, int64_t end) -> Status {
    if (source.address) return {};  // and so it could reach this member's
    return copy(source, begin * size, (end - begin) * size, ownAddress(to) + begin * size);
  };
  if (!call.parts) {
    for (int member = 0; member < members; ++member) {
      Result<Source> source = sourceOf(item, member, call.count * size);
      if (!source.ok()) return source.status();
      HYCRT_RETURN_IF_ERROR(pull(*source, call.source, sliceBegin(call.count, members, member),
                                 sliceBegin(call.count, members, member + 1)));
    }
    return {};
  }
  const CollectiveDesc& row = program_.collectives[call.collective];
  const Sharers sharing = sharingOf(item);
  for (int i = 0; i < call.partCount; ++i) {
    const FlatShard shard = flatShard(sharing.coordinate, call.parts[i].shardElements, call.parts[i].elements);
    int index = 0;  // among those that share the shard
    for (int member = 0; member < members; ++member) {
      if (flatCoordinate(program_, row, item.channel.members[static_cast<size_t>(member)]) != sharing.coordinate) {
        continue;
      }
      Result<Source> source = flatSourceOf(item, member, i);
      if (!source.ok()) return source.status();
      HYCRT_RETURN_IF_ERROR(pull(*source, call.parts[i].whole,
                                 shard.begin + sliceBegin(shard.count, sharing.count, index),
                                 shard.begin + sliceBegin(shard.count, sharing.count, index + 1)));
      ++index;
    }
  }
  return {};
}

Status HostExchanger::gatherFlat(const Item& item) {
  const CollectiveCall& call = item.call;
  const CollectiveDesc& row = program_.collectives[call.collective];
  const int64_t size = sizeOf(call.dtype);
  for (int i = 0; i < call.partCount; ++i) {
    const FlatPart& part = call.parts[i];
    for (int member = 0; member < static_cast<int>(item.channel.members.size()); ++member) {
      Result<Source> source = flatSourceOf(item, member, i);
      if (!source.ok()) return source.status();
      const int64_t coordinate = flatCoordinate(program_, row, item.channel.members[static_cast<size_t>(member)]);
      const FlatShard shard = flatShard(coordinate, part.shardElements, part.elements);
      HYCRT_RETURN_IF_ERROR(copy(*source, part.shard.arena < 0 ? shard.begin * size : 0, shard.count * size,
                                 ownAddress(part.whole) + shard.begin * size));
    }
  }
  return {};
}

Status HostExchanger::gather(const Item& item) {
  const int64_t bytes = item.call.count * sizeOf(item.call.dtype);
  std::byte* const destination = ownAddress(item.call.destination);
  for (int member = 0; member < static_cast<int>(item.channel.members.size()); ++member) {
    Result<Source> source = sourceOf(item, member, bytes);
    if (!source.ok()) return source.status();
    HYCRT_RETURN_IF_ERROR(copy(*source, 0, bytes, destination + bytes * member));
  }
  return {};
}

}  // namespace hycrt
