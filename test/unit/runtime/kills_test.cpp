// Runs and launchers that are killed, aimed at the moment in which weights are saved: nothing is lost, and nothing
// stays. HYC_KILLS_IN_SAVES and HYC_KILLS_OF_LAUNCHERS say how many kills; scripts/test --long asks for many.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <random>
#include <set>

#include "compiled_folder.h"
#include "run_command.h"
#include "temporary_folder.h"

namespace {

namespace fs = std::filesystem;

int countFrom(const char* variable, int byDefault) {
  const char* text = std::getenv(variable);
  return text ? std::atoi(text) : byDefault;
}

std::set<std::string> namesIn(const std::string& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

// A run that saves under `target`, and what it saves where nothing happens to it.
class Kills : public testing::Test {
 protected:
  void SetUp() override {
    for (CompiledFolder* folder : {&one_, &eight_}) {
      for (const char* steps : {"1", "2"}) {
        const CommandResult result = runCommand(command(*folder, steps));
        ASSERT_EQ(result.status, 0) << result.errors;
        known_.insert(weights());
      }
    }
  }
  std::vector<std::string> command(const CompiledFolder& folder, const std::string& steps) const {
    return folder.command({"--steps", steps, "--save-weights", saves_ / "con"});
  }
  const CompiledFolder& folderOf(int i) const { return i % 2 == 0 ? one_ : eight_; }
  std::string weights() const { return saves_.read("con/model.safetensors"); }
  // What is being saved, or was as a run was killed.
  std::set<std::string> partials() const {
    std::set<std::string> found;
    for (const std::string& name : namesIn(saves_.path())) {
      if (name.find(".partial") != std::string::npos) found.insert(name);
    }
    return found;
  }
  // Whether there is one that was not there `before`.
  bool isSaving(const std::set<std::string>& before) const {
    const std::set<std::string> now = partials();
    return std::any_of(now.begin(), now.end(), [&](const std::string& name) { return before.count(name) == 0; });
  }
  // Until the run saves, or is over without that having been seen.
  bool waitForSave(const RunningCommand& job, const std::set<std::string>& before) const {
    while (!hasEnded(job.pid())) {
      if (isSaving(before)) return true;
    }
    return false;
  }
  static void expectGone(const std::vector<pid_t>& processes) {
    for (int i = 0; i < 2000 && !std::all_of(processes.begin(), processes.end(), hasEnded); ++i) usleep(1000);
    for (pid_t process : processes) EXPECT_TRUE(hasEnded(process)) << "an orphan: " << process;
  }

  CompiledFolder one_{Layout{1, 1, 1}}, eight_{Layout{2, 2, 2}};
  TemporaryFolder saves_;
  std::set<std::string> known_;  // whole weights
  std::mt19937 random_{7};
};

TEST_F(Kills, InASaveLeaveWholeWeights) {
  const int wanted = countFrom("HYC_KILLS_IN_SAVES", 6);
  int hits = 0, left = 0, replaced = 0, runs = 0;
  for (; hits < wanted && runs < 10 * wanted; ++runs) {
    const std::string weightsBefore = weights();
    const std::set<std::string> before = partials();
    RunningCommand job(command(folderOf(runs), runs % 4 < 2 ? "1" : "2"));
    if (!waitForSave(job, before)) continue;
    const std::vector<pid_t> ranks = job.children();
    usleep(std::uniform_int_distribution<useconds_t>(0, 4000)(random_));
    const bool inSave = isSaving(before);
    const int which = static_cast<int>(random_() % (ranks.size() + 1));  // one of the ranks, or the launcher
    kill(which == 0 ? job.pid() : ranks[static_cast<size_t>(which) - 1], SIGKILL);
    const int status = job.finish().status;
    expectGone(ranks);
    ASSERT_EQ(known_.count(weights()), 1u) << "torn weights after kill " << runs;
    if (!inSave || status == 0) continue;
    ++hits;
    left += isSaving(before);
    replaced += weights() != weightsBefore;
  }
  EXPECT_EQ(hits, wanted) << "of " << runs << " runs";
  std::printf("%d runs: %d were killed in a save; %d of these left a partial one, %d had replaced the weights\n", runs,
              hits, left, replaced);
  ASSERT_EQ(runCommand(command(one_, "1")).status, 0);
  EXPECT_EQ(namesIn(saves_.path()), (std::set<std::string>{"con"})) << "what killed runs left is still there";
  EXPECT_EQ(known_.count(weights()), 1u);
}

TEST_F(Kills, OfTheLauncherLeaveNoProcessAndNoFile) {
  const int wanted = countFrom("HYC_KILLS_OF_LAUNCHERS", 6);
  constexpr int kSignals[] = {SIGKILL, SIGTERM, SIGINT};
  // A place of its own: other tests make and remove files in the common one meanwhile.
  const TemporaryFolder own;
  const std::string temporary = own.path();
  const char* const common = std::getenv("TMPDIR");
  const std::string restored = common ? common : "";
  setenv("TMPDIR", temporary.c_str(), 1);
  int inSaves = 0;
  for (int i = 0; i < wanted; ++i) {
    const int signal = kSignals[i % 3];
    const std::set<std::string> before = namesIn(temporary);
    RunningCommand job(command(folderOf(i / 3), "1"));
    // At any moment, one in two in the save.
    if (i % 2 == 0) waitForSave(job, {});
    usleep(std::uniform_int_distribution<useconds_t>(0, i % 2 == 0 ? 2000 : 150000)(random_));
    inSaves += isSaving({});
    const std::vector<pid_t> ranks = job.children();
    kill(job.pid(), signal);
    const int status = job.finish().status;
    EXPECT_TRUE(status == 128 + signal || status == 0) << status;
    expectGone(ranks);
    ASSERT_EQ(known_.count(weights()), 1u) << "torn weights after kill " << i;
    if (signal == SIGKILL) {
      EXPECT_EQ(runCommand(command(one_, "2")).status, 0) << "the next run cleans up";
    }
    EXPECT_EQ(namesIn(saves_.path()), (std::set<std::string>{"con"})) << "after signal " << signal;
    for (const std::string& name : namesIn(temporary)) {
      const bool isOurs = name.rfind("hyc", 0) == 0 && name.rfind("hyc-command-", 0) != 0;
      EXPECT_TRUE(before.count(name) == 1 || !isOurs || fs::exists(temporary + "/" + name) == false) << name;
    }
  }
  if (common) {
    setenv("TMPDIR", restored.c_str(), 1);
  } else {
    unsetenv("TMPDIR");
  }
  std::printf("%d launchers were ended by SIGKILL, SIGTERM or SIGINT, %d of them in a save\n", wanted, inSaves);
}

}  // namespace
