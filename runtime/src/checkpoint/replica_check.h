// ReplicaCheck: states that several ranks hold alike must be the same bits on all of them; where they are not, a
// memory, a cache or a link has changed them (--verify-states).
#ifndef HYCRT_SRC_CHECKPOINT_REPLICA_CHECK_H_
#define HYCRT_SRC_CHECKPOINT_REPLICA_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "hycrt/context.h"
#include "hycrt/status.h"

namespace hycrt {

// All ranks call it together, after `steps` steps. Every rank fails where any two differ; those that hold such a state
// (kUnavailable) name it and the ranks, the others follow (kPeerLost).
Status checkReplicas(const Context& ctx, int64_t steps);

// Of ranks that should hold the same, with the hash of what each holds: those that are not of the majority. Where there
// is none, all of them; empty: they agree.
std::vector<int> outliers(const std::vector<int>& ranks, const uint64_t* hashOfRank);

}  // namespace hycrt

#endif  // HYCRT_SRC_CHECKPOINT_REPLICA_CHECK_H_
