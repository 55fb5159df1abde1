// The members of every group and transfer that a rank takes part in, from its coordinates.
#include "comm/channels.h"

#include <algorithm>

#include "hycrt/philox.h"

namespace hycrt {
namespace {

enum class Purpose : uint64_t { kGroup = 1, kTransfers = 2, kWorld = 3 };

uint64_t keyOf(Purpose purpose, const std::vector<int>& members) {
  uint64_t key = static_cast<uint64_t>(purpose);
  for (int member : members) key = mix64(key, static_cast<uint64_t>(member));
  return key;
}

int addChannel(ChannelPlans& plans, Purpose purpose, std::vector<int> members) {
  const uint64_t key = keyOf(purpose, members);
  for (size_t i = 0; i < plans.channels.size(); ++i) {
    if (plans.channels[i].key == key) return static_cast<int>(i);
  }
  plans.channels.push_back({key, std::move(members)});
  return static_cast<int>(plans.channels.size()) - 1;
}

std::vector<int> stagesOf(const GroupDesc& group, const Mesh& mesh, const Coordinates& at) {
  if (group.stages.size > 0) return {group.stages.begin(), group.stages.end()};
  if (!group.axes.has(Axis::kPp)) return {at.pp};
  std::vector<int> all;
  for (int stage = 0; stage < mesh.pp; ++stage) all.push_back(stage);
  return all;
}

}  // namespace

std::vector<int> groupMembers(const GroupDesc& group, const Mesh& mesh, const Coordinates& at) {
  std::vector<int> members;
  for (int stage : stagesOf(group, mesh, at)) {
    for (int dp = 0; dp < mesh.dp; ++dp) {
      if (dp != at.dp && !group.axes.has(Axis::kDp)) continue;
      for (int tp = 0; tp < mesh.tp; ++tp) {
        if (tp == at.tp || group.axes.has(Axis::kTp)) members.push_back(rankOf(mesh, {tp, stage, dp}));
      }
    }
  }
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  return members;
}

int64_t flatCoordinate(const Program& program, const CollectiveDesc& row, int rank) {
  const Coordinates at = coordinatesOf(program.mesh, rank);
  int64_t coordinate = 0;
  for (Axis axis : row.flat) coordinate = coordinate * sizeOf(program.mesh, axis) + coordinateOf(at, axis);
  return coordinate;
}

ChannelPlans planChannels(const Program& program, const Coordinates& at) {
  ChannelPlans plans;
  const int self = rankOf(program.mesh, at);
  std::vector<int> everyone;
  for (int rank = 0; rank < rankCount(program.mesh); ++rank) everyone.push_back(rank);
  plans.world = addChannel(plans, Purpose::kWorld, everyone);
  for (const GroupDesc& group : program.groups) {
    std::vector<int> members = groupMembers(group, program.mesh, at);
    const bool takesPart = std::binary_search(members.begin(), members.end(), self);
    plans.ofGroup.push_back(takesPart ? addChannel(plans, Purpose::kGroup, std::move(members)) : -1);
  }
  for (const TransferDesc& transfer : program.transfers) {
    const int peer = rankOf(program.mesh, {at.tp, transfer.peerStage, at.dp});
    const bool sends = transfer.direction == Direction::kSend;
    plans.ofTransfer.push_back(
        addChannel(plans, Purpose::kTransfers, sends ? std::vector<int>{self, peer} : std::vector<int>{peer, self}));
  }
  return plans;
}

std::vector<bool> deviceChannels(const Program& program, const ChannelPlans& plans) {
  std::vector<bool> meets(plans.channels.size(), false);
  const auto add = [&](int channel) {
    const size_t index = static_cast<size_t>(channel);
    if (channel >= 0) meets[index] = plans.channels[index].members.size() > 1;
  };
  for (int channel : plans.ofGroup) add(channel);
  if (program.transfers.size > 0) add(plans.world);
  return meets;
}

}  // namespace hycrt
