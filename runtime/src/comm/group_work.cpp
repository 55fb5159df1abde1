// Collectives over a group: publish, wait for everyone's publication, do this member's share, wait until all have.
#include <algorithm>
#include <utility>

#include "base/progress.h"
#include "comm/host_exchanger.h"

namespace hycrt {
namespace {

const char* nameOf(uint8_t kind) {
  return kind == kTransferKind ? "transfer" : factsOf(static_cast<CollectiveKind>(kind)).name;
}

Publication& itemOf(ChannelSide& side, uint64_t item) { return side.ring[item % kRingSize]; }

// The op that asked for a collective; empty for a barrier.
const char* causeOf(const Program& program, const CollectiveCall& call) {
  return call.collective < 0 ? "" : program.collectives[call.collective].name;
}

using SideCounter = std::atomic<uint64_t> ChannelSide::*;

// The first member whose counter has not passed the item; -1: there is none.
int firstMissing(const std::vector<ChannelSide*>& sides, SideCounter counter, uint64_t item) {
  for (size_t i = 0; i < sides.size(); ++i) {
    if ((sides[i]->*counter).load(std::memory_order_acquire) <= item) return static_cast<int>(i);
  }
  return -1;
}

bool allHave(const std::vector<ChannelSide*>& sides, SideCounter counter, uint64_t item) {
  return firstMissing(sides, counter, item) < 0;
}

}  // namespace

Result<Ticket> HostExchanger::start(const CollectiveCall& call) {
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
  const Channel& channel = channels_[static_cast<size_t>(channelIndex)];
  if (wayOf(channel, call) == Way::kCarried) publication.carried = static_cast<int32_t>(carriedBytes(channel, call));
  return startOn(channelIndex, call, publication);
}

// Of what may come along with a publication.
int64_t HostExchanger::carriedBytes(const Channel& channel, const CollectiveCall& call) const {
  return sourceCount(call, static_cast<int>(channel.members.size())) * sizeOf(call.dtype);
}

HostExchanger::Way HostExchanger::wayOf(const Channel& channel, const CollectiveCall& call) const {
  if (channel.isMapped && !channel.spansHosts) return Way::kMapped;
  if (call.kind == CollectiveKind::kBarrier) return channel.spansHosts ? Way::kCarried : Way::kPulled;
  if (channel.spansHosts && !call.parts) {
    const int64_t bytes = carriedBytes(channel, call), members = static_cast<int64_t>(channel.members.size());
    if (bytes <= kMostCarriedBytes && bytes * members <= kMostCarriedToAll) return Way::kCarried;
  }
  return factsOf(call.kind).reduces && channel.sums ? Way::kOverHosts : Way::kPulled;
}

// Where nothing is fetched from this rank's memory, only those of this host still need it, or write to it.
const std::vector<ChannelSide*>& HostExchanger::enders(const Channel& channel, uint64_t item) const {
  const Way way = wayOf(channel, channel.calls[item % kRingSize]);
  return way == Way::kCarried || way == Way::kOverHosts ? channel.beside : channel.sides;
}

// Beyond the ring's size the oldest has to be over first, for everyone.
Result<Ticket> HostExchanger::startOn(int channelIndex, const CollectiveCall& call, const Publication& publication) {
  Channel& channel = channels_[static_cast<size_t>(channelIndex)];
  if (channel.started - channel.completed == kRingSize) HYCRT_RETURN_IF_ERROR(wait({channelIndex, channel.completed}));
  const uint64_t item = channel.started;
  if (item >= kRingSize && !allHave(channel.sides, &ChannelSide::finished, item - kRingSize)) {
    HYCRT_RETURN_IF_ERROR(finishUpTo(channel, item - kRingSize, channel.sides));
  }
  channel.calls[item % kRingSize] = call;
  itemOf(channel.own(), item) = publication;
  channel.started.store(item + 1, std::memory_order_release);
  noteProgress();
  channel.isUntold.store(false, std::memory_order_release);
  transport_->publish(channelIndex);
  if (options_.ownThread) transport_->wakeSelf();
  return Ticket{channelIndex, item};
}

Status HostExchanger::wait(Ticket ticket) {
  if (ticket.channel < 0) return {};
  const int64_t begin = monotonicNs();
  Status status = waitFor(ticket);
  const int64_t end = monotonicNs();
  const Channel& channel = channels_[static_cast<size_t>(ticket.channel)];
  addWait(end - begin, channel.spansHosts);
  if (status.ok()) countLateness(channel, ticket.sequence, begin, end);
  if (options_.trace) {
    const CollectiveCall& call = channel.calls[ticket.sequence % kRingSize];
    options_.trace->add(
        {TraceTrack::kWait, nameOf(static_cast<uint8_t>(call.kind)), causeOf(program_, call), begin, end});
  }
  return status;
}

// An item that was begun before it was waited for held nobody up.
void HostExchanger::countLateness(const Channel& channel, uint64_t item, int64_t beginNs, int64_t endNs) {
  const Channel::Arrival& arrival = channel.arrivals[item % kRingSize];
  const int64_t late = arrival.last < 0 ? 0 : std::max<int64_t>(0, std::min(arrival.ns, endNs) - beginNs);
  if (const int row = channel.calls[item % kRingSize].collective; row >= 0) {
    ExchangeTime& time = exchangeTimes_[static_cast<size_t>(row)];
    ++time.times;
    time.ns += endNs - beginNs;
    time.lateNs += late;
  }
  if (late == 0) return;
  lateness_.ns += late;
  lateness_.byRank[static_cast<size_t>(channel.members[static_cast<size_t>(arrival.last)])] += late;
}

Status HostExchanger::waitFor(Ticket ticket) {
  Channel& channel = channels_[static_cast<size_t>(ticket.channel)];
  // The oldest that is not over holds up the others.
  const auto itemNow = [&] { return std::min<uint64_t>(channel.worked, ticket.sequence); };
  const auto what = [&] { return nameItem(rank_, itemOf(channel.own(), itemNow())); };
  const auto attend = [&](Attendance& attendance) { attendItem(channel, itemNow(), attendance); };
  const Patience::Wait wait{what, attend};
  if (options_.ownThread) {
    HYCRT_RETURN_IF_ERROR(
        waitUntil(channel.members, wait, [&] { return threadFailed_ || channel.worked > ticket.sequence; }));
    if (threadFailed_) return threadStatus_;
  }
  while (channel.worked <= ticket.sequence) {
    if (!canAdvance(channel)) {
      const Awaited whom = isOnItsWay(channel) ? Awaited::kDistant : Awaited::kAnyone;
      HYCRT_RETURN_IF_ERROR(waitUntil(channel.members, wait, [&] { return canAdvance(channel); }, whom));
    }
    HYCRT_RETURN_IF_ERROR(advance(channel));
  }
  if (channel.completed > ticket.sequence) return {};
  HYCRT_RETURN_IF_ERROR(finishUpTo(channel, ticket.sequence, enders(channel, ticket.sequence)));
  channel.completed = ticket.sequence + 1;
  return {};
}

// The oldest item that has not had all of its work is a sum that has begun to go from host to host.
bool HostExchanger::isOnItsWay(const Channel& channel) const {
  const uint64_t item = channel.worked;
  return channel.begun > item && wayOf(channel, channel.calls[item % kRingSize]) == Way::kOverHosts;
}

// Missing is who has not published the item; where all have, who has not computed its slice; then, who is not done.
void HostExchanger::attendItem(const Channel& channel, uint64_t item, Attendance& attendance) const {
  const auto has = [&](size_t member, std::atomic<uint64_t> ChannelSide::* counter) {
    return (channel.sides[member]->*counter).load(std::memory_order_acquire) > item;
  };
  for (size_t i = 0; i < channel.members.size(); ++i) {
    if (has(i, &ChannelSide::published)) attendance.arrived.push_back(channel.members[i]);
  }
  for (auto counter : {&ChannelSide::published, &ChannelSide::reduced, &ChannelSide::finished}) {
    for (size_t i = 0; i < channel.members.size(); ++i) {
      if (channel.members[i] != rank_ && !has(i, counter)) attendance.missing.push_back(channel.members[i]);
    }
    if (!attendance.missing.empty()) return;
  }
}

// Whether the oldest item that has not had all of its work can have more: all members have published it; then, where it
// goes from host to host, something has come; where slices of a sum have to be pulled, all have computed theirs.
bool HostExchanger::canAdvance(Channel& channel) const {
  const uint64_t item = channel.worked;
  if (item >= channel.started) return false;
  if (channel.begun > item) {
    return isOnItsWay(channel) ? channel.sums->canProgress() : allHave(channel.sides, &ChannelSide::reduced, item);
  }
  const int missing = firstMissing(channel.sides, &ChannelSide::published, item);
  if (missing >= 0) channel.missing = missing;
  return missing < 0;
}

Status HostExchanger::advance(Channel& channel) {
  const uint64_t number = channel.worked;
  const Item item{channel, channel.calls[number % kRingSize], number};
  const Way way = wayOf(channel, item.call);
  const int64_t begin = monotonicNs();
  const bool isFirst = channel.begun <= number;
  if (isFirst) channel.arrivals[number % kRingSize] = {std::exchange(channel.missing, -1), begin};
  if (!isExchangeThread()) pullsFor_ = {rank_, &itemOf(channel.own(), number)};
  if (isFirst) {
    for (size_t member = 0; member < channel.members.size(); ++member) {
      HYCRT_RETURN_IF_ERROR(compare(channel, number, static_cast<int>(member)));
    }
    if (way == Way::kOverHosts) channel.sums->begin(item.call, number);
  }
  bool isOver = true;
  if (way == Way::kOverHosts) {
    HYCRT_RETURN_IF_ERROR(sumOverHosts(item));
    isOver = channel.sums->isOver();
  } else if (isFirst) {
    HYCRT_RETURN_IF_ERROR(perform(item));
    isOver = !pullsSlices(item);
  } else {
    HYCRT_RETURN_IF_ERROR(pullSlices(item));
  }
  channel.begun = number + 1;
  noteProgress();
  if (way == Way::kOverHosts && isFirst) channel.sumBeginNs = begin;
  if (way == Way::kOverHosts && !isOver) return {};
  countReceived(channel, way, item.call);
  if (options_.trace) {
    options_.trace->add({TraceTrack::kCommunication, nameOf(static_cast<uint8_t>(item.call.kind)),
                         causeOf(program_, item.call), way == Way::kOverHosts ? channel.sumBeginNs : begin,
                         monotonicNs()});
  }
  if (isFirst || way == Way::kOverHosts) channel.own().reduced.store(number + 1, std::memory_order_release);
  if (isOver) {
    channel.own().finished.store(number + 1, std::memory_order_release);
    // Last: from here on the caller may use the item's place for another.
    channel.worked.store(number + 1, std::memory_order_release);
  }
  // Of what has come along other hosts need not hear at once that it is done.
  if (way != Way::kCarried) {
    transport_->tell(channel.index);
    return {};
  }
  channel.isUntold.store(true, std::memory_order_release);
  transport_->tellBeside(channel.index);
  return {};
}

// Of an item that is over: what is fetched counts itself, and the pieces of sums as they come.
void HostExchanger::countReceived(const Channel& channel, Way way, const CollectiveCall& call) {
  if (way == Way::kOverHosts) receivingNs_.fetch_add(monotonicNs() - channel.sumBeginNs, std::memory_order_relaxed);
  if (way != Way::kCarried) return;
  const int64_t others = static_cast<int64_t>(channel.members.size() - channel.beside.size());
  receivedBytes_.fetch_add(others * carriedBytes(channel, call), std::memory_order_relaxed);
}

// Until these have finished the item.
Status HostExchanger::finishUpTo(const Channel& channel, uint64_t item, const std::vector<ChannelSide*>& sides) {
  const auto what = [&] { return nameItem(rank_, itemOf(channel.own(), item)); };
  const auto attend = [&](Attendance& attendance) { attendItem(channel, item, attendance); };
  return waitUntil(channel.members, Patience::Wait{what, attend},
                   [&] { return allHave(sides, &ChannelSide::finished, item); });
}

Status HostExchanger::compare(const Channel& channel, uint64_t item, int member) const {
  const Publication& own = itemOf(channel.own(), item);
  const Publication& other = itemOf(*channel.sides[static_cast<size_t>(member)], item);
  const bool same = own.id == other.id && own.kind == other.kind && own.dtype == other.dtype && own.op == other.op &&
                    own.count == other.count && own.partCount == other.partCount && own.distance == other.distance;
  // A bucket's further tensors are found where this member has them.
  const bool sameOffsets = own.partCount < 2 || (own.arena == other.arena && own.offset == other.offset);
  if (same && sameOffsets) return {};
  const int otherRank = channel.members[static_cast<size_t>(member)];
  return internalError("collectives do not meet: " + describe(rank_, own) + " where " + describe(otherRank, other));
}

std::string HostExchanger::describe(int rank, const Publication& publication) const {
  return "rank " + std::to_string(rank) + " does " + nameItem(rank, publication);
}

// "all_reduce 'h.0.mlp.c_proj' (id 7, sum of 1024 × f32)", "shift 'kv' (id 8, by 1 of 512 × bf16)".
std::string HostExchanger::nameItem(int rank, const Publication& publication) const {
  std::string text = std::string(nameOf(publication.kind)) + " '" + transport_->nameOf(rank, publication.name) + "'";
  if (publication.kind == static_cast<uint8_t>(CollectiveKind::kBarrier)) return text;
  text += " (id " + std::to_string(publication.id) + ", ";
  if (publication.kind == kTransferKind) {
    return text + "micro-batch " + std::to_string(publication.microBatch) + ", " + std::to_string(publication.count) +
           " bytes)";
  }
  const CollectiveKind kind = static_cast<CollectiveKind>(publication.kind);
  if (factsOf(kind).reduces) text += publication.op == ReduceOp::kSum ? "sum of " : "max of ";
  if (factsOf(kind).hasDistance) text += "by " + std::to_string(publication.distance) + " of ";
  return text + std::to_string(publication.count) + " × " + hycrt::nameOf(publication.dtype) + ")";
}

}  // namespace hycrt
