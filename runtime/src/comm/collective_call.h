// One collective as its caller describes it, and what the kinds differ in.
#ifndef HYCRT_SRC_COMM_COLLECTIVE_CALL_H_
#define HYCRT_SRC_COMM_COLLECTIVE_CALL_H_

#include <cstdint>

#include "hycrt/collectives.h"
#include "hycrt/program.h"
#include "hycrt/types.h"

namespace hycrt {

// source is shared; destination may be anywhere in this rank's arenas.
struct CollectiveCall {
  int collective;  // row of Program::collectives
  CollectiveKind kind;
  BufferRef source;
  BufferRef destination;
  int64_t count;  // of the whole vector (all_reduce, shift), or per member
  DType dtype;
  ReduceOp op;
  const FlatPart* parts = nullptr;  // of a flat exchange, in place of source and destination
  int partCount = 0;
  int64_t distance = 0;  // of a shift: to the member that gets this one's source
};

// What the kinds of exchange differ in, for whoever need not carry them out.
struct KindFacts {
  const char* name;   // as the IR spells it
  bool reduces;       // combines elements by an operator
  bool sourceHasAll;  // the source has a slice of `count` for each member
  bool resultHasAll;  // the same of the destination
  bool isOutOfPlace;  // source and destination may not overlap
};

constexpr KindFacts factsOf(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return {"all_reduce", true, false, false, false};
    case CollectiveKind::kReduceScatter:
      return {"reduce_scatter", true, true, false, false};
    case CollectiveKind::kAllGather:
      return {"all_gather", false, false, true, false};
    case CollectiveKind::kBarrier:
      return {"barrier", false, false, false, false};
    case CollectiveKind::kAllToAll:
      return {"all_to_all", false, true, true, true};
    case CollectiveKind::kShift:
      return {"shift", false, false, false, true};
  }
  return {"unknown kind of exchange", false, false, false, false};
}

// Elements that others may read of a member, and that it gets.
constexpr int64_t sourceCount(const CollectiveCall& call, int members) {
  return call.count * (factsOf(call.kind).sourceHasAll ? members : 1);
}
constexpr int64_t resultCount(const CollectiveCall& call, int members) {
  return call.count * (factsOf(call.kind).resultHasAll ? members : 1);
}

// Around the ring of members.
constexpr int memberBefore(int member, int64_t distance, size_t members) {
  return static_cast<int>((member - distance % static_cast<int64_t>(members) + static_cast<int64_t>(members)) %
                          static_cast<int64_t>(members));
}
constexpr int memberAfter(int member, int64_t distance, size_t members) {
  return static_cast<int>((member + distance) % static_cast<int64_t>(members));
}

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_COLLECTIVE_CALL_H_
