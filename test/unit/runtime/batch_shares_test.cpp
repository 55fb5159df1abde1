// Which micro-batches of a step each data-parallel coordinate takes, and what is refused.
#include "run/batch_shares.h"

#include <gtest/gtest.h>

#include <set>

#include "test_mesh.h"

namespace hycrt {
namespace {

// Three coordinates, four micro-batches of two samples at most.
Program programOf(bool meetsInMicroBatches = false) {
  Program program = {};
  program.name = "m";
  program.mesh = meshOf(1, 1, 3);
  program.batch = {2, 4, 8};
  program.meetsInMicroBatches = meetsInMicroBatches;
  return program;
}

// The places that every coordinate's micro-batches have in the step, which together are all places.
void expectAllOnce(const BatchShares& shares, int64_t microBatches) {
  std::set<int64_t> seen;
  for (int64_t coordinate = 0; coordinate < 3; ++coordinate) {
    for (int64_t m = 0; m < shares.microBatchesOf(coordinate); ++m)
      EXPECT_TRUE(seen.insert(shares.numberOf(m, coordinate)).second) << coordinate << ", " << m;
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), microBatches);
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin(), microBatches - 1);
  EXPECT_EQ(shares.samples(), 2 * microBatches);
}

TEST(BatchShares, EvenOnesAreNumberedAsWithoutAny) {
  const Program program = programOf();
  const Result<BatchShares> none = BatchShares::of(program, ""), even = BatchShares::of(program, "4,4,4");
  ASSERT_TRUE(none.ok() && even.ok());
  for (int64_t coordinate = 0; coordinate < 3; ++coordinate) {
    for (int64_t m = 0; m < 4; ++m) {
      EXPECT_EQ(none->numberOf(m, coordinate), m * 3 + coordinate);
      EXPECT_EQ(even->numberOf(m, coordinate), m * 3 + coordinate);
    }
  }
  expectAllOnce(*none, 12);
  expectAllOnce(*even, 12);
}

TEST(BatchShares, EveryMicroBatchIsSomebodys) {
  const Program program = programOf();
  for (const auto& [text, count] : {std::pair("4,1,2", 7), {"1,1,1", 3}, {"1,4,4", 9}, {"2,3,1", 6}}) {
    const Result<BatchShares> shares = BatchShares::of(program, text);
    ASSERT_TRUE(shares.ok()) << text;
    expectAllOnce(*shares, count);
  }
}

TEST(BatchShares, WhatCannotBeIsRefused) {
  const auto refusal = [](const std::string& text, bool meets = false) {
    const Program program = programOf(meets);
    const Result<BatchShares> shares = BatchShares::of(program, text);
    EXPECT_FALSE(shares.ok()) << text;
    return shares.ok() ? std::string() : shares.status().message();
  };
  for (const char* text : {"x", "1,", ",1", "1,,2", "1 2 3", "-1,2,3", "1,2,3x", "99999999999999999999,1,1"})
    EXPECT_NE(refusal(text).find("expected how many micro-batches"), std::string::npos) << text;
  EXPECT_NE(refusal("1,2").find("has 2 numbers, but program 'm' has 3"), std::string::npos);
  EXPECT_NE(refusal("5,1,1").find("gives coordinate 0 5 micro-batches, expected 1 to the 4"), std::string::npos);
  EXPECT_NE(refusal("1,0,1").find("gives coordinate 1 0 micro-batches"), std::string::npos);
  EXPECT_NE(refusal("1,2,1", true).find("give equal shares"), std::string::npos);
  const Program meets = programOf(true);
  EXPECT_TRUE(BatchShares::of(meets, "3,3,3").ok());
}

}  // namespace
}  // namespace hycrt
