// SumOverHosts: the sums of a channel whose members stand on several hosts, each host's equally many and neighbours in
// the group's order. What passes between hosts is then one running sum, and not every member's terms.
//
// The vector is cut into lanes, of which member i of every host works on the i-th. The left fold in the group's order
// goes along the hosts: a lane's first member adds the terms of its host, the next host's continues that running sum
// with its own, and so on, chunk after chunk, so that all hosts work at once. The last one rounds. The result then goes
// to the hosts that take it, in their order, each of which hands it on. Bits are those of one host, since the order is.
//
// Worked for an all_reduce over members 0 to 3, two a host (a lane is half of the vector):
//
//   lane 0   member 0: a = x0 + x1, pushed to 2     member 2: r = (a + x2) + x3, into 2 and 3, pushed to 0
//            member 0: r into its own memory and 1's
//   lane 1   the same between members 1 and 3
//
// A running sum lies in one of kSlots slots of this rank, from where it is received to where it is sent (that of the
// first host's only member where its term is); the member before is told when one is free again. Results go from the
// slots of the last member to several others, so that slots become free in any order. A result is received where it
// belongs: nobody but this member reads its lane.
#ifndef HYCRT_SRC_COMM_SUM_OVER_HOSTS_H_
#define HYCRT_SRC_COMM_SUM_OVER_HOSTS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/function_ref.h"
#include "comm/collective_call.h"
#include "comm/transport.h"
#include "comm/vector_reduce.h"

namespace hycrt {

// How the members of a channel stand: `together` on each of `hosts` hosts, in order.
struct HostLayout {
  int hosts = 1, together = 1;
  int host = 0, lane = 0;  // of this rank
};

class SumOverHosts {
 public:
  // Of a channel, by member: the hosts' numbers. False: they stand otherwise, and each fetches what it needs.
  static bool layOut(const std::vector<int>& hostNumbers, int self, HostLayout* layout);

  // All outlive it. `arenas` are this rank's.
  SumOverHosts(const Program& program, Transport& transport, int channel, const std::vector<int>& members,
               const HostLayout& layout, std::byte* const* arenas);

  // What a push is: of a running sum `number` counts on from item to item, of a result it is the item's, and a credit
  // tells how many slots have become free.
  enum Stream : int32_t { kRunningSum, kResult, kCredit };

  // Where a member of this host has a part's whole vector.
  using Find = FunctionRef<Result<std::byte*>(int member, int part)>;

  // The next item of the channel, which all members have published; `call` lasts as long as it.
  void begin(const CollectiveCall& call, uint64_t number);
  // Whether progress() would do something, or the item is over.
  bool canProgress() const { return canFold() || canPass() || owesCredit() || isOver(); }
  // One chunk.
  Status progress(Find find);
  // This member has done its part: results are where they belong, and nothing of this rank's memory is still being
  // sent.
  bool isOver() const;

  // Of what comes from others; on any thread.
  std::byte* placeFor(int rank, const Push& push, int64_t bytes);
  bool take(int rank, const Push& push, int64_t bytes);

  int64_t bufferBytes() const { return static_cast<int64_t>(slots_.size()); }

  static constexpr uint64_t kSlots = 4;

 private:
  // Elements of a part that have the same takers; of this lane.
  struct Segment {
    int part = 0;
    int64_t begin = 0, end = 0;
  };
  // How far the item has come in one of its two ways.
  struct Cursor {
    int index = 0;  // of the segment
    Segment segment;
    int64_t at = 0;  // its next element
  };
  bool isFirst() const { return layout_.host == 0; }
  bool isScattered() const { return call_.kind == CollectiveKind::kReduceScatter && !call_.parts; }
  bool isLast() const { return layout_.host == layout_.hosts - 1; }
  int memberOn(int host, int lane) const { return host * layout_.together + lane; }
  int rankOn(int host) const { return members_[static_cast<size_t>(memberOn(host, layout_.lane))]; }
  int hostOfRank(int rank) const;

  int segmentCount() const;
  Segment segmentAt(int index) const;
  bool takes(int host, int index) const;
  bool takesHere(int member, int index) const;
  int takerAfter(int host, int index) const;
  int giverOf(int index) const;
  int64_t chunkOf(const Cursor& cursor) const;
  void settle(Cursor& cursor, bool ofResults) const;
  bool isAtEnd(const Cursor& cursor) const { return cursor.index >= segmentCount(); }
  std::byte* slotOf(uint64_t number);
  std::atomic<uint64_t>& freedOf(uint64_t number) { return freed_[number % kSlots]; }
  uint64_t freed() const;
  std::byte* landing(int part, int64_t begin, int64_t count) const;

  bool canFold() const;
  bool canPass() const;
  bool owesCredit() const;
  Status fold(Find find);
  Status pass(Find find);
  Status finish(Find find, ReduceRange range, const std::byte* before, std::byte* slot);
  Status findTargets(Find find, int index, int part);
  void pushResult(const std::byte* from, const Cursor& cursor, int64_t count, std::atomic<uint64_t>* sent);

  const Program& program_;
  Transport& transport_;
  const int channel_;
  const std::vector<int>& members_;
  const HostLayout layout_;
  std::byte* const* const arenas_;
  std::vector<std::byte> slots_;

  // Of the item, by whoever works on it. Counts of chunks and credits go on from item to item.
  CollectiveCall call_{};
  int64_t chunk_ = 1;  // elements
  Cursor folds_, passes_;
  uint64_t granted_ = 0;         // slots that the member before knows to be free again
  uint64_t pushed_ = 0;          // results
  std::vector<uint64_t> taken_;  // results, by the host that they came from
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> targets_;

  // Written on one side and read on the other.
  std::atomic<uint64_t> folded_{0}, arrived_{0}, credits_{0}, sent_{0};
  std::array<std::atomic<uint64_t>, kSlots> freed_{};  // by slot: how often
  std::vector<std::atomic<uint64_t>> results_;         // that have come, by host
  uint64_t placed_ = 0;                                // running sums that have a slot; of whoever receives
  std::mutex landingMutex_;                            // of the following
  uint64_t number_ = 0;
  bool hasBegun_ = false;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_SUM_OVER_HOSTS_H_
