// Best fit, in several orders (large items first, long-lived items first); the smallest outcome is kept.
#include "hyc/Analysis/ArenaPlacement.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

using namespace llvm;
using namespace hyc;

int64_t hyc::placementAlignment(int64_t bytes) { return bytes >= 64 ? 64 : std::max<int64_t>(1, bytes & -bytes); }

int64_t ArenaItem::getAlignment() const { return alignment ? alignment : placementAlignment(bytes); }

static int64_t roundUp(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

namespace {

using Interval = std::pair<int64_t, int64_t>; // [begin, end)

class Placer {
public:
  Placer(MutableArrayRef<ArenaItem> items, ArrayRef<FunctionExecution> executions, int64_t slots, int64_t reserved)
      : items(items), slots(slots), reserved(reserved) {
    for (const FunctionExecution &execution : executions)
      executionsOf[execution.function].push_back(execution);
    for (auto &[function, ofFunction] : executionsOf)
      llvm::stable_sort(ofFunction, [](auto &a, auto &b) { return a.begin < b.begin; });
    latestEnds.resize(items.size());
    for (auto [item, ends] : llvm::zip_equal(items, latestEnds)) {
      llvm::stable_sort(item.lives, [](const RecordLife &a, const RecordLife &b) { return a.begin < b.begin; });
      for (const RecordLife &life : item.lives)
        ends.push_back(ends.empty() ? life.end : std::max(ends.back(), life.end));
    }
  }

  ArenaExtent place(ArrayRef<size_t> order);

private:
  bool isRecordPerSlot(const ArenaItem &item) const { return slots > 1 && !item.isTemporary() && !item.single; }

  /// Calls `visit(slot a, slot b)` for every moment at which both are alive, until it returns true.
  bool anyMeeting(const ArenaItem &a, const ArenaItem &b, function_ref<bool(int64_t, int64_t)> visit) const;

  /// The last that it is ever in: of several chunks the last slot may hold the records of one alone.
  int64_t lastSlot(const ArenaItem &item) const;

  void collectForbidden(const ArenaItem &item, bool perSlot, SmallVectorImpl<Interval> &forbidden) const;
  int64_t bestFit(SmallVectorImpl<Interval> &forbidden, int64_t from, int64_t limit, const ArenaItem &item) const;
  bool tryPlace(ArenaItem &item, bool perSlot, int64_t from, int64_t limit);

  ArrayRef<FunctionExecution> executed(int64_t function) const {
    auto found = executionsOf.find(function);
    return found == executionsOf.end() ? ArrayRef<FunctionExecution>() : ArrayRef(found->second);
  }

  MutableArrayRef<ArenaItem> items;
  DenseMap<int64_t, SmallVector<FunctionExecution>> executionsOf; ///< by function, and in time
  std::vector<SmallVector<int64_t, 2>> latestEnds;                ///< by item: of its lives up to each
  int64_t slots, reserved;
  int64_t recordBytes = 0;
  SmallVector<ArenaItem *> placed;
  // The same apart, by offset: temporaries of different functions never meet.
  DenseMap<int64_t, SmallVector<const ArenaItem *>> placedTemporaries;
  SmallVector<const ArenaItem *> placedRecords;
};

/// Two sequences of spans of time by their begin: calls `visit(i, j)` for each two that overlap, until it returns true.
/// `endUpTo(j)` is the latest end of the first j + 1 of the second one. As long as spans of a sequence are about
/// equally long, this takes no more than the spans and the overlaps there are.
template <typename Begin, typename End, typename OtherBegin, typename OtherEnd, typename EndUpTo>
static bool anyOverlap(size_t count, Begin begin, End end, size_t others, OtherBegin otherBegin, OtherEnd otherEnd,
                       EndUpTo endUpTo, function_ref<bool(size_t, size_t)> visit) {
  size_t first = 0; // of the others before it all have ended
  for (size_t i = 0; i < count; ++i) {
    while (first < others && endUpTo(first) < begin(i))
      ++first;
    for (size_t j = first; j < others && otherBegin(j) <= end(i); ++j)
      if (otherEnd(j) >= begin(i) && visit(i, j))
        return true;
  }
  return false;
}

bool Placer::anyMeeting(const ArenaItem &a, const ArenaItem &b, function_ref<bool(int64_t, int64_t)> visit) const {
  if (a.isTemporary() && b.isTemporary()) {
    if (a.function != b.function || a.first > b.last || b.first > a.last)
      return false;
    return llvm::any_of(executed(a.function),
                        [&](const FunctionExecution &execution) { return visit(execution.slot, execution.slot); });
  }
  if (b.isTemporary())
    return anyMeeting(b, a, [&](int64_t slotB, int64_t slotA) { return visit(slotA, slotB); });
  auto begin = [&](size_t j) { return b.lives[j].begin; };
  auto end = [&](size_t j) { return b.lives[j].end; };
  auto endUpTo = [&, &ends = latestEnds[static_cast<size_t>(&b - items.data())]](size_t j) { return ends[j]; };
  if (a.isTemporary()) {
    ArrayRef<FunctionExecution> executions = executed(a.function);
    return anyOverlap(
        executions.size(), [&](size_t i) { return executions[i].begin + a.first; },
        [&](size_t i) { return executions[i].begin + a.last; }, b.lives.size(), begin, end, endUpTo,
        [&](size_t i, size_t j) { return visit(executions[i].slot, b.lives[j].slot); });
  }
  return anyOverlap(
      a.lives.size(), [&](size_t i) { return a.lives[i].begin; }, [&](size_t i) { return a.lives[i].end; },
      b.lives.size(), begin, end, endUpTo, [&](size_t i, size_t j) { return visit(a.lives[i].slot, b.lives[j].slot); });
}

int64_t Placer::lastSlot(const ArenaItem &item) const {
  int64_t last = 0;
  for (const RecordLife &life : item.lives)
    last = std::max(last, life.slot);
  for (const FunctionExecution &execution : executed(item.function))
    last = std::max(last, execution.slot);
  return last;
}

/// Addresses that `item` must not take, relative to its own slot's base if it lies per slot.
void Placer::collectForbidden(const ArenaItem &item, bool perSlot, SmallVectorImpl<Interval> &forbidden) const {
  bool isShifted = false;
  auto avoid = [&](const ArenaItem *other) {
    if (perSlot == other->perSlot) {
      // Different slots never meet: their records are apart.
      if (anyMeeting(item, *other, [&](int64_t a, int64_t b) { return !perSlot || a == b; }))
        forbidden.push_back({other->offset, other->offset + other->bytes});
      return;
    }
    SmallVector<int64_t> shifts; // where the other lies as seen from this item
    anyMeeting(item, *other, [&](int64_t a, int64_t b) {
      int64_t shift = perSlot ? -a * recordBytes : b * recordBytes;
      if (!is_contained(shifts, shift))
        shifts.push_back(shift);
      return false;
    });
    for (int64_t shift : shifts)
      forbidden.push_back({other->offset + shift, other->offset + shift + other->bytes});
    isShifted |= !shifts.empty();
  };
  // Lists that are sorted already are merged: sorting all of it for each item would take most of the time.
  auto avoidAll = [&](ArrayRef<const ArenaItem *> others) {
    const auto before = static_cast<ptrdiff_t>(forbidden.size());
    llvm::for_each(others, avoid);
    if (!isShifted)
      std::inplace_merge(forbidden.begin(), forbidden.begin() + before, forbidden.end());
  };
  avoidAll(placedRecords);
  for (const auto &[function, temporaries] : placedTemporaries)
    if (!item.isTemporary() || function == item.function)
      avoidAll(temporaries);
  if (isShifted)
    llvm::sort(forbidden);
}

/// The offset in [from, limit - bytes] in the smallest gap that is large enough; -1 if there is none.
int64_t Placer::bestFit(SmallVectorImpl<Interval> &forbidden, int64_t from, int64_t limit,
                        const ArenaItem &item) const {
  int64_t bytes = item.bytes, alignment = item.getAlignment(), best = -1, bestGap = INT64_MAX,
          cursor = roundUp(from, alignment);
  auto consider = [&](int64_t gapEnd) {
    int64_t gap = gapEnd - cursor;
    if (gap >= bytes && cursor + bytes <= limit && (best < 0 || gap < bestGap)) {
      best = cursor;
      bestGap = gap;
    }
  };
  for (auto [begin, end] : forbidden) {
    consider(begin);
    cursor = std::max(cursor, roundUp(end, alignment));
  }
  if (best < 0)
    consider(INT64_MAX);
  return best;
}

bool Placer::tryPlace(ArenaItem &item, bool perSlot, int64_t from, int64_t limit) {
  SmallVector<Interval> forbidden;
  collectForbidden(item, perSlot, forbidden);
  int64_t offset = bestFit(forbidden, from, limit, item);
  if (offset < 0)
    return false;
  item.offset = offset;
  item.perSlot = perSlot;
  placed.push_back(&item);
  SmallVector<const ArenaItem *> &list = item.isTemporary() ? placedTemporaries[item.function] : placedRecords;
  auto end = [](const ArenaItem *each) { return std::make_pair(each->offset, each->bytes); };
  list.insert(llvm::upper_bound(list, &item, [&](auto *a, auto *b) { return end(a) < end(b); }), &item);
  return true;
}

ArenaExtent Placer::place(ArrayRef<size_t> order) {
  placed.clear();
  placedTemporaries.clear();
  placedRecords.clear();
  recordBytes = 0;
  for (size_t i : order)
    if (isRecordPerSlot(items[i])) {
      tryPlace(items[i], /*perSlot=*/true, reserved, INT64_MAX);
      recordBytes = std::max(recordBytes, items[i].offset + items[i].bytes - reserved);
    }
  recordBytes = roundUp(recordBytes, 64);
  for (size_t i : order) {
    ArenaItem &item = items[i];
    if (isRecordPerSlot(item))
      continue;
    // Slots lie a multiple of a line apart: what needs more lies outside of them.
    if (!(item.isTemporary() && recordBytes > 0 && item.alignment <= 64 &&
          tryPlace(item, true, reserved, reserved + recordBytes)))
      tryPlace(item, false, reserved, INT64_MAX);
  }
  int64_t bytes = reserved;
  for (const ArenaItem *item : placed)
    bytes = std::max(bytes, item->offset + item->bytes + (item->perSlot ? lastSlot(*item) * recordBytes : 0));
  return {bytes, recordBytes, 0};
}

} // namespace

/// The most bytes alive at one moment.
static int64_t lowerBound(ArrayRef<ArenaItem> items, ArrayRef<FunctionExecution> executions, int64_t reserved) {
  SmallVector<Interval> changes; // (time, bytes): what dies at t is counted until t
  for (const ArenaItem &item : items) {
    for (const RecordLife &life : item.lives) {
      changes.push_back({life.begin, item.bytes});
      changes.push_back({life.end + 1, -item.bytes});
    }
    if (!item.isTemporary())
      continue;
    for (const FunctionExecution &execution : executions)
      if (execution.function == item.function) {
        changes.push_back({execution.begin + item.first, item.bytes});
        changes.push_back({execution.begin + item.last + 1, -item.bytes});
      }
  }
  llvm::sort(changes);
  int64_t alive = reserved, most = reserved;
  for (auto [time, bytes] : changes) {
    alive += bytes;
    most = std::max(most, alive);
  }
  return most;
}

ArenaExtent hyc::placeItems(MutableArrayRef<ArenaItem> items, ArrayRef<FunctionExecution> executions, int64_t slots,
                            int64_t reserved) {
  auto duration = [](const ArenaItem &item) {
    return item.isTemporary() ? item.last - item.first
                              : (item.lives.empty() ? 0 : item.lives[0].end - item.lives[0].begin);
  };
  auto orderBy = [&](auto key) {
    SmallVector<size_t> order(items.size());
    std::iota(order.begin(), order.end(), size_t(0));
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(items[a]) > key(items[b]); });
    return order;
  };
  SmallVector<SmallVector<size_t>> orders;
  orders.push_back(orderBy([](const ArenaItem &item) { return item.bytes; }));
  orders.push_back(orderBy([](const ArenaItem &item) { return std::make_pair(!item.isTemporary(), item.bytes); }));
  orders.push_back(orderBy([&](const ArenaItem &item) { return std::make_pair(duration(item), item.bytes); }));
  orders.push_back(orderBy([&](const ArenaItem &item) { return (duration(item) + 1) * item.bytes; }));

  ArenaExtent best{INT64_MAX, 0, 0};
  SmallVector<ArenaItem> bestItems;
  int64_t bound = lowerBound(items, executions, reserved);
  for (ArrayRef<size_t> order : orders) {
    ArenaExtent extent = Placer(items, executions, slots, reserved).place(order);
    if (extent.bytes < best.bytes) {
      best = extent;
      bestItems.assign(items.begin(), items.end());
    }
    if (best.bytes <= bound + bound / 100)
      break;
  }
  std::copy(bestItems.begin(), bestItems.end(), items.begin());
  best.lowerBound = bound;
  return best;
}
