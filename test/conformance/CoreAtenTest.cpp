// Every operator that torch tags as core is a row of the importer's tables, or refused by name with what serves
// instead: torch/core-aten.txt, which test/models/core_aten.py writes with torch.
#include "lib/Import/TorchExport/Translator.h"
#include "test/Places.h"

#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

using namespace hyc::torchexport;

namespace {
struct Verdict {
  std::string verdict, target;
};

std::vector<Verdict> readVerdicts() {
  std::vector<Verdict> verdicts;
  std::ifstream file(hyc::places::inTree("test/conformance/torch/core-aten.txt"));
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    Verdict each;
    if (line.rfind('#', 0) != 0 && words >> each.verdict >> each.target)
      verdicts.push_back(each);
  }
  return verdicts;
}

TEST(CoreAten, is_read_or_refused_by_name) {
  std::vector<Verdict> verdicts = readVerdicts();
  EXPECT_GT(verdicts.size(), 180u);
  for (const auto &[verdict, target] : verdicts) {
    const bool isRead = findAnyTranslation(target) || complexTranslations().count(target);
    EXPECT_EQ(isRead ? "row" : "refused", verdict) << target;
    EXPECT_EQ(refusalOf(target).empty(), isRead) << target << " should be read, or refused with a reason, and not both";
  }
}

TEST(CoreAten, refusals_are_of_nothing_that_is_read) {
  for (llvm::StringRef target : allRefused())
    EXPECT_FALSE(findAnyTranslation(target) || complexTranslations().count(target)) << target.str();
}
} // namespace
