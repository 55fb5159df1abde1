// Transfers between stages. A send publishes where its data lies; the receiver copies it from there and says so; then
// the sender may overwrite it. All transfers of one exchange are driven from one loop, each as far as it can go, so two
// stages that send to each other at once never wait in a circle.
#include <algorithm>

#include "base/progress.h"
#include "comm/host_exchanger.h"

namespace hycrt {

Status HostExchanger::exchange(const TransferUse* uses, int count) {
  const int64_t begin = monotonicNs();
  copyingNs_ = 0;
  lastPeer_ = -1;
  Status status = runExchange(uses, count);
  const int64_t end = monotonicNs();
  addWait(end - begin, spansHosts(movingPeers_));
  if (lastPeer_ >= 0) {
    const int64_t late = end - begin - copyingNs_;
    lateness_.ns += late;
    lateness_.byRank[static_cast<size_t>(lastPeer_)] += late;
    ExchangeTime& time = exchangeTimes_[static_cast<size_t>(program_.collectives.size + uses[0].transfer)];
    ++time.times;
    time.ns += end - begin;
    time.lateNs += late;
  }
  if (options_.trace && count > 0) {
    options_.trace->add({TraceTrack::kWait, "transfer", program_.transfers[uses[0].transfer].name, begin, end});
  }
  return status;
}

Status HostExchanger::runExchange(const TransferUse* uses, int count) {
  moving_.clear();
  movingPeers_.clear();
  for (int i = 0; i < count; ++i) {
    const TransferDesc& transfer = program_.transfers[uses[i].transfer];
    const int index = plans_.ofTransfer[static_cast<size_t>(uses[i].transfer)];
    Channel& channel = channels_[static_cast<size_t>(index)];
    moving_.push_back({&transfer, &uses[i], index, channel.started++});
    movingPeers_.push_back(channel.members[transfer.direction == Direction::kSend ? 1 : 0]);
  }
  const auto what = [&] {
    std::string names;
    for (const Moving& one : moving_) {
      if (one.state != Moving::State::kDone) names += (names.empty() ? "" : ", ") + std::string(one.transfer->name);
    }
    return "the exchange of " + names;
  };
  Status status;
  const auto attend = [&](Attendance& attendance) { attendTransfers(attendance); };
  HYCRT_RETURN_IF_ERROR(waitUntil(movingPeers_, Patience::Wait{what, attend}, [&] {
    bool allDone = true;
    for (Moving& one : moving_) {
      if (one.state == Moving::State::kDone || !status.ok()) continue;
      const bool isDone = progress(one, &status);
      if (isDone) lastPeer_ = movingPeers_[static_cast<size_t>(&one - moving_.data())];
      allDone = isDone && allDone;
    }
    return allDone || !status.ok();
  }));
  return status;
}

// Of those that something is still to come from, or to be taken by; a rank may be both.
void HostExchanger::attendTransfers(Attendance& attendance) const {
  attendance.arrived.push_back(rank_);
  for (size_t i = 0; i < moving_.size(); ++i) {
    std::vector<int>& list = moving_[i].state == Moving::State::kDone ? attendance.arrived : attendance.missing;
    if (std::find(list.begin(), list.end(), movingPeers_[i]) == list.end()) list.push_back(movingPeers_[i]);
  }
  std::sort(attendance.arrived.begin(), attendance.arrived.end());
  std::sort(attendance.missing.begin(), attendance.missing.end());
}

// Whether the transfer is over.
bool HostExchanger::progress(Moving& moving, Status* status) {
  Channel& channel = channels_[static_cast<size_t>(moving.channel)];
  const int64_t offset = moving.transfer->buffer.offset + moving.transfer->slotStride * moving.use->slot;
  if (moving.transfer->direction == Direction::kReceive) {
    const bool offered = channel.sides[0]->published.load(std::memory_order_acquire) > moving.item;
    if (!offered || channel.completed != moving.item) return false;
    const int64_t begin = monotonicNs();
    *status = receive(channel, moving);
    copyingNs_ += monotonicNs() - begin;
    if (!status->ok()) return false;
    channel.completed = moving.item + 1;
    channel.own().finished.store(channel.completed, std::memory_order_release);
    noteProgress();
    // Of what had come along the sender need not hear at once.
    const int32_t carried = channel.sides[0]->ring[moving.item % kRingSize].carried;
    receivedBytes_.fetch_add(carried, std::memory_order_relaxed);
    carried > 0 ? channel.isUntold.store(true, std::memory_order_release) : transport_->tell(channel.index);
    moving.state = Moving::State::kDone;
    return true;
  }
  const uint64_t taken = channel.sides[1]->finished.load(std::memory_order_acquire);
  if (moving.state == Moving::State::kIdle) {
    // In order, and only where the ring has room.
    if (channel.completed != moving.item || moving.item - taken >= kRingSize) return false;
    Publication offer{};
    offer.id = moving.transfer->tag;
    offer.kind = kTransferKind;
    offer.dtype = DType::kU8;
    offer.microBatch = moving.use->microBatch;
    offer.count = moving.transfer->bytes;
    offer.name = static_cast<int32_t>(program_.collectives.size + moving.use->transfer);
    offer.arena = moving.transfer->buffer.arena;
    offer.offset = offset;
    if (channel.spansHosts && offer.count <= kMostCarriedBytes) offer.carried = static_cast<int32_t>(offer.count);
    channel.own().ring[moving.item % kRingSize] = offer;
    channel.completed = moving.item + 1;  // of a sender: items that are published
    noteProgress();
    transport_->publish(channel.index);
    moving.state = Moving::State::kOffered;
    if (offer.carried > 0) {  // and so may be overwritten
      moving.state = Moving::State::kDone;
      return true;
    }
  }
  if (taken <= moving.item) return false;
  moving.state = Moving::State::kDone;
  return true;
}

Status HostExchanger::receive(Channel& channel, const Moving& moving) {
  const Publication& offered = channel.sides[0]->ring[moving.item % kRingSize];
  const TransferDesc& wanted = *moving.transfer;
  const int sender = channel.members[0];
  if (offered.id != wanted.tag || offered.microBatch != moving.use->microBatch || offered.count != wanted.bytes) {
    Publication own{};
    own.id = wanted.tag;
    own.kind = kTransferKind;
    own.microBatch = moving.use->microBatch;
    own.count = wanted.bytes;
    own.name = static_cast<int32_t>(program_.collectives.size + moving.use->transfer);
    return internalError("transfers do not meet: rank " + std::to_string(rank_) + " expects " + nameItem(rank_, own) +
                         ", but rank " + std::to_string(sender) + " sends " + nameItem(sender, offered));
  }
  pullsFor_ = {sender, &offered};
  const CollectiveCall none{};
  Result<Source> source = sourceOf({channel, none, moving.item}, 0, wanted.bytes);
  if (!source.ok()) return source.status();
  return copy(*source, 0, wanted.bytes,
              ownAddress({wanted.buffer.arena, wanted.buffer.offset + wanted.slotStride * moving.use->slot}));
}

}  // namespace hycrt
