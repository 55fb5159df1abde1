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
  if (!group.axes.hasStages()) return {at.stage};
  std::vector<int> all;
  for (int stage = 0; stage < mesh.stages; ++stage) all.push_back(stage);
  return all;
}

}  // namespace

// Places in a stage that differ from this one only along the group's axes, ascending.
static std::vector<int> placesOf(const GroupDesc& group, const Mesh& mesh, const Coordinates& at) {
  std::vector<int> places{0};
  for (int i = 0; i < mesh.axes.size; ++i) {
    const Axis axis{static_cast<uint8_t>(i)};
    const int own = coordinateOf(mesh, at, axis);
    std::vector<int> longer;
    for (int place : places) {
      for (int c = 0; c < mesh.axes[i].size; ++c) {
        if (c == own || group.axes.has(axis)) longer.push_back(place * mesh.axes[i].size + c);
      }
    }
    places = std::move(longer);
  }
  return places;
}

std::vector<int> groupMembers(const GroupDesc& group, const Mesh& mesh, const Coordinates& at) {
  std::vector<int> members;
  const std::vector<int> places = placesOf(group, mesh, at);
  for (int stage : stagesOf(group, mesh, at)) {
    for (int place : places) members.push_back(rankOf(mesh, {stage, place}));
  }
  std::sort(members.begin(), members.end());
  members.erase(std::unique(members.begin(), members.end()), members.end());
  return members;
}

int64_t flatCoordinate(const Program& program, const CollectiveDesc& row, int rank) {
  return coordinateOf(program.mesh, coordinatesOf(program.mesh, rank), row.flat);
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
    const int peer = rankOf(program.mesh, {transfer.peerStage, at.place});
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
