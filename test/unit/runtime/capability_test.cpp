// Which GPUs a program runs on.
#include <gtest/gtest.h>

#include "hycrt/accelerator.h"

namespace hycrt {
namespace {

constexpr int kBoth[] = {80, 90};
constexpr int kLate[] = {86};

TEST(Capability, ABinaryRunsOnItsMajorVersionFromItsMinorVersionOn) {
  EXPECT_TRUE(runsOnCapability(kBoth, 8, 0));
  EXPECT_TRUE(runsOnCapability(kBoth, 8, 9));
  EXPECT_TRUE(runsOnCapability(kBoth, 9, 0));
  EXPECT_FALSE(runsOnCapability(kBoth, 7, 5));
  EXPECT_FALSE(runsOnCapability(kBoth, 10, 0));
  EXPECT_FALSE(runsOnCapability(kLate, 8, 0));
  EXPECT_TRUE(runsOnCapability(kLate, 8, 9));
  EXPECT_FALSE(runsOnCapability({}, 9, 0));
}

}  // namespace
}  // namespace hycrt
