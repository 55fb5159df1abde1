// Silent: stands between a rank and its transport. While it is silent nothing of a sum over hosts passes between hosts,
// and what the other hosts would do comes at once: a running sum that is sent on is used up there and comes back as a
// result, and those of the host before come as there is room for them. What is left of a sum is what it does inside of
// its host: the same adds and copies, by the same code, on the same buffers.
//
// How many running sums there are it has counted when it was not silent. Words, such as that a sum begins, pass as
// ever.
#ifndef HYC_TEST_BENCH_SILENT_TRANSPORT_H_
#define HYC_TEST_BENCH_SILENT_TRANSPORT_H_

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "comm/sum_over_hosts.h"
#include "passing_transport.h"

class Silent : public PassingTransport {
 public:
  // Ranks are numbered host after host, `together` on each of `hosts`.
  Silent(std::unique_ptr<hycrt::Transport> inner, int self, int hosts, int together)
      : PassingTransport(std::move(inner)), self_(self), hosts_(hosts), together_(together) {}

  // Before a sum over all ranks, on each of them, when those before it are over.
  void beginSum(int channel, bool isSilent) {
    if (!isSilent_) chunks_ = folded_ - foldedBefore_;
    isSilent_ = isSilent;
    channel_ = channel;
    foldedBefore_ = came_ = folded_;
    for (uint64_t i = 0; isSilent && i < hycrt::SumOverHosts::kSlots; ++i) comeFromBefore();
  }

  void push(int rank, const hycrt::Push &push, const std::byte *from, int64_t bytes,
            std::atomic<uint64_t> *sent) override {
    // Each running sum that is dealt with goes on as such, or from the last host as a result.
    const bool isFold = push.stream == (isLast() ? hycrt::SumOverHosts::kResult : hycrt::SumOverHosts::kRunningSum);
    folded_ += isFold;
    if (!isSilent_) return inner_->push(rank, push, from, bytes, sent);
    if (sent) sent->fetch_add(1, std::memory_order_release);
    if (!isFold) return;
    if (!isLast()) {
      taker_->take(rank, pushOf(hycrt::SumOverHosts::kCredit, folded_), 0);
      taker_->take(neighbour(-1), pushOf(hycrt::SumOverHosts::kResult, 0), 0);
    }
    comeFromBefore();
  }
  void takePushes(hycrt::PushTaker *taker) override {
    taker_ = taker;
    inner_->takePushes(taker);
  }

  void tellBeside(int channel) override { inner_->tellBeside(channel); }
  const std::byte *carriedBy(int channel, int member, uint64_t item) const override {
    return inner_->carriedBy(channel, member, item);
  }
  int hostNumberOf(int rank) const override { return inner_->hostNumberOf(rank); }
  std::string hostOf(int rank) const override { return inner_->hostOf(rank); }
  int64_t bufferBytes() const override { return inner_->bufferBytes(); }
  void beginWait() override { inner_->beginWait(); }
  void poll() override { inner_->poll(); }
  void endWait() override { inner_->endWait(); }

 private:
  bool isFirst() const { return self_ < together_; }
  bool isLast() const { return self_ >= (hosts_ - 1) * together_; }
  // Of the host before (-1) or after it, in a ring.
  int neighbour(int distance) const {
    const int ranks = hosts_ * together_;
    return (self_ + distance * together_ + ranks) % ranks;
  }
  hycrt::Push pushOf(int32_t stream, uint64_t number) const { return {channel_, stream, number, 0, 0}; }
  void comeFromBefore() {
    if (isFirst() || came_ - foldedBefore_ == chunks_) return;
    const hycrt::Push push = pushOf(hycrt::SumOverHosts::kRunningSum, came_++);
    if (taker_->placeFor(neighbour(-1), push, 1)) taker_->take(neighbour(-1), push, 0);
  }

  const int self_, hosts_, together_;
  hycrt::PushTaker *taker_ = nullptr;
  bool isSilent_ = false;
  int channel_ = 0;
  uint64_t chunks_ = 0;  // of a sum
  uint64_t folded_ = 0, foldedBefore_ = 0,
           came_ = 0;  // running sums: dealt with; when the sum began; from the host before
};

#endif  // HYC_TEST_BENCH_SILENT_TRANSPORT_H_
