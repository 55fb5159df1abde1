// What is told of a rank's memory: read back, added up, and measured on arenas of this process.
#include "hycrt/memory_report.h"

#include <gtest/gtest.h>

#include <cstring>

#include "hycrt/context.h"
#include "memory/rank_memory.h"

namespace hycrt {
namespace {

MemoryRecord recordOf(int rank) {
  MemoryRecord record;
  record.rank = rank;
  record.resident = 30 << 20;
  record.outside = 8 << 20;
  record.shared = 2 << 20;
  record.fixed = 9 << 20;
  record.arenas = {{"parameters", 20 << 20, 20 << 20, 19 << 20, false}, {"nvme", 7 << 20, 8 << 20, -1, true}};
  return record;
}

TEST(MemoryRecord, IsReadBack) {
  const MemoryRecord record = recordOf(3);
  const Result<MemoryRecord> read = parseMemoryRecord(toJson(record));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(toJson(*read), toJson(record));
  EXPECT_EQ(read->arenas[1].touched, -1);
  EXPECT_TRUE(read->arenas[1].inFile);
  EXPECT_EQ(read->planned(), 20 << 20);  // a file is no memory
}

TEST(MemoryRecord, WhatIsNoRecordIsRefused) {
  for (const char* text : {"", "[]", "{}", R"({"memory":1})", R"({"memory":{"rank":0}})",
                           R"({"memory":{"rank":0,"arenas":[{"planned":1}]}})"}) {
    EXPECT_FALSE(parseMemoryRecord(text).ok()) << text;
  }
}

// Code that ranks share counts in parts, in what is resident and in what is declared alike: (30 − (9 − 2)) / 20.
TEST(MemoryTable, AddsRanksUp) {
  const std::string one = toTable({recordOf(0)}), two = toTable({recordOf(0), recordOf(1)});
  EXPECT_NE(one.find("rank 0           20.00        30.00         6.00         7.00    1.150"), std::string::npos)
      << one;
  EXPECT_EQ(one.find("all"), std::string::npos);
  EXPECT_NE(two.find("all              40.00        60.00        12.00        14.00    1.150"), std::string::npos)
      << two;
  EXPECT_EQ(toTable({}), "");
}

TEST(MemoryTable, OfASmallModelHasNoNegativeRatio) {
  MemoryRecord record = recordOf(0);
  record.fixed = 40 << 20;
  const std::string table = toTable({record});
  EXPECT_NE(table.find("        38.00   within what was declared\n"), std::string::npos) << table;
  EXPECT_EQ(table.find("-0."), std::string::npos) << table;
}

// An arena of 100,000 bytes of which the first 5 are written, and one of which nothing is.
TEST(MemoryMeasurement, FindsTheLastWordThatWasWritten) {
  const Result<Mapping> first = Mapping::anonymous(100000, "first"), second = Mapping::anonymous(64, "second");
  ASSERT_TRUE(first.ok() && second.ok());
  std::byte* const arenas[] = {first->base(), second->base()};
  fillUntouched(arenas[0], 100000);
  fillUntouched(arenas[1], 64);
  std::memset(arenas[0], 0, 5);
  const ArenaDesc descs[] = {{"first", 100000, Sharing::kPrivate}, {"second", 64, Sharing::kPrivate}};
  Program program{};
  program.arenas = descs;
  const MemoryRecord record = measureMemory(program, {arenas, nullptr, 0, true, {}}, 0);
  ASSERT_EQ(record.arenas.size(), 2u);
  EXPECT_EQ(record.arenas[0].mapped, 100000);
  EXPECT_EQ(record.arenas[0].touched, 8);
  EXPECT_EQ(record.arenas[1].touched, 0);
  EXPECT_GT(record.resident, 100000);
  EXPECT_GT(record.outside, 0);
  EXPECT_EQ(measureMemory(program, {arenas, nullptr, 0, false, {}}, 0).arenas[0].touched, -1);
}

// Only where the run asks for it.
TEST(Poison, OverwritesWhatIsDead) {
  const Program program{};
  Context ctx(program, {}, nullptr, nullptr, nullptr);
  std::byte bytes[3] = {};
  poison(ctx, bytes, 2);
  EXPECT_EQ(bytes[0], std::byte{0});
  ctx.setPoisons(true);
  poison(ctx, bytes, 2);
  EXPECT_EQ(bytes[0], std::byte{0xFF});
  EXPECT_EQ(bytes[1], std::byte{0xFF});
  EXPECT_EQ(bytes[2], std::byte{0});
}

// What runs out of an arena does not reach another.
TEST(MappingDeathTest, LiesBetweenPagesThatNobodyMayTouch) {
  const Result<Mapping> arena = Mapping::anonymous(4096, "arena");
  ASSERT_TRUE(arena.ok());
  EXPECT_DEATH(std::memset(arena->base() + 4096, 1, 1), "");
  EXPECT_DEATH(std::memset(arena->base() - 1, 1, 1), "");
}

}  // namespace
}  // namespace hycrt
