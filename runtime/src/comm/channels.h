// Which ranks talk to which: a program's groups and transfers, resolved for one rank.
#ifndef HYCRT_SRC_COMM_CHANNELS_H_
#define HYCRT_SRC_COMM_CHANNELS_H_

#include <cstdint>
#include <vector>

#include "hycrt/program.h"

namespace hycrt {

struct ChannelPlan {
  uint64_t key;
  std::vector<int> members;  // world ranks; ascending for a group, {sender, receiver} for transfers
};

// World ranks of the group as seen from `at`, ascending; without this rank where its stage takes no part.
std::vector<int> groupMembers(const GroupDesc& group, const Mesh& mesh, const Coordinates& at);

struct ChannelPlans {
  std::vector<ChannelPlan> channels;
  std::vector<int> ofGroup;     // index into channels by group; -1: this rank is no member
  std::vector<int> ofTransfer;  // index into channels by transfer
  int world = 0;                // all ranks: the barrier's
};

// Which shard of a flat exchange a member has.
int64_t flatCoordinate(const Program& program, const CollectiveDesc& row, int rank);

// Groups with equal members share a channel, so that one rank issuing them in another order is noticed.
ChannelPlans planChannels(const Program& program, const Coordinates& at);

// By channel: whether devices that exchange by themselves meet there. Not where this rank is alone; messages between
// two ranks pass where all meet.
std::vector<bool> deviceChannels(const Program& program, const ChannelPlans& plans);

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_CHANNELS_H_
