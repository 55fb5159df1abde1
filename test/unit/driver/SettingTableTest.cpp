// The table of settings: each row holds together with what it names, and what is made from it.
#include "hyc/Plan/SettingTable.h"
#include "Config/ConfigKeys.h"
#include "ScratchFolder.h"
#include "hyc/Driver/OptionChecks.h"
#include "hyc/Plan/PlanText.h"
#include "hyc/Support/DriverError.h"

#include <gtest/gtest.h>

#include <set>

namespace {

using hyc::CompileOptions;
using hyc::Origin;
using hyc::SettingRow;
using hyc::SettingValue;

std::string errorOf(llvm::Error error) {
  std::string message;
  llvm::handleAllErrors(std::move(error), [&](const hyc::DriverError &failure) {
    message = std::to_string(static_cast<int>(failure.getCode())) + " " + failure.getMessage();
  });
  return message;
}

/// Another value of the same type, in the row's range.
SettingValue otherValue(const SettingRow &row) {
  SettingValue value = hyc::valueOf(row.in(CompileOptions()));
  if (bool *flag = std::get_if<bool>(&value))
    *flag = !*flag;
  if (int64_t *number = std::get_if<int64_t>(&value))
    *number += hyc::isWithin(row.range, *number + 1) ? 1 : -1;
  if (double *number = std::get_if<double>(&value))
    *number = *number == 0.5 ? 0.25 : 0.5;
  if (std::string *text = std::get_if<std::string>(&value)) {
    llvm::SmallVector<llvm::StringRef> words;
    row.range.words.split(words, '|');
    *text = words.size() < 2 ? "uniform" : words[words[0] == *text ? 1 : 0].str();
  }
  return value;
}

TEST(SettingTable, NoFlagNoKeyAndNoMemberComesTwice) {
  std::set<std::string> seen;
  std::set<void *> members;
  for (const SettingRow &row : hyc::getSettings()) {
    if (!row.flag.empty())
      EXPECT_TRUE(seen.insert("--" + row.flag.str()).second) << row.flag.str();
    if (!row.planKey.empty())
      EXPECT_TRUE(seen.insert("plan " + row.planKey.str()).second) << row.planKey.str();
    EXPECT_TRUE(
        members.insert(row.ofPlan ? reinterpret_cast<void *>(row.ofPlan) : reinterpret_cast<void *>(row.ofOptions))
            .second)
        << row.flag.str();
    EXPECT_FALSE(row.help.empty()) << row.flag.str();
    EXPECT_TRUE(!row.flag.empty() || !row.configKeys.empty())
        << "nobody can say what this row is of: " << row.help.str();
  }
}

TEST(SettingTable, KeysOfDsConfigAreThoseThatAreConnected) {
  std::set<std::string> named, connected;
  for (const SettingRow &row : hyc::getSettings()) {
    llvm::SmallVector<llvm::StringRef> keys;
    row.configKeys.split(keys, ' ', -1, false);
    for (llvm::StringRef key : keys)
      EXPECT_TRUE(named.insert(key.str()).second) << key.str();
  }
  for (const hyc::ConfigKey &key : hyc::getConfigKeys())
    if (key.treatment.kind == hyc::Treatment::Connected)
      connected.insert(key.path.str());
  EXPECT_EQ(named, connected);
}

TEST(SettingTable, ValuesAreReadBackAsTheyArePrinted) {
  for (const SettingRow &row : hyc::getSettings())
    for (const SettingValue &value : {hyc::valueOf(row.in(CompileOptions())), otherValue(row)}) {
      std::optional<SettingValue> read = hyc::parseLike(value, hyc::print(value));
      ASSERT_TRUE(read) << row.flag.str() << " " << hyc::print(value);
      EXPECT_EQ(*read, value) << row.flag.str() << " " << hyc::print(value);
    }
}

/// Whatever plan.json has comes back as it was, with the file as its source.
TEST(SettingTable, EveryKeyOfAPlanIsWrittenAndRead) {
  CompileOptions plan;
  plan.rules.objects = {"zero", "offload"};
  for (const SettingRow &row : hyc::getSettings())
    if (!row.planKey.empty())
      hyc::offerTo(row.in(plan), otherValue(row), Origin::Flag, "");
  plan.rules.cuts.resize(static_cast<size_t>(*plan.pp * *plan.virtualStages - 1), "op");
  ScratchFolder folder;
  folder.write("plan.json", hyc::writePlan(plan));
  llvm::Expected<hyc::Plan> read = hyc::readPlan(folder.path("plan.json"));
  ASSERT_TRUE(bool(read)) << errorOf(read.takeError());
  for (const SettingRow &row : hyc::getSettings()) {
    if (row.planKey.empty())
      continue;
    EXPECT_EQ(hyc::valueOf(row.ofPlan(*read)), hyc::valueOf(row.in(plan))) << row.planKey.str();
    EXPECT_EQ(hyc::sourceOf(row.ofPlan(*read)), folder.path("plan.json")) << row.planKey.str();
  }
  CompileOptions taken;
  EXPECT_EQ(errorOf(hyc::takePlan(taken, *read)), "");
  EXPECT_EQ(hyc::writePlan(taken), hyc::writePlan(plan));
}

TEST(SettingTable, AValueOutOfRangeNamesItsSource) {
  CompileOptions options;
  options.subGroup.offer(0, Origin::Flag, "--sub-group-size");
  EXPECT_EQ(errorOf(hyc::checkRanges(options)), "64 --sub-group-size is 0, expected 1 to 281474976710656");
  options = {};
  options.betas.offer({0.9, 1.0}, Origin::Config, "ds.json:1:2: optimizer.params.betas");
  EXPECT_EQ(errorOf(hyc::checkRanges(options)),
            "65 ds.json:1:2: optimizer.params.betas is [0.9, 1], expected two numbers from 0 to below 1");
  options = {};
  options.schedule.offer("zigzag", Origin::Flag, "--schedule");
  EXPECT_EQ(errorOf(hyc::checkRanges(options)), "64 --schedule is \"zigzag\", expected gpipe or 1f1b");
  options = {};
  options.deviceMemory.offer("much", Origin::Flag, "--device-memory");
  EXPECT_EQ(errorOf(hyc::checkRanges(options)),
            "64 --device-memory is \"much\", expected a size such as 24GiB, 512MiB or a number of bytes");
}

} // namespace
