// Where the parts of a collective lie.
#ifndef HYCRT_SRC_COMM_COLLECTIVE_CALL_H_
#define HYCRT_SRC_COMM_COLLECTIVE_CALL_H_

#include <cstdint>

#include "hycrt/collectives.h"
#include "hycrt/program.h"
#include "hycrt/types.h"

namespace hycrt {

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
