// What a machine's file is called, by which profiles and plans know for which machine they were made.
#include "hyc/Planner/Machine.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace hyc;

namespace {

class MachineFile : public testing::Test {
protected:
  void SetUp() override { ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("hyc-machine", folder)); }
  void TearDown() override { llvm::sys::fs::remove_directories(folder); }

  MachineRates read(llvm::StringRef file, llvm::StringRef text) {
    llvm::SmallString<128> path = folder;
    llvm::sys::path::append(path, file);
    std::error_code error;
    llvm::raw_fd_ostream(path, error) << text;
    llvm::Expected<MachineRates> rates = readMachine(path.str().str(), defaultRates(1));
    if (!rates)
      ADD_FAILURE() << llvm::toString(rates.takeError());
    return rates ? *rates : MachineRates();
  }

  llvm::SmallString<128> folder;
};

TEST_F(MachineFile, WithoutANameIsCalledAsTheFile) {
  EXPECT_EQ(read("two.old-hosts.json", "{\"memory\": 5e9}").name, "two.old-hosts");
}

TEST_F(MachineFile, HasTheNameThatItGives) {
  EXPECT_EQ(read("hosts.json", "{\"name\": \"ours\", \"memory\": 5e9}").name, "ours");
}

TEST_F(MachineFile, SaysWhetherProductsWaitForTheirOperands) {
  EXPECT_GT(defaultRates(1).productMemory, 0);
  EXPECT_EQ(read("gpu.json", "{\"memory\": 5e9}").productMemory, 0);
  EXPECT_EQ(read("cpu.json", "{\"memory\": 5e9, \"product_memory\": 2e9}").productMemory, 2e9);
}

TEST_F(MachineFile, TellsWhatEachKindOfExchangeReaches) {
  MachineRates rates = read("tiers.json", R"({"tiers": [{"name": "host", "ranks": 2, "latency": 1e-6,
      "rates": [{"bytes": 1024, "rate": 8e9}], "gather_rates": [{"bytes": 1024, "rate": 4e9}],
      "transfer_rates": [{"bytes": 1024, "rate": 2e9}]}]})");
  ASSERT_EQ(rates.tiers.size(), 1u);
  EXPECT_EQ(rates.tiers[0].ratesOf(Traffic::AllReduce)[0].value, 8e9);
  EXPECT_EQ(rates.tiers[0].ratesOf(Traffic::AllGather)[0].value, 4e9);
  EXPECT_EQ(rates.tiers[0].ratesOf(Traffic::ReduceScatter)[0].value, 8e9);
  EXPECT_EQ(rates.tiers[0].ratesOf(Traffic::Transfer)[0].value, 2e9);
}

TEST_F(MachineFile, TellsHowManyRanksItsRatesAreOf) {
  MachineRates rates = read("hops.json", R"({"tiers": [
      {"name": "host", "ranks": 8, "latency": 1e-6, "rates": [{"bytes": 1024, "rate": 8e9}]},
      {"name": "cluster", "ranks": 1024, "latency": 1e-5, "hop_latency": 5e-6, "measured_ranks": 16,
       "rates": [{"bytes": 1024, "rate": 2e9}]}]})");
  ASSERT_EQ(rates.tiers.size(), 2u);
  EXPECT_EQ(rates.tiers[0].measuredRanks, 8) << "where it does not say: all of the tier";
  EXPECT_EQ(rates.tiers[0].hopLatency, 0);
  EXPECT_EQ(rates.tiers[1].measuredRanks, 16);
  EXPECT_EQ(rates.tiers[1].hopLatency, 5e-6);
}

TEST(Machine, ThatNoFileDescribesHasNoName) { EXPECT_EQ(defaultRates(4).name, ""); }

} // namespace
