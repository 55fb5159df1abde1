// Placement in arenas: never two live things at one address, and sizes near the bound. A checker that knows nothing of
// how offsets were found walks the schedule and compares every pair that is alive.
#include "hyc/Analysis/ArenaPlacement.h"

#include "gtest/gtest.h"
#include <random>

using namespace hyc;

namespace {

ArenaItem temporary(int64_t bytes, int64_t function, int64_t first, int64_t last) {
  ArenaItem item;
  item.bytes = bytes;
  item.function = function;
  item.first = first;
  item.last = last;
  return item;
}

struct Alive {
  int64_t begin, end; // time
  int64_t address, bytes;
};

std::vector<Alive> allLives(llvm::ArrayRef<ArenaItem> items, llvm::ArrayRef<FunctionExecution> executions,
                            const ArenaExtent &extent) {
  std::vector<Alive> lives;
  for (const ArenaItem &item : items) {
    auto add = [&](int64_t begin, int64_t end, int64_t slot) {
      lives.push_back({begin, end, item.offset + (item.perSlot ? slot * extent.recordBytes : 0), item.bytes});
    };
    for (const RecordLife &life : item.lives)
      add(life.begin, life.end, life.slot);
    for (const FunctionExecution &execution : executions)
      if (item.isTemporary() && execution.function == item.function)
        add(execution.begin + item.first, execution.begin + item.last, execution.slot);
  }
  return lives;
}

void expectSound(llvm::ArrayRef<ArenaItem> items, llvm::ArrayRef<FunctionExecution> executions,
                 const ArenaExtent &extent, int64_t reserved) {
  std::vector<Alive> lives = allLives(items, executions, extent);
  for (size_t i = 0; i < lives.size(); ++i) {
    const Alive &a = lives[i];
    ASSERT_GE(a.address, reserved);
    ASSERT_LE(a.address + a.bytes, extent.bytes);
    ASSERT_EQ(a.address % placementAlignment(a.bytes), 0);
    for (size_t j = 0; j < i; ++j) {
      const Alive &b = lives[j];
      bool sameTime = a.begin <= b.end && b.begin <= a.end;
      ASSERT_FALSE(sameTime && a.address < b.address + b.bytes && b.address < a.address + a.bytes)
          << "items overlap at " << a.address;
    }
  }
}

TEST(ArenaPlacement, DisjointTemporariesShareAnAddress) {
  std::vector<ArenaItem> items = {temporary(128, 0, 0, 1), temporary(128, 0, 2, 3), temporary(64, 0, 1, 2)};
  std::vector<FunctionExecution> executions = {{0, 0, 0}};
  ArenaExtent extent = placeItems(items, executions, 1, 64);
  EXPECT_EQ(extent.bytes, 64 + 128 + 64);
  EXPECT_EQ(extent.lowerBound, extent.bytes);
  expectSound(items, executions, extent, 64);
}

TEST(ArenaPlacement, TemporariesOfDifferentFunctionsShareAnAddress) {
  std::vector<ArenaItem> items = {temporary(256, 0, 0, 9), temporary(256, 1, 0, 9)};
  std::vector<FunctionExecution> executions = {{0, 0, 0}, {1, 0, 10}};
  EXPECT_EQ(placeItems(items, executions, 1, 0).bytes, 256);
}

TEST(ArenaPlacement, TemporariesUseTheHolesOfTheirSlotsRecord) {
  // Forward makes the record at its end; backward reads it at its beginning. Two slots are filled before any is
  // emptied.
  ArenaItem record;
  record.bytes = 1024;
  record.lives = {{0, 9, 20}, {1, 19, 30}};
  std::vector<ArenaItem> items = {record, temporary(1024, 0, 0, 5), temporary(1024, 1, 2, 5)};
  std::vector<FunctionExecution> executions = {{0, 0, 0}, {0, 1, 10}, {1, 0, 20}, {1, 1, 30}};
  ArenaExtent extent = placeItems(items, executions, 2, 0);
  EXPECT_EQ(extent.recordBytes, 1024);
  EXPECT_EQ(extent.bytes, 2048);
  EXPECT_TRUE(items[1].perSlot);
  expectSound(items, executions, extent, 0);
}

TEST(ArenaPlacement, TheLastSlotIsAsLargeAsWhatIsEverInIt) {
  // Two chunks with records of two sizes; only the chunk with the smaller one ever has a second micro-batch in flight.
  ArenaItem large, small;
  large.bytes = 1024;
  large.lives = {{0, 9, 30}};
  small.bytes = 512;
  small.lives = {{1, 19, 40}};
  std::vector<ArenaItem> items = {large, small};
  std::vector<FunctionExecution> executions = {{0, 0, 0}, {1, 1, 10}};
  ArenaExtent extent = placeItems(items, executions, 2, 64);
  EXPECT_EQ(extent.recordBytes, 1024);
  EXPECT_EQ(extent.bytes, 64 + 1024 + 512);
  EXPECT_EQ(extent.bytes, extent.lowerBound);
  expectSound(items, executions, extent, 64);
}

// Programs of the shape that training has: saved values made in forward and used up in backward, in the opposite order.
TEST(ArenaPlacement, RandomTrainingStepsStayWithinFivePercentOfTheBound) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    auto draw = [&](int64_t low, int64_t high) { return low + static_cast<int64_t>(random() % (high - low + 1)); };
    const int64_t length = draw(20, 60), slots = draw(1, 4), microBatches = draw(slots, 6);
    std::vector<FunctionExecution> executions;
    std::vector<std::pair<int64_t, int64_t>> begins(microBatches); // of forward and backward
    int64_t now = 0;
    auto run = [&](int64_t function, int64_t microBatch) {
      executions.push_back({function, microBatch % slots, now});
      (function == 0 ? begins[microBatch].first : begins[microBatch].second) = now;
      now += length + 1;
    };
    for (int64_t m = 0; m < slots; ++m)
      run(0, m);
    for (int64_t m = 0; m < microBatches; ++m) {
      run(1, m);
      if (m + slots < microBatches)
        run(0, m + slots);
    }
    std::vector<ArenaItem> items;
    for (int64_t layer = 0; layer < length; ++layer) {
      ArenaItem saved;
      saved.bytes = 64 * draw(1, 64);
      for (int64_t m = 0; m < microBatches; ++m)
        saved.lives.push_back({m % slots, begins[m].first + layer, begins[m].second + (length - 1 - layer)});
      items.push_back(saved);
      for (int64_t function : {0, 1}) {
        int64_t first = draw(0, length - 2);
        items.push_back(temporary(64 * draw(1, 64), function, first, std::min(length - 1, first + draw(0, 3))));
      }
    }
    ArenaExtent extent = placeItems(items, executions, slots, 0);
    expectSound(items, executions, extent, 0);
    EXPECT_LE(extent.bytes, extent.lowerBound * 1.05) << "seed " << seed;
  }
}

} // namespace
