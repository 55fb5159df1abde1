// Coordinates, groups and shards.
#include "Mesh/Topology.h"

#include "mlir/IR/Operation.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

FailureOr<Topology> Topology::create(dist::MeshOp mesh) {
  Topology topology;
  topology.stages = static_cast<int64_t>(mesh.getStages());
  topology.virtualStages = static_cast<int64_t>(mesh.getVirtualStages());
  topology.batch = mesh.getBatchAxes();
  for (auto [axis, size] : llvm::zip_equal(mesh.getAxes().getAsRange<StringAttr>(), mesh.getSizes())) {
    topology.axes.push_back(axis);
    topology.sizes.push_back(size);
    if (llvm::MulOverflow(topology.ranksPerStage, size, topology.ranksPerStage))
      return mesh.emitError("the number of ranks overflows"), failure();
  }
  int64_t ranks = 0;
  if (llvm::MulOverflow(topology.ranksPerStage, topology.stages, ranks) || ranks > kMostRanks)
    return mesh.emitError("has more ranks than the ") << kMostRanks << " that the interpreter simulates", failure();
  topology.axisStrides = rowMajorStrides(topology.sizes);
  return topology;
}

std::optional<int64_t> Topology::getPeer(int64_t worldRank, dist::TransferAttr transfer) const {
  int64_t chunk = transfer.getPeerOf(getChunk(worldRank, transfer));
  if (chunk < 0 || chunk >= getNumChunks())
    return std::nullopt;
  return atStage(worldRank, chunk % stages);
}

llvm::StringMap<AxisPosition> Topology::getAxes(int64_t worldRank) const {
  llvm::StringMap<AxisPosition> positions;
  for (size_t i = 0; i < axes.size(); ++i)
    positions[axes[i].getValue()] = {getCoordinate(worldRank, i), sizes[i]};
  return positions;
}

AxisPosition Topology::getPosition(int64_t worldRank, dist::AxisListAttr list) const {
  AxisPosition position;
  for (StringAttr axis : list.getAxes())
    for (size_t i = 0; i < axes.size(); ++i)
      if (axes[i] == axis) {
        position.coordinate = position.coordinate * sizes[i] + getCoordinate(worldRank, i);
        position.size *= sizes[i];
      }
  return position;
}

SmallVector<int64_t> Topology::getMembers(int64_t worldRank, dist::GroupAttr group) const {
  SmallVector<int64_t> members;
  for (int64_t rank = 0; rank < getNumRanks(); ++rank) {
    bool member = group.getStages().empty() ? getStage(rank) == getStage(worldRank)
                                            : llvm::is_contained(group.getStages(), getStage(rank));
    for (size_t i = 0; member && i < axes.size(); ++i)
      member = group.getAxes().contains(axes[i]) || getCoordinate(rank, i) == getCoordinate(worldRank, i);
    if (member)
      members.push_back(rank);
  }
  return members;
}

int64_t Topology::getShardIndex(int64_t worldRank, dist::GroupAttr group) const {
  AxisPosition position = getPosition(worldRank, group.getAxes());
  int64_t stageIndex = llvm::find(group.getStages(), getStage(worldRank)) - group.getStages().begin();
  return group.getStages().empty() ? position.coordinate : stageIndex * position.size + position.coordinate;
}

void Topology::locate(ArrayRef<int64_t> wholeShape, dist::ShardingAttr sharding, int64_t worldRank,
                      SmallVectorImpl<int64_t> &offsets, SmallVectorImpl<int64_t> &sizes) const {
  for (auto [size, list] : llvm::zip_equal(wholeShape, sharding.getDims())) {
    AxisPosition position = getPosition(worldRank, list);
    int64_t shard = dist::shardSize(size, position.size);
    int64_t offset = std::min(size, position.coordinate * shard);
    offsets.push_back(offset);
    sizes.push_back(std::min(shard, size - offset));
  }
}

Tensor Topology::cut(const Tensor &whole, dist::ShardingAttr sharding, int64_t worldRank) const {
  Tensor part = whole;
  for (auto [dim, list] : llvm::enumerate(sharding.getDims())) {
    AxisPosition position = getPosition(worldRank, list);
    int64_t shard = dist::shardSize(whole.getDim(static_cast<int64_t>(dim)), position.size);
    if (position.size > 1)
      part = part.window(static_cast<int64_t>(dim), position.coordinate * shard, shard);
  }
  if (sharding.getFlat().empty())
    return part;
  FlatShard shard = getFlatShard(worldRank, part.getNumElements(), sharding.getFlat());
  return part.reshaped({part.getNumElements()}).window(0, shard.begin, shard.size);
}

Topology::FlatShard Topology::getFlatShard(int64_t worldRank, int64_t elements, dist::AxisListAttr flat) const {
  AxisPosition position = getPosition(worldRank, flat);
  int64_t size = dist::flatShardSize(elements, position.size), begin = std::min(elements, position.coordinate * size);
  return {begin, std::min(size, elements - begin), size};
}

std::string Topology::describe(int64_t worldRank) const {
  std::string text = "rank " + std::to_string(worldRank) + " (stage " + std::to_string(getStage(worldRank));
  for (size_t i = 0; i < axes.size(); ++i)
    text += ", " + axes[i].str() + " " + std::to_string(getCoordinate(worldRank, i));
  return text + ")";
}
