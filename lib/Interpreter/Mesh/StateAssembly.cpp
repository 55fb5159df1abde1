// From the parts of ranks to flattened local tensors, from these to the whole.
#include "Mesh/StateAssembly.h"

using namespace mlir;
using namespace hyc;
using namespace hyc::interpreter;

static int64_t product(ArrayRef<int64_t> shape) {
  int64_t elements = 1;
  for (int64_t size : shape)
    elements *= size;
  return elements;
}

HeldPart StateAssembly::partOf(int64_t worldRank) const {
  int64_t elements = product(layout.localShape);
  if (!layout.sharding.getFlat().empty()) {
    Topology::FlatShard shard = topology.getFlatShard(worldRank, elements, layout.sharding.getFlat());
    return {shard.begin, shard.count, 0};
  }
  if (layout.slice) {
    Topology::FlatShard shard = topology.getFlatShard(worldRank, elements, layout.slice);
    return {shard.begin, shard.count, shard.begin};
  }
  return {0, elements, 0};
}

StateAssembly::Local &StateAssembly::localOf(int64_t worldRank, ElementKind kind) {
  SmallVector<int64_t> offsets, sizes;
  topology.locate(layout.wholeShape, layout.sharding, worldRank, offsets, sizes);
  auto [entry, isNew] = locals.try_emplace(std::vector<int64_t>(offsets.begin(), offsets.end()));
  if (isNew) {
    entry->second.elements = Tensor(kind, {product(layout.localShape)});
    entry->second.firstRank = worldRank;
  }
  return entry->second;
}

LogicalResult StateAssembly::add(int64_t worldRank, const Tensor &elements,
                                 llvm::function_ref<InFlightDiagnostic()> emitError) {
  Local &local = localOf(worldRank, elements.getKind());
  HeldPart part = partOf(worldRank);
  auto [entry, isFirst] = local.parts.try_emplace(part.begin, worldRank, elements);
  if (!isFirst && part.count > 0 && !elements.isIdenticalTo(entry->second.second))
    return emitError() << topology.describe(entry->second.first) << " and " << topology.describe(worldRank)
                       << " hold different values";
  if (isFirst && part.count > 0)
    local.elements.insert(elements, {part.begin}, {1});
  return success();
}

Tensor StateAssembly::finish() const {
  if (locals.empty())
    return {};
  Tensor whole(locals.begin()->second.elements.getKind(), layout.wholeShape);
  SmallVector<int64_t> ones(layout.wholeShape.size(), 1), origin(layout.wholeShape.size(), 0);
  for (const auto &[key, local] : locals) {
    SmallVector<int64_t> offsets, sizes;
    topology.locate(layout.wholeShape, layout.sharding, local.firstRank, offsets, sizes);
    whole.insert(local.elements.reshaped(layout.localShape).sliced(origin, ones, sizes), offsets, ones);
  }
  return whole;
}

std::optional<int64_t> StateAssembly::findFilledPadding() const {
  for (const auto &[key, local] : locals) {
    SmallVector<int64_t> offsets, sizes, origin(layout.wholeShape.size(), 0), ones(layout.wholeShape.size(), 1);
    topology.locate(layout.wholeShape, layout.sharding, local.firstRank, offsets, sizes);
    Tensor onlyPadding = local.elements.reshaped(layout.localShape);
    onlyPadding.insert(Tensor(onlyPadding.getKind(), sizes), origin, ones);
    for (int64_t i = 0; i < onlyPadding.getNumElements(); ++i)
      if (onlyPadding.getDouble(i) != 0)
        return local.firstRank;
  }
  return std::nullopt;
}
