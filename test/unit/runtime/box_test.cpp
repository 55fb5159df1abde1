// Rectangles of shards: they hold each element of the shard once, and no other, however it is cut.
#include "checkpoint/box.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "test_mesh.h"

namespace hycrt {
namespace {

std::set<int64_t> elementsOf(const std::vector<Box>& boxes, const Shape& shape, int64_t* count) {
  std::set<int64_t> elements;
  *count = 0;
  for (const Box& box : boxes) {
    const BoxRows rows(box, shape);
    for (int64_t element = 0; element < rows.elements(); ++element) {
      const BoxRow row = rows.rowFrom(element);
      elements.insert(row.global);
      EXPECT_LE(row.count, rows.elements() - element);
      ++*count;
    }
  }
  return elements;
}

std::set<int64_t> elementsOf(const ShardLayout& layout) {
  std::set<int64_t> elements;
  layout.forEachRun([&](const ElementRun& run) {
    for (int64_t i = 0; i < run.count; ++i) elements.insert(run.global + i);
    return true;
  });
  return elements;
}

StateDesc stateOf(Shape logical, Shape global, Shape local, ShortList<Split> splits) {
  return {"w", "parameter", DType::kF32, {0, 0}, logical, global, local, splits, {}};
}

TEST(Box, OfAWholeTensorIsOne) {
  const Mesh mesh = meshOf(1, 1, 1);
  const StateDesc state = stateOf({4, 6}, {4, 6}, {4, 6}, {});
  EXPECT_EQ(boxesOf(ShardLayout(state, mesh, placeOn(mesh, 0, 0, 0)), state.logical).size(), 1u);
}

TEST(Box, OfAFusedWeightIsOneAPart) {
  const Mesh mesh = meshOf(2, 1, 1);
  const StateDesc state = stateOf({64, 192}, {64, 3, 8, 8}, {64, 3, 4, 8}, {{2, kTp}});
  const std::vector<Box> boxes = boxesOf(ShardLayout(state, mesh, placeOn(mesh, 1, 0, 0)), state.logical);
  ASSERT_EQ(boxes.size(), 3u);
  for (int part = 0; part < 3; ++part) {
    EXPECT_EQ(boxes[size_t(part)].offset[1], part * 64 + 32);
    EXPECT_EQ(boxes[size_t(part)].size[0], 64);
    EXPECT_EQ(boxes[size_t(part)].size[1], 32);
  }
}

TEST(Box, OfAFlatShardIsHeadRowsAndTail) {
  const Mesh mesh = meshOf(1, 1, 2);
  StateDesc state = stateOf({40, 60}, {40, 60}, {40, 60}, {});
  state.storage = FlatStorage::kShard;
  state.flat = {kDp};
  state.shardElements = 2048;  // of 2400: 34 rows and 8 elements
  EXPECT_EQ(boxesOf(ShardLayout(state, mesh, placeOn(mesh, 0, 0, 0)), state.logical).size(), 2u);
  EXPECT_EQ(boxesOf(ShardLayout(state, mesh, placeOn(mesh, 0, 0, 1)), state.logical).size(), 2u);
}

TEST(Box, OfANumberIsOneElement) {
  const Mesh mesh = meshOf(1, 1, 1);
  const StateDesc state = stateOf({}, {}, {}, {});
  const std::vector<Box> boxes = boxesOf(ShardLayout(state, mesh, placeOn(mesh, 0, 0, 0)), state.logical);
  ASSERT_EQ(boxes.size(), 1u);
  EXPECT_EQ(BoxRows(boxes[0], state.logical).elements(), 1);
}

// Dimensions that a model's is factored into, split over tp, flat over dp, with padding of both kinds.
TEST(Box, HoldsEachElementOfAnyShardOnce) {
  std::mt19937 random(7);
  const auto below = [&](int most) { return int64_t(random() % unsigned(most)) + 1; };
  for (int round = 0; round < 200; ++round) {
    const int tp = int(below(3)), dp = int(below(3));
    const Mesh mesh = meshOf(tp, 1, dp);
    const int64_t a = below(9), b = below(4), c = below(40), d = below(30);
    StateDesc state = stateOf({a, b * c, d}, {a, b, c, d}, {a, b, c, d}, {});
    if (round % 2 == 0 && c > tp) {
      state.splits = {{2, kTp}};
      state.local.items[2] = (c + tp - 1) / tp;
    }
    if (round % 3 != 0) {
      state.storage = FlatStorage::kShard;
      state.flat = {kDp};
      state.shardElements = flatShardSize(elementCount(state.local), dp);
    }
    for (int rank = 0; rank < rankCount(mesh); ++rank) {
      const ShardLayout layout(state, mesh, coordinatesOf(mesh, rank));
      int64_t count = 0;
      const std::set<int64_t> held = elementsOf(boxesOf(layout, state.logical), state.logical, &count);
      EXPECT_EQ(held, elementsOf(layout)) << "round " << round << ", rank " << rank;
      EXPECT_EQ(count, int64_t(held.size())) << "round " << round << ", rank " << rank;
    }
  }
}

}  // namespace
}  // namespace hycrt
