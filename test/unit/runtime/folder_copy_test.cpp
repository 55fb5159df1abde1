// The side of --copy-out that takes a folder, as ssh would start it on another host.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/secret.h"
#include "run_command.h"
#include "temporary_folder.h"
#include "test/Places.h"

namespace {

using Files = std::vector<std::pair<std::string, std::string>>;  // path, bytes

std::string rowsOf(const Files& files) {
  std::string rows;
  for (const auto& [path, bytes] : files) {
    hycrt::Sha256 sum;
    sum.add(bytes.data(), bytes.size());
    rows += "file " + std::to_string(bytes.size()) + " - " + sum.finish() + " " + path + "\n";
  }
  return rows;
}

class ACopiedFolder : public testing::Test {
 protected:
  // Of these files, all of which are taken to be wanted.
  CommandResult receive(const Files& files) {
    std::string input = "hyc-run folder 1\nfolder " + place_ / "out" + "\n" + rowsOf(files) + "go\n";
    for (const auto& [path, bytes] : files) input += bytes;
    const std::string from = place_.write("input", input), hycRun = hyc::places::program("hyc-run");
    return runCommand({"/bin/sh", "-c", "exec " + hycRun + " --receive-folder <" + from});
  }
  void expectThere(const Files& files) const {
    for (const auto& [path, bytes] : files) EXPECT_EQ(place_.read("out/" + path), bytes) << path;
    EXPECT_EQ(place_.read("out/.copied-by-hyc-run"), "hyc-run folder 1\n" + rowsOf(files));
  }

  TemporaryFolder place_;
  const Files first_{{"a", "a of the first"}, {"b", "b of the first"}, {"gone", "only of the first"}};
  const Files second_{{"a", "a of the second"}, {"b", "b of the second"}};
  const Files third_{{"a", "a of the third"}, {"b", "b of the third"}};
};

// With the ledger that then stands there, of both, and one file of each.
TEST_F(ACopiedFolder, IsReplacedWhereThatWasInterruptedBefore) {
  CommandResult result = receive(first_);
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(result.output, "wants 0 1 2\ndone\n");
  expectThere(first_);
  place_.write("out/.copied-by-hyc-run", "hyc-run folder 1\n" + rowsOf(second_) + rowsOf(first_));
  place_.write("out/a", second_[0].second);
  result = receive(third_);
  EXPECT_EQ(result.status, 0) << result.errors;
  expectThere(third_);
  EXPECT_FALSE(std::filesystem::exists(place_ / "out/gone"));
}

TEST_F(ACopiedFolder, ThatWasChangedIsLeftAsItIs) {
  EXPECT_EQ(receive(first_).status, 0);
  place_.write("out/.copied-by-hyc-run", "hyc-run folder 1\n" + rowsOf(second_) + rowsOf(first_));
  place_.write("out/b", "b of the user's");
  const CommandResult result = receive(third_);
  EXPECT_EQ(result.status, 65) << result.errors;
  EXPECT_NE(result.errors.find("/out/b' of this host is another than that of hyc-run's, and was changed since"),
            std::string::npos)
      << result.errors;
  EXPECT_EQ(place_.read("out/a"), first_[0].second);
  EXPECT_EQ(place_.read("out/b"), "b of the user's");
}

}  // namespace
