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

TEST(MachineRates, EachKindOfExchangeHasItsRateWhereTheTierTellsOne) {
  MachineRates rates = hosts();
  rates.tiers[0].gatherRates = {{1, 50}};
  rates.tiers[0].transferRates = {{1, 25}};
  EXPECT_DOUBLE_EQ(rates.exchangeSeconds({{{4, 1}}}, 1000, 1000, Traffic::AllReduce), 10);
  EXPECT_DOUBLE_EQ(rates.exchangeSeconds({{{4, 1}}}, 1000, 1000, Traffic::AllGather), 20);
  EXPECT_DOUBLE_EQ(rates.exchangeSeconds({{{4, 1}}}, 1000, 1000, Traffic::ReduceScatter), 10) << "as all_reduce";
  EXPECT_DOUBLE_EQ(rates.transferSeconds(1, 1000), 40);
  rates.tiers[0].scaleRates(2);
  EXPECT_DOUBLE_EQ(rates.exchangeSeconds({{{4, 1}}}, 1000, 1000, Traffic::AllGather), 10);
  EXPECT_DOUBLE_EQ(rates.exchangeSeconds({{{4, 1}}}, 1000, 1000, Traffic::AllReduce), 5);
}

// Eight ranks of two hosts pass two links between hosts and six inside; 32 ranks of eight, eight and 24.
TEST(MachineRates, ARingThroughMoreRanksThanWereMeasuredTakesItsHopsLonger) {
  MachineRates rates = hosts();
  rates.tiers[0].hopLatency = 0.1;
  rates.tiers[1].hopLatency = 1;
  RankGroup eight{{{8, 1}}}, many{{{32, 1}}};
  EXPECT_DOUBLE_EQ(rates.exchangeSeconds(many, 1000, 1000, Traffic::AllGather), 25) << "nothing tells of how many";
  rates.tiers[1].measuredRanks = 8;
  double longer = (8 + 24 * 0.1) - (2 + 6 * 0.1);
  EXPECT_DOUBLE_EQ(rates.exchangeSeconds(eight, 1000, 1000, Traffic::AllGather), 25);
  EXPECT_DOUBLE_EQ(rates.exchangeSeconds(many, 1000, 1000, Traffic::AllGather), 25 + longer);
  EXPECT_DOUBLE_EQ(rates.exchangeSeconds(many, 1000, 1000, Traffic::ReduceScatter), 25 + longer);
  EXPECT_DOUBLE_EQ(rates.exchangeSeconds(many, 1, 1, Traffic::AllGather), 2 + longer) << "small ones, too";
  // A sum takes two trees, which grow by two levels: up and down.
  EXPECT_DOUBLE_EQ(rates.exchangeSeconds(many, 1000, 1000, Traffic::AllReduce), 25 + 2 * 2 * 1);
  // One rank a host: a quarter of the links, and every hop between hosts.
  EXPECT_DOUBLE_EQ(rates.exchangeSeconds({{{16, 4}}}, 1000, 1000, Traffic::AllGather), 100 + 16 - (2 + 6 * 0.1));
  EXPECT_DOUBLE_EQ(rates.exchangeSeconds({{{8, 4}}}, 1000, 1000, Traffic::AllGather), 100 + 8 - (2 + 6 * 0.1))
      << "as many ranks as were measured, on more hosts";
  // Nine ranks are of three hosts.
  EXPECT_DOUBLE_EQ(rates.exchangeSeconds({{{9, 1}}}, 1000, 1000, Traffic::AllGather),
                   25 + (3 + 6 * 0.1) - (2 + 6 * 0.1));
  EXPECT_DOUBLE_EQ(rates.transferSeconds(4, 1000), 100) << "from one rank to another there is one hop";
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
  EXPECT_DOUBLE_EQ(rates.kernelSeconds({1000, 20, 4}), 10);
  EXPECT_DOUBLE_EQ(rates.kernelSeconds({1000, 20, 2}), 5);
  EXPECT_DOUBLE_EQ(rates.kernelSeconds({0, 20, 4}), 2);
  EXPECT_DOUBLE_EQ(rates.kernelSeconds({1, 1, 4}), 1);
  EXPECT_DOUBLE_EQ(rates.kernelSeconds({1000, 20, 1}), 5) << "nothing tells of 8 bits";
  rates.fp8Products = 400;
  EXPECT_DOUBLE_EQ(rates.kernelSeconds({1000, 20, 1}), 2.5);
  rates.memoryShare = 0.5;
  EXPECT_DOUBLE_EQ(rates.kernelSeconds({0, 20, 4}), 4);
  rates.productShare = {{1, 0.5}};
  EXPECT_DOUBLE_EQ(rates.kernelSeconds({1000, 20, 4}), 20);
  EXPECT_DOUBLE_EQ(rates.kernelSeconds({1000, 20, 4, /*isAttention=*/true}), 20) << "nothing tells of attention";
  rates.attentionShare = 0.25;
  EXPECT_DOUBLE_EQ(rates.kernelSeconds({1000, 20, 4, /*isAttention=*/true}), 40);
}

TEST(MachineRates, ProductsMayNotComputeWhileTheyBringTheirOperandsIntoPlace) {
  MachineRates rates;
  rates.products = 100, rates.memory = 10, rates.productMemory = 4;
  EXPECT_DOUBLE_EQ(rates.kernelSeconds({1000, 20, 4}), 15);
  EXPECT_EQ(rates.kernelBound({1000, 20, 4}), TimeBound::Products);
  EXPECT_EQ(rates.kernelBound({100, 20, 4}), TimeBound::Memory);
  EXPECT_DOUBLE_EQ(rates.kernelSeconds({1000, 20, 4, /*isAttention=*/true}), 10);
  EXPECT_DOUBLE_EQ(rates.kernelSeconds({0, 20, 4}), 2) << "no product";
}

/// Two ranks of ten operations a second, one of four, three of eight.
MachineRates kinds() {
  MachineRates rates;
  rates.kinds = {{"a", 2, 10, 20, 0, 30, 0}, {"b", 1, 4, 50, 0, 60, 0}, {"c", 3, 8, 9, 0, 10, 0}};
  return rates;
}

TEST(MachineRates, AKindThatReadsSlowlyBringsOperandsIntoPlaceSlowly) {
  MachineRates rates = kinds();
  rates.memory = 60, rates.productMemory = 20;
  EXPECT_DOUBLE_EQ(rates.ofKind(0).productMemory, 10);
  EXPECT_DOUBLE_EQ(rates.ofKind(1).productMemory, 20);
}

TEST(MachineRates, KindsAreThoseOfConsecutiveRanks) {
  EXPECT_EQ(kinds().mostRanks(), 6);
  EXPECT_EQ(kinds().kindsAmong(0, 2), (std::vector<size_t>{0}));
  EXPECT_EQ(kinds().kindsAmong(1, 2), (std::vector<size_t>{0, 1}));
  EXPECT_EQ(kinds().kindsAmong(2, 1), (std::vector<size_t>{1}));
  EXPECT_EQ(kinds().kindsAmong(0, 6), (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(kinds().kindsAmong(100, 8), (std::vector<size_t>{2})) << "beyond the last they are as it";
}

TEST(MachineRates, AGroupIsAsSlowAsItsSlowestInEachRespect) {
  MachineRates slowest = kinds().slowestAmong(1, 2);
  EXPECT_EQ(slowest.products, 4);
  EXPECT_EQ(slowest.narrowProducts, 20);
  EXPECT_EQ(slowest.memory, 30);
  EXPECT_EQ(MachineRates().slowestAmong(0, 8).products, MachineRates().products);
}

} // namespace
