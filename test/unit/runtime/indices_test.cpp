// checkIndices: which indices end a run, and what is told of the first.
#include "hycrt/indices.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hycrt {
namespace {

std::string messageOf(const std::vector<int64_t>& indices, int64_t bound, int64_t uncounted = kAllCounted) {
  const Program program{};
  Context ctx(program, {}, nullptr, nullptr);
  ctx.setStep(16);
  checkIndices(ctx, "wte", indices.data(), static_cast<int64_t>(indices.size()), bound, uncounted);
  EXPECT_TRUE(ctx.status().ok() || ctx.status().exitCode() == 65);
  return ctx.status().ok() ? "" : ctx.status().message();
}

TEST(CheckIndices, TakesThoseInBoundsAndWhatIsNotCounted) {
  EXPECT_EQ(messageOf({0, 8, 3}, 9), "");
  EXPECT_EQ(messageOf({0, -100, 3}, 9, -100), "");
  EXPECT_EQ(messageOf({INT64_MIN}, 9, INT64_MIN), "");
  EXPECT_EQ(messageOf({}, 0), "");
}

TEST(CheckIndices, TellsTheFirstOutside) {
  EXPECT_EQ(messageOf({0, 9, -1}, 9), "step 17: wte takes element 9 of 9 (at place 1 of 3 indices), expected 0 to 8");
  EXPECT_EQ(messageOf({-100}, 9), "step 17: wte takes element -100 of 9 (at place 0 of 1 indices), expected 0 to 8");
  EXPECT_NE(messageOf({-100, -1}, 9, -100).find("takes element -1 of 9 (at place 1 of 2"), std::string::npos);
}

// What a cast makes of no number, and rows of which there are none.
TEST(CheckIndices, ExceptsNoIndexByItself) {
  for (const int64_t index : {INT64_MIN, INT64_MAX})
    EXPECT_NE(messageOf({1, index}, 9).find("takes element " + std::to_string(index)), std::string::npos);
  EXPECT_NE(messageOf({0}, 0).find("takes element 0 of 0"), std::string::npos);
}

}  // namespace
}  // namespace hycrt
