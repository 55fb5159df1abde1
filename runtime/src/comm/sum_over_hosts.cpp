// The cutting into segments and chunks, and the two ways of each: the running sum's, and the result's.
#include "comm/sum_over_hosts.h"

#include <algorithm>

#include "base/progress.h"
#include "comm/channels.h"
#include "comm/vector_reduce.h"

namespace hycrt {
namespace {

constexpr int64_t kSlotBytes = kMostPushedBytes;
// A vector is at least this many chunks, where these would not be too short to be worth a message.
constexpr int64_t kChunks = 16, kLeastChunk = 8192;

}  // namespace

bool SumOverHosts::layOut(const std::vector<int>& hostNumbers, int self, HostLayout* layout) {
  std::vector<int> first;  // by host, of its members
  for (size_t i = 0; i < hostNumbers.size(); ++i) {
    if (i == 0 || hostNumbers[i] != hostNumbers[i - 1]) first.push_back(static_cast<int>(i));
  }
  const int members = static_cast<int>(hostNumbers.size()), hosts = static_cast<int>(first.size());
  if (hosts < 2 || members % hosts != 0) return false;
  const int together = members / hosts;
  for (int host = 0; host < hosts; ++host) {
    const int number = hostNumbers[static_cast<size_t>(host * together)];
    if (first[static_cast<size_t>(host)] != host * together) return false;
    if (std::count(hostNumbers.begin(), hostNumbers.end(), number) != together) return false;
  }
  *layout = {hosts, together, self / together, self % together};
  return true;
}

SumOverHosts::SumOverHosts(const Program& program, Transport& transport, int channel, const std::vector<int>& members,
                           const HostLayout& layout, std::byte* const* arenas)
    : program_(program),
      transport_(transport),
      channel_(channel),
      members_(members),
      layout_(layout),
      arenas_(arenas),
      slots_(kSlots * static_cast<size_t>(kSlotBytes)),
      taken_(static_cast<size_t>(layout.hosts)),
      results_(static_cast<size_t>(layout.hosts)) {
  sources_.reserve(static_cast<size_t>(layout.together));
  targets_.reserve(static_cast<size_t>(layout.together));
}

int SumOverHosts::hostOfRank(int rank) const {
  for (int host = 0; host < layout_.hosts; ++host) {
    if (rankOn(host) == rank) return host;
  }
  return -1;
}

// An all_reduce is one segment, a reduce_scatter one for each host, a flat one for each shard of each part.
int SumOverHosts::segmentCount() const {
  if (call_.parts) {
    const CollectiveDesc& row = program_.collectives[call_.collective];
    return call_.partCount * static_cast<int>(sizeOf(program_.mesh, row.flat));
  }
  return isScattered() ? layout_.hosts : 1;
}

SumOverHosts::Segment SumOverHosts::segmentAt(int index) const {
  const auto laneOf = [this](int64_t begin, int64_t count) {
    return Segment{0, begin + sliceBegin(count, layout_.together, layout_.lane),
                   begin + sliceBegin(count, layout_.together, layout_.lane + 1)};
  };
  if (call_.parts) {
    const CollectiveDesc& row = program_.collectives[call_.collective];
    const int shards = static_cast<int>(sizeOf(program_.mesh, row.flat));
    const FlatPart& part = call_.parts[index / shards];
    const FlatShard shard = flatShard(index % shards, part.shardElements, part.elements);
    Segment segment = laneOf(shard.begin, shard.count);
    segment.part = index / shards;
    return segment;
  }
  if (!isScattered()) return laneOf(0, call_.count);
  const int64_t begin = call_.count * memberOn(index, layout_.lane);
  return {0, begin, begin + call_.count};
}

// Whether a segment's result belongs to this member.
bool SumOverHosts::takesHere(int member, int index) const {
  if (call_.parts) {
    const CollectiveDesc& row = program_.collectives[call_.collective];
    const int shards = static_cast<int>(sizeOf(program_.mesh, row.flat));
    return flatCoordinate(program_, row, members_[static_cast<size_t>(member)]) == index % shards;
  }
  return !isScattered() || member == memberOn(index, layout_.lane);
}

bool SumOverHosts::takes(int host, int index) const {
  for (int lane = 0; lane < layout_.together; ++lane) {
    if (takesHere(memberOn(host, lane), index)) return true;
  }
  return false;
}

// The result begins on the last host, and goes on from the first that takes it. -1: to nobody.
int SumOverHosts::takerAfter(int host, int index) const {
  for (int next = host == layout_.hosts - 1 ? 0 : host + 1; next < layout_.hosts - 1; ++next) {
    if (takes(next, index)) return next;
  }
  return -1;
}

int SumOverHosts::giverOf(int index) const {
  for (int host = layout_.host - 1; host >= 0; --host) {
    if (takes(host, index)) return host;
  }
  return layout_.hosts - 1;
}

int64_t SumOverHosts::chunkOf(const Cursor& cursor) const { return std::min(chunk_, cursor.segment.end - cursor.at); }

// Moves a cursor that is at its segment's end to the next one that has elements, of results to one that is taken here.
void SumOverHosts::settle(Cursor& cursor, bool ofResults) const {
  while (cursor.at >= cursor.segment.end || (ofResults && !takes(layout_.host, cursor.index))) {
    ++cursor.index;
    if (isAtEnd(cursor)) return;
    cursor.segment = segmentAt(cursor.index);
    cursor.at = cursor.segment.begin;
  }
}

std::byte* SumOverHosts::slotOf(uint64_t number) {
  return slots_.data() + static_cast<int64_t>(number % kSlots) * kSlotBytes;
}

// The first that is not free again.
uint64_t SumOverHosts::freed() const {
  uint64_t first = UINT64_MAX;
  for (uint64_t slot = 0; slot < kSlots; ++slot) {
    first = std::min(first, freed_[slot].load(std::memory_order_acquire) * kSlots + slot);
  }
  return first;
}

void SumOverHosts::begin(const CollectiveCall& call, uint64_t number) {
  {
    const std::lock_guard<std::mutex> lock(landingMutex_);
    call_ = call;
    number_ = number;
    hasBegun_ = true;
  }
  const int64_t share = isScattered() ? call.count * layout_.hosts : call.count / layout_.together;
  const int64_t most = kSlotBytes / sizeOf(runningType(call.dtype));
  chunk_ = std::clamp(share / kChunks / kLeastChunk * kLeastChunk, std::min(kLeastChunk, most), most);
  for (Cursor* cursor : {&folds_, &passes_}) {
    *cursor = {};
    cursor->index = -1;
    settle(*cursor, false);
  }
  if (isLast()) {
    passes_.index = segmentCount();  // the results are its own
  } else if (!isAtEnd(passes_)) {
    settle(passes_, true);
  }
}

bool SumOverHosts::canFold() const {
  if (isAtEnd(folds_)) return false;
  const uint64_t next = folded_.load(std::memory_order_relaxed);
  if (!isFirst() && arrived_.load(std::memory_order_acquire) <= next) return false;
  return isLast() || (next - freed() < kSlots && next < credits_.load(std::memory_order_acquire) + kSlots);
}

bool SumOverHosts::canPass() const {
  if (isAtEnd(passes_)) return false;
  const size_t giver = static_cast<size_t>(giverOf(passes_.index));
  return results_[giver].load(std::memory_order_acquire) > taken_[giver];
}

bool SumOverHosts::owesCredit() const { return !isFirst() && freed() > granted_; }

bool SumOverHosts::isOver() const {
  return isAtEnd(folds_) && isAtEnd(passes_) && freed() == folded_ &&
         sent_.load(std::memory_order_acquire) == pushed_ && !owesCredit();
}

Status SumOverHosts::progress(Find find) {
  if (owesCredit()) {
    granted_ = freed();
    transport_.push(rankOn(layout_.host - 1), {channel_, kCredit, granted_, 0, 0}, nullptr, 0, nullptr);
  }
  // Results first: somebody waits for them.
  if (canPass()) return pass(find);
  return canFold() ? fold(find) : Status();
}

// Of a segment's results, on this host.
Status SumOverHosts::findTargets(Find find, int index, int part) {
  targets_.clear();
  for (int lane = 0; lane < layout_.together; ++lane) {
    const int member = memberOn(layout_.host, lane);
    if (!takesHere(member, index)) continue;
    Result<std::byte*> found = find(member, part);
    if (!found.ok()) return found.status();
    targets_.push_back(*found);
  }
  return {};
}

Status SumOverHosts::fold(Find find) {
  const int64_t count = chunkOf(folds_), begin = folds_.at;
  const uint64_t number = folded_.load(std::memory_order_relaxed);
  std::byte* const slot = slotOf(number);
  sources_.clear();
  for (int lane = 0; lane < layout_.together; ++lane) {
    Result<std::byte*> found = find(memberOn(layout_.host, lane), folds_.segment.part);
    if (!found.ok()) return found.status();
    sources_.push_back(*found);
  }
  ReduceRange range{call_.dtype, call_.op, begin, begin + count, 0};
  targets_.clear();
  const std::byte* const before = isFirst() ? nullptr : slot;
  if (!isLast()) {
    const std::byte* from = slot;
    if (isFirst() && sources_.size() == 1 && runningType(call_.dtype) == call_.dtype) {
      from = sources_[0] + begin * sizeOf(call_.dtype);  // the term is the sum, and its result comes when it has gone
    } else {
      foldRange(range, before, sources_, slot, targets_);
    }
    folded_.store(number + 1, std::memory_order_release);
    transport_.push(rankOn(layout_.host + 1), {channel_, kRunningSum, number, 0, 0}, from,
                    count * sizeOf(runningType(call_.dtype)), &freedOf(number));
  } else {
    HYCRT_RETURN_IF_ERROR(finish(find, range, before, slot));
  }
  folds_.at += count;
  settle(folds_, false);
  noteProgress();
  return {};
}

// The last terms of a chunk.
Status SumOverHosts::finish(Find find, ReduceRange range, const std::byte* before, std::byte* slot) {
  const bool isTakenHere = takes(layout_.host, folds_.index);
  if (isTakenHere && isScattered()) {
    targets_.push_back(arenas_[call_.destination.arena] + call_.destination.offset);
    range.targetShift = folds_.segment.begin;
  } else if (isTakenHere) {
    HYCRT_RETURN_IF_ERROR(findTargets(find, folds_.index, folds_.segment.part));
  } else {
    // In front of what is still to be read of the slot: so little is gone through by one thread, block by block.
    targets_.push_back(slot);
    range.targetShift = range.begin;
  }
  foldRange(range, before, sources_, nullptr, targets_);
  const uint64_t number = folded_.fetch_add(1, std::memory_order_release);
  const bool goesOn = takerAfter(layout_.host, folds_.index) >= 0;
  std::atomic<uint64_t>* const sent = isTakenHere ? &sent_ : &freedOf(number);
  if (isTakenHere || !goesOn) freedOf(number).fetch_add(1, std::memory_order_release);
  if (!goesOn) return {};
  pushed_ += isTakenHere;
  pushResult(targets_[0] + (range.begin - range.targetShift) * sizeOf(call_.dtype), folds_, range.end - range.begin,
             sent);
  return {};
}

void SumOverHosts::pushResult(const std::byte* from, const Cursor& cursor, int64_t count, std::atomic<uint64_t>* sent) {
  transport_.push(rankOn(takerAfter(layout_.host, cursor.index)),
                  {channel_, kResult, number_, cursor.segment.part, cursor.at}, from, count * sizeOf(call_.dtype),
                  sent);
}

// A result that has come, to the others of this host and to the next one.
Status SumOverHosts::pass(Find find) {
  const int64_t count = chunkOf(passes_), size = sizeOf(call_.dtype);
  const std::byte* const from = landing(passes_.segment.part, passes_.at, count);
  if (takerAfter(layout_.host, passes_.index) >= 0) {
    ++pushed_;
    pushResult(from, passes_, count, &sent_);
  }
  if (!isScattered()) {
    HYCRT_RETURN_IF_ERROR(findTargets(find, passes_.index, passes_.segment.part));
    for (std::byte* target : targets_) {
      std::byte* const to = target + passes_.at * size;
      if (to != from) std::copy(from, from + count * size, to);
    }
  }
  ++taken_[static_cast<size_t>(giverOf(passes_.index))];
  passes_.at += count;
  settle(passes_, true);
  noteProgress();
  return {};
}

// Where a result belongs in this rank's memory; null: nowhere.
std::byte* SumOverHosts::landing(int part, int64_t begin, int64_t count) const {
  if (part < 0 || part >= (call_.parts ? call_.partCount : 1)) return nullptr;
  const int64_t shift = isScattered() ? call_.count * memberOn(layout_.host, layout_.lane) : 0;
  const int64_t elements = call_.parts ? call_.parts[part].elements : call_.count;
  if (begin < shift || count > elements || begin - shift > elements - count) return nullptr;
  const BufferRef to = call_.parts ? call_.parts[part].whole : call_.destination;
  return arenas_[to.arena] + to.offset + (begin - shift) * sizeOf(call_.dtype);
}

std::byte* SumOverHosts::placeFor(int rank, const Push& push, int64_t bytes) {
  const int host = hostOfRank(rank);
  if (push.stream == kRunningSum) {
    const bool isExpected =
        !isFirst() && host == layout_.host - 1 && push.number == placed_ && push.number - freed() < kSlots;
    if (!isExpected || bytes > kSlotBytes) return nullptr;
    ++placed_;
    return slotOf(push.number);
  }
  if (push.stream != kResult || host < 0) return nullptr;
  (void)folded_.load(std::memory_order_acquire);  // what was read where this goes has been read
  const std::lock_guard<std::mutex> lock(landingMutex_);
  const int64_t size = sizeOf(call_.dtype);
  if (!hasBegun_ || push.number != number_ || bytes % size != 0) return nullptr;
  return landing(push.part, push.begin, bytes / size);
}

bool SumOverHosts::take(int rank, const Push& push, int64_t) {
  const int host = hostOfRank(rank);
  if (host < 0) return false;
  switch (push.stream) {
    case kRunningSum:
      arrived_.fetch_add(1, std::memory_order_release);
      return true;
    case kResult:
      results_[static_cast<size_t>(host)].fetch_add(1, std::memory_order_release);
      return true;
    case kCredit:
      credits_.store(push.number, std::memory_order_release);
      return true;
    default:
      return false;
  }
}

}  // namespace hycrt
