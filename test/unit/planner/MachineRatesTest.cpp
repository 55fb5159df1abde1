// The tier of a group, and rates by size.
#include "hyc/Analysis/MachineRates.h"

#include <gtest/gtest.h>

using namespace hyc;

namespace {

/// Hosts of four ranks, which send 100 bytes a second each inside, and 40 as a full ring between hosts.
MachineRates hosts() {
  MachineRates rates;
  rates.tiers = {{"host", 4, 0.5, {{1, 100}}}, {"cluster", 64, 2, {{1, 40}}}};
  return rates;
}

TEST(MachineRates, AGroupInsideAHostHasItsRate) {
  EXPECT_DOUBLE_EQ(hosts().exchangeSeconds({{{4, 1}}}, 1000, 1000), 10);
}

TEST(MachineRates, AFullRingOverHostsHasTheClustersRate) {
  EXPECT_DOUBLE_EQ(hosts().exchangeSeconds({{{8, 1}}}, 1000, 1000), 25);
}

// Four groups share the links of a host: each has a quarter of them.
TEST(MachineRates, AGroupWithOneMemberAHostHasAQuarterOfTheLinks) {
  EXPECT_DOUBLE_EQ(hosts().exchangeSeconds({{{4, 4}}}, 1000, 1000), 100);
}

TEST(MachineRates, NoExchangeIsFasterThanItsTiersLatency) {
  EXPECT_DOUBLE_EQ(hosts().exchangeSeconds({{{2, 1}}}, 1, 1), 0.5);
  EXPECT_DOUBLE_EQ(hosts().exchangeSeconds({{{8, 1}}}, 1, 1), 2);
}

TEST(MachineRates, OneRankExchangesNothing) { EXPECT_EQ(hosts().exchangeSeconds({{{1, 1}}}, 1000, 1000), 0); }

TEST(MachineRates, WithoutTiersOneLinkServesAllGroups) {
  MachineRates rates;
  rates.link = 10;
  rates.latency = 3;
  EXPECT_DOUBLE_EQ(rates.exchangeSeconds({{{8, 64}}}, 100, 50), 8);
}

TEST(MachineRates, BetweenTwoSizesAValueIsOnTheLineInLogarithms) {
  std::vector<SizedValue> points{{1, 10}, {100, 1000}};
  EXPECT_DOUBLE_EQ(valueAt(points, 0.1), 10);
  EXPECT_NEAR(valueAt(points, 10), 100, 1e-9);
  EXPECT_DOUBLE_EQ(valueAt(points, 1e6), 1000);
}

TEST(MachineRates, AKernelTakesTheLongestOfItsThreeBounds) {
  MachineRates rates;
  rates.products = 100, rates.narrowProducts = 200, rates.memory = 10, rates.launch = 1;
  EXPECT_DOUBLE_EQ(rates.kernelSeconds(1000, false, 20), 10);
  EXPECT_DOUBLE_EQ(rates.kernelSeconds(1000, true, 20), 5);
  EXPECT_DOUBLE_EQ(rates.kernelSeconds(0, false, 20), 2);
  EXPECT_DOUBLE_EQ(rates.kernelSeconds(1, false, 1), 1);
  rates.productShare = {{1, 0.5}};
  EXPECT_DOUBLE_EQ(rates.kernelSeconds(1000, false, 20), 20);
}

} // namespace
