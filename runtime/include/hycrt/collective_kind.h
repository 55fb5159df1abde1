// The kinds of exchange, and what they differ in. The compiler has a table of its own (dialects/Dist/ExchangeKinds.h),
// since the two share no source; docs/adding-an-exchange.md names the places of a new kind.
#ifndef HYCRT_COLLECTIVE_KIND_H_
#define HYCRT_COLLECTIVE_KIND_H_

#include <cstdint>

namespace hycrt {

enum class CollectiveKind : uint8_t { kAllReduce, kReduceScatter, kAllGather, kBarrier, kAllToAll, kShift };

// What the kinds of exchange differ in, for whoever need not carry them out.
struct KindFacts {
  const char* name;   // as the IR spells it
  bool reduces;       // combines elements by an operator
  bool sourceHasAll;  // the source has a slice of `count` for each member
  bool resultHasAll;  // the same of the destination
  bool isOutOfPlace;  // source and destination may not overlap
  bool hasDistance;   // goes so many places around the ring of members
};

constexpr KindFacts factsOf(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return {"all_reduce", true, false, false, false, false};
    case CollectiveKind::kReduceScatter:
      return {"reduce_scatter", true, true, false, false, false};
    case CollectiveKind::kAllGather:
      return {"all_gather", false, false, true, false, false};
    case CollectiveKind::kBarrier:
      return {"barrier", false, false, false, false, false};
    case CollectiveKind::kAllToAll:
      return {"all_to_all", false, true, true, true, false};
    case CollectiveKind::kShift:
      return {"shift", false, false, false, true, true};
  }
  return {"unknown kind of exchange", false, false, false, false, false};
}

}  // namespace hycrt

#endif  // HYCRT_COLLECTIVE_KIND_H_
