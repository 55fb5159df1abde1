// What runs write, where other runs, links and files of the user's own are in the way: nothing is lost, and nothing is
// written elsewhere. Whole runs of the miniature model, of one rank, that hyc-run starts.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <set>

#include "compiled_folder.h"
#include "run_command.h"
#include "temporary_folder.h"

namespace {

namespace fs = std::filesystem;

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// Names in a folder, without what is known to be there.
std::set<std::string> namesIn(const std::string& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

class Outputs : public testing::Test {
 protected:
  CommandResult save(const std::string& target, const std::string& steps = "2") {
    return runCommand(folder_.command({"--steps", steps, "--save-weights", target}));
  }
  std::string weightsIn(const std::string& name) { return saves_.read(name + "/model.safetensors"); }

  CompiledFolder folder_{Layout{1, 1, 1}};
  TemporaryFolder saves_;
};

TEST_F(Outputs, OfARunLeaveNothingBesideThem) {
  const CommandResult result =
      runCommand(folder_.command({"--steps", "12", "--save-weights", saves_ / "con", "--dump-gradients",
                                  saves_ / "gradients", "--trace", saves_ / "trace"}));
  EXPECT_EQ(result.status, 0) << result.errors;
  // The pattern in the arenas is no number where this model pads.
  const CommandResult measured =
      runCommand(folder_.command({"--steps", "2", "--allow-nonfinite", "--measure-memory", saves_ / "memory"}));
  EXPECT_EQ(measured.status, 0) << measured.errors;
  EXPECT_EQ(namesIn(saves_.path()), (std::set<std::string>{"con", "gradients", "memory", "trace"}));
  EXPECT_EQ(namesIn(saves_ / "con"), (std::set<std::string>{"model.safetensors"}));
}

// A job that is saving is stopped in the middle by the mistyped command of another one, as far as that goes.
TEST_F(Outputs, OfAnotherJobAreNotTouchedByACommandThatFails) {
  RunningCommand job(folder_.command({"--steps", "1000000000", "--save-weights", saves_ / "con"}));
  while (!fs::exists(saves_ / ".con.lock")) usleep(1000);
  fs::create_directory(saves_ / "con.partial");
  saves_.write("con.partial/model.safetensors", "the user's own");
  const CommandResult mistyped = runCommand({kHycRun, folder_ / "typo", "--save-weights", saves_ / "con"});
  EXPECT_EQ(mistyped.status, 74);
  EXPECT_EQ(saves_.read("con.partial/model.safetensors"), "the user's own");
  EXPECT_TRUE(fs::exists(saves_ / ".con.lock"));
}

TEST_F(Outputs, OfOneTargetAreOneRunsAndTheHolderIsNamed) {
  RunningCommand job(folder_.command({"--steps", "1000000000", "--save-weights", saves_ / "con"}));
  while (!fs::exists(saves_ / ".con.lock") || saves_.read(".con.lock").empty()) usleep(1000);
  const CommandResult second = save(saves_ / "con");
  EXPECT_EQ(second.status, 69);
  EXPECT_CONTAINS(second.errors, "is another run's");
  EXPECT_CONTAINS(second.errors, "is held by process " + std::to_string(job.children().at(0)) + " on ");
  EXPECT_TRUE(fs::exists(saves_ / ".con.lock")) << "the second run has removed the first one's lock";
  EXPECT_EQ(save(saves_ / "other").status, 0);
  kill(job.children().at(0), SIGKILL);
  EXPECT_EQ(job.finish().status, 137);
  EXPECT_EQ(namesIn(saves_.path()), (std::set<std::string>{"other"}));
  EXPECT_EQ(save(saves_ / "con").status, 0);
}

TEST_F(Outputs, UnderANameThatIsALinkAreRefusedBeforeTraining) {
  fs::create_directory(saves_ / "real");
  saves_.write("real/model.safetensors", "weights");
  saves_.write("file.safetensors", "weights");
  fs::create_directory_symlink(saves_ / "real", saves_ / "link");
  fs::create_symlink(saves_ / "file.safetensors", saves_ / "link.safetensors");
  fs::create_symlink(saves_ / "nowhere", saves_ / "dangling");
  for (const char* option : {"--save-weights", "--dump-gradients", "--trace", "--measure-memory"}) {
    for (const char* name : {"link.safetensors", "dangling", "link", "link/"}) {
      const CommandResult result = runCommand(folder_.command({"--steps", "2", option, saves_ / name}));
      EXPECT_EQ(result.status, 74) << option << " " << name;
      EXPECT_EQ(result.output, "");
    }
  }
  EXPECT_EQ(weightsIn("real"), "weights");
  EXPECT_EQ(saves_.read("file.safetensors"), "weights");
  EXPECT_EQ(namesIn(saves_.path()),
            (std::set<std::string>{"dangling", "file.safetensors", "link", "link.safetensors", "real"}));
}

// Of names that were foreseeable once.
TEST_F(Outputs, DoNotFollowLinksThatWerePlantedWhereTheyAreMade) {
  const std::string victim = saves_.write("victim", "somebody's");
  for (const char* name : {"w.safetensors.partial", "gradients.partial", "trace.partial", "con.partial"}) {
    fs::create_symlink(victim, saves_ / name);
  }
  for (const char* target : {"w.safetensors", "con"}) {
    const CommandResult result =
        runCommand(folder_.command({"--steps", "3", "--save-weights", saves_ / target, "--dump-gradients",
                                    saves_ / "gradients", "--trace", saves_ / "trace"}));
    EXPECT_EQ(result.status, 0) << result.errors;
  }
  EXPECT_EQ(saves_.read("victim"), "somebody's");
  EXPECT_TRUE(fs::is_symlink(saves_ / "con.partial"));
}

TEST_F(Outputs, TakeTheNewWeightsOrKeepTheOld) {
  ASSERT_EQ(save(saves_ / "con").status, 0);
  const std::string old = weightsIn("con");
  ASSERT_EQ(save(saves_ / "con", "5").status, 0);
  EXPECT_NE(weightsIn("con"), old);
  EXPECT_EQ(namesIn(saves_.path()), (std::set<std::string>{"con"}));
}

// What comes into the target's folder while the run trains is not swept away, and the weights are not thrown away.
TEST_F(Outputs, ThatFindTheTargetTakenAreKeptBesideIt) {
  ASSERT_EQ(save(saves_ / "con").status, 0);
  const std::string old = weightsIn("con");
  RunningCommand job(folder_.command({"--steps", "20000", "--save-weights", saves_ / "con"}));
  while (!fs::exists(saves_ / ".con.lock")) usleep(1000);
  saves_.write("con/notes", "mine");
  const CommandResult result = job.finish();
  EXPECT_EQ(result.status, 74);
  EXPECT_CONTAINS(result.errors, "holds 'notes'");
  EXPECT_CONTAINS(result.errors, "; the weights are in '" + (saves_ / "con.hyc-"));
  EXPECT_EQ(saves_.read("con/notes"), "mine");
  EXPECT_EQ(weightsIn("con"), old);
  std::set<std::string> names = namesIn(saves_.path());
  ASSERT_EQ(names.size(), 2u);
  EXPECT_GT(weightsIn(*names.rbegin()).size(), 100u);
}

TEST_F(Outputs, NeverAreWhatTheCompilerMade) {
  folder_.files().write("report.txt", "what hyc-compile wrote");
  folder_.files().write("plan.json", "{}");
  folder_.files().write("files.json",
                        "{\"format_version\": 1, \"files\": [{\"path\": \"report.txt\", \"bytes\": 22, \"blake3\": "
                        "\"\"}, {\"path\": \"plan.json\", \"bytes\": 2, \"blake3\": \"\"}]}");
  fs::create_hard_link(folder_ / "report.txt", folder_ / "same");
  for (const char* option : {"--log-file", "--dump-gradients", "--trace", "--measure-memory"}) {
    for (const char* name : {"report.txt", "plan.json", "files.json", "same", "manifest.json", "text"}) {
      const CommandResult result = runCommand(folder_.command({"--steps", "2", option, folder_ / name}));
      EXPECT_EQ(result.status, 64) << option << " " << name;
      EXPECT_CONTAINS(result.errors, "would overwrite");
    }
  }
  EXPECT_EQ(folder_.files().read("report.txt"), "what hyc-compile wrote");
  EXPECT_EQ(folder_.files().read("plan.json"), "{}");
  EXPECT_EQ(runCommand(folder_.command({"--steps", "2", "--log-file", folder_ / "log.jsonl"})).status, 0);
}

// At whatever moment: the target holds whole weights, old or new, or nothing yet.
TEST_F(Outputs, OfRunsThatAreKilledAreWholeOrNotThere) {
  ASSERT_EQ(save(saves_ / "con", "20").status, 0);
  const size_t whole = weightsIn("con").size();
  int ended = 0;
  for (int i = 0; i < 40; ++i) {
    RunningCommand job(folder_.command({"--steps", "20", "--save-weights", saves_ / "con"}));
    usleep(static_cast<useconds_t>(1000 * i));
    const std::vector<pid_t> ranks = job.children();
    if (!ranks.empty() && i % 2 == 0) kill(ranks.front(), SIGKILL);
    if (i % 2 != 0) kill(job.pid(), SIGKILL);
    ended += job.finish().status == 0;
    for (pid_t rank : ranks) {
      while (!hasEnded(rank)) usleep(1000);
    }
    ASSERT_EQ(weightsIn("con").size(), whole) << "after kill " << i;
  }
  EXPECT_LT(ended, 40);
  EXPECT_EQ(save(saves_ / "con", "20").status, 0);
  EXPECT_EQ(weightsIn("con").size(), whole);
  EXPECT_EQ(namesIn(saves_.path()), (std::set<std::string>{"con"})) << "what killed runs left is still there";
}

}  // namespace
