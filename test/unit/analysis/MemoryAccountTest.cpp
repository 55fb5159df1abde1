// The account's peak against a walk over every moment, and against the bound that placement computes by other means.
#include "hyc/Analysis/MemoryAccount.h"

#include <gtest/gtest.h>
#include <random>

using namespace hyc;

namespace {

/// A stage of random functions, schedules and tensors; one arena.
struct RandomStage {
  explicit RandomStage(unsigned seed) : random(seed) {
    account.functions.resize(3);
    for (AccountedFunction &function : account.functions)
      function.ops.resize(pick(1, 9), "op");
    int64_t now = 0;
    for (int64_t i = pick(1, 12); i > 0; --i)
      addInstruction(now);
    for (int64_t i = pick(0, 12); i > 0; --i)
      addTemporary();
    for (int64_t i = pick(0, 6); i > 0; --i)
      addRecord(now);
    account.slots = 3;
  }

  int64_t pick(int64_t least, int64_t most) { return std::uniform_int_distribution<int64_t>(least, most)(random); }

  void addInstruction(int64_t &now) {
    AccountedInstruction instruction{"instruction"};
    instruction.function = pick(-1, 2);
    instruction.slot = instruction.function < 0 ? 0 : pick(0, 2);
    instruction.begin = now;
    // An exchange takes one point, the beginning of a step none.
    int64_t points = instruction.function < 0 ? pick(0, 1) : account.functions[instruction.function].ops.size() + 1;
    if (instruction.function >= 0)
      executions.push_back({instruction.function, instruction.slot, now});
    instruction.end = now += points;
    account.instructions.push_back(instruction);
  }

  void addTemporary() {
    AccountedTensor tensor;
    tensor.kind = TensorKind::Temporary;
    tensor.item.bytes = 64 * pick(1, 9);
    tensor.item.function = pick(0, 2);
    int64_t ops = account.functions[tensor.item.function].ops.size();
    tensor.item.first = pick(0, ops - 1);
    tensor.item.last = pick(tensor.item.first, ops - 1);
    arena.tensors.push_back(tensor);
  }

  void addRecord(int64_t end) {
    AccountedTensor tensor;
    tensor.kind = TensorKind::Record;
    tensor.item.bytes = 64 * pick(1, 9);
    for (int64_t slot = 0; slot < 3 && end > 0; ++slot) {
      int64_t begin = pick(0, end - 1);
      tensor.item.lives.push_back({slot, begin, pick(begin, end - 1)});
    }
    arena.tensors.push_back(tensor);
  }

  std::mt19937 random;
  StageAccount account;
  ArenaAccount arena;
  std::vector<FunctionExecution> executions;
};

TEST(MemoryAccount, PeakIsTheMostThatAnyMomentHolds) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    RandomStage stage(seed);
    findPeak(stage.account, stage.arena);
    int64_t most = 0, end = stage.account.instructions.back().end;
    for (int64_t time = 0; time < end; ++time)
      most = std::max(most, momentAt(stage.account, stage.arena, time).aliveBytes);
    EXPECT_EQ(stage.arena.peak.aliveBytes, most);

    std::vector<ArenaItem> items;
    for (const AccountedTensor &tensor : stage.arena.tensors)
      items.push_back(tensor.item);
    ArenaExtent extent = placeItems(items, stage.executions, stage.account.slots, 0);
    EXPECT_EQ(extent.lowerBound, most);
    EXPECT_GE(extent.bytes, most);
  }
}

TEST(MemoryAccount, WhatIsAliveOverTimeIsWhatEveryMomentHolds) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    RandomStage stage(seed);
    AccountedTensor lasting;
    lasting.kind = TensorKind::State;
    lasting.item.bytes = 64;
    stage.arena.tensors.push_back(lasting);
    std::vector<int64_t> moments;
    for (int64_t time = 0; time < stage.account.instructions.back().end; ++time)
      moments.push_back(momentAt(stage.account, stage.arena, time).aliveBytes);
    EXPECT_EQ(aliveOverTime(stage.account, stage.arena), moments);
  }
}

TEST(MemoryAccount, AliveTensorsAddUpAndComeLargestFirst) {
  RandomStage stage(7);
  findPeak(stage.account, stage.arena);
  int64_t sum = 0, previous = INT64_MAX;
  for (const AliveTensor &alive : stage.arena.peak.alive) {
    int64_t bytes = stage.arena.tensors[alive.tensor].item.bytes * alive.copies;
    EXPECT_LE(bytes, previous);
    previous = bytes;
    sum += bytes;
  }
  EXPECT_GT(sum, 0);
  EXPECT_EQ(sum, stage.arena.peak.aliveBytes);
}

TEST(MemoryAccount, RingsSendTheirPublishedShares) {
  ExchangeAccount exchange;
  exchange.bytes = 1200;
  exchange.members = 4;
  exchange.timesPerStep = 2;
  exchange.kind = "all_reduce";
  EXPECT_EQ(exchange.sentBytesPerStep(), 2 * 2 * 1200 * 3.0 / 4);
  exchange.kind = "reduce_scatter";
  EXPECT_EQ(exchange.sentBytesPerStep(), 2 * 1200 * 3.0 / 4);
  exchange.kind = "send";
  EXPECT_EQ(exchange.sentBytesPerStep(), 2 * 1200);
}

} // namespace
