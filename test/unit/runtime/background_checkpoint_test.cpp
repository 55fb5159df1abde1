// Checkpoints that are written while training goes on: the same bytes as of those that training waits for, and as safe
// where a disk is full, a rank is killed, or the run ends meanwhile.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/available_memory.h"
#include "base/background_job.h"
#include "checkpoint/checkpoint_folder.h"
#include "compiled_folder.h"
#include "hycrt/run_event.h"
#include "hycrt/step_report.h"
#include "io/block_file.h"
#include "run_command.h"
#include "temporary_folder.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Files by name, their bytes as text.
std::map<std::string, std::string> filesIn(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    std::ifstream file(entry.path(), std::ios::binary);
    files[entry.path().filename()] = {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  return files;
}

class BackgroundCheckpoints : public testing::Test {
 protected:
  std::vector<std::string> words(const std::string& steps, std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"--steps", steps, "--checkpoint", runs(), "--log-file", log()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::vector<json> logLines() const {
    std::vector<json> lines;
    std::ifstream file(log());
    for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
    return lines;
  }
  std::vector<double> losses() const {
    std::vector<double> all;
    for (const json& line : logLines()) {
      if (line.contains("loss")) all.push_back(line["loss"]);
    }
    return all;
  }
  // Of the checkpoint's line in the log, its number there, and it.
  std::pair<size_t, json> toldOf(int step) const {
    const std::vector<json> lines = logLines();
    for (size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].value("event", "") == "checkpoint" && lines[i]["step"] == step) return {i, lines[i]};
    }
    ADD_FAILURE() << "no checkpoint of step " << step << " is told";
    return {};
  }
  size_t lineOfStep(int step) const {
    const std::vector<json> lines = logLines();
    for (size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].contains("loss") && lines[i]["step"] == step) return i;
    }
    return lines.size();
  }
  std::string runs() const { return files_ / "runs"; }
  std::string log() const { return files_ / "log.jsonl"; }
  std::string step(int number) const { return runs() + "/step-" + std::to_string(number); }
  static bool isWhole(const std::string& folder) {
    const hycrt::Result<hycrt::Checkpoint> checkpoint = hycrt::openCheckpoint(folder);
    return checkpoint.ok() && hycrt::verifyCheckpoint(*checkpoint).ok();
  }

  TemporaryFolder files_;
  CompiledFolder one_{Layout{1, 1, 1}}, eight_{Layout{2, 2, 2}};
};

TEST_F(BackgroundCheckpoints, AreTheBytesOfThoseThatTrainingWaitsFor) {
  CompiledFolder four{Layout{1, 2, 2}};
  for (const CompiledFolder* folder : {&one_, &four, &eight_}) {
    std::map<std::string, std::string> sync[3], async[3];
    std::vector<double> expected;
    for (const std::string mode : {"sync", "async"}) {
      fs::remove_all(runs());
      const CommandResult result =
          runCommand(folder->command(words("5", {"--checkpoint-every", "2", "--checkpoint-mode", mode})));
      ASSERT_EQ(result.status, 0) << result.errors;
      for (int i = 0; i < 3; ++i) (mode == "sync" ? sync : async)[i] = filesIn(step(std::min(5, 2 * i + 2)));
      if (mode == "sync") expected = losses();
    }
    EXPECT_EQ(losses(), expected);
    EXPECT_EQ(expected.size(), 5U);
    for (int i = 0; i < 3; ++i) {
      EXPECT_GT(sync[i].size(), 1U);
      EXPECT_EQ(sync[i], async[i]) << i;
    }
    EXPECT_NE(sync[0], sync[1]);
  }
}

// A disk that takes three seconds to sync the first part does not keep the next steps waiting.
TEST_F(BackgroundCheckpoints, LetTrainingGoOn) {
  const CommandResult result =
      runCommand(eight_.command(words("12", {"--checkpoint-every", "6", "--checkpoint-mode", "async"})),
                 {{"HYC_IO_FAULT", "1:sync:0:delay=3000"}});
  ASSERT_EQ(result.status, 0) << result.errors;
  const auto [line, told] = toldOf(6);
  EXPECT_GT(line, lineOfStep(8));
  EXPECT_GE(told["written"], 3.0);
  EXPECT_GT(told["gone_on"], 0.0);
  EXPECT_TRUE(isWhole(step(6)) && isWhole(step(12)));
}

TEST_F(BackgroundCheckpoints, AreWaitedForByTheNextAndByTheEnd) {
  const CommandResult result =
      runCommand(eight_.command(words("6", {"--checkpoint-every", "2", "--checkpoint-mode", "async"})),
                 {{"HYC_IO_FAULT", "2:write:*:delay=150"}});
  ASSERT_EQ(result.status, 0) << result.errors;
  for (int number : {2, 4, 6}) EXPECT_TRUE(isWhole(step(number))) << number;
  EXPECT_LT(toldOf(2).first, toldOf(4).first);
  EXPECT_LT(lineOfStep(4), toldOf(4).first);
  EXPECT_EQ(std::distance(fs::directory_iterator(runs()), {}), 3);
}

TEST_F(BackgroundCheckpoints, AreFinishedBeforeARunEndsEarly) {
  RunningCommand job(eight_.command(words("100000", {"--checkpoint-every", "50", "--checkpoint-mode", "async"})),
                     {{"HYC_IO_FAULT", "3:sync:*:delay=400"}});
  // The folder is there as long as it is being written.
  const auto isBegun = [&] {
    return fs::exists(runs()) && std::any_of(fs::directory_iterator(runs()), {}, [](const fs::directory_entry& entry) {
             return says(entry.path().filename(), ".partial");
           });
  };
  for (int i = 0; i < 2000 && !isBegun(); ++i) usleep(5000);
  kill(job.pid(), SIGTERM);
  const CommandResult result = job.finish();
  EXPECT_EQ(result.status, 75) << result.errors;
  EXPECT_FALSE(isBegun());
  int64_t last = 0;
  for (const json& line : logLines()) {
    if (line.contains("loss")) last = line["step"];
  }
  EXPECT_TRUE(isWhole(step(50)));
  EXPECT_TRUE(isWhole(step(static_cast<int>(last)))) << last;
}

TEST_F(BackgroundCheckpoints, ThatCannotBeWrittenEndTheRunOrNot) {
  ASSERT_EQ(runCommand(eight_.command(words("1"))).status, 0);
  const std::map<std::string, std::string> before = filesIn(step(1));
  for (const char* fault : {"1:write:0:ENOSPC", "3:sync:0:EIO", "0:rename:0:ENOSPC", "0:sync:2:EIO"}) {
    const std::vector<std::string> more{"--resume", "auto", "--checkpoint-every", "3", "--checkpoint-mode", "async"};
    CommandResult result = runCommand(eight_.command(words("4000", more)), {{"HYC_IO_FAULT", fault}});
    EXPECT_EQ(result.status, 74) << fault << ": " << result.errors;
    EXPECT_TRUE(says(result.errors, "cannot ")) << fault << ": " << result.errors;
    EXPECT_EQ(std::distance(fs::directory_iterator(runs()), {}), 1) << fault;
    EXPECT_EQ(filesIn(step(1)), before);
  }
  CommandResult result = runCommand(eight_.command(words("9", {"--checkpoint-every", "3", "--checkpoint-mode", "async",
                                                               "--checkpoint-failure", "warn"})),
                                    {{"HYC_IO_FAULT", "5:write:0:ENOSPC"}});
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_TRUE(says(result.output + result.errors, "step-3' was not written")) << result.errors;
  EXPECT_TRUE(!fs::exists(step(3)) && isWhole(step(6)) && isWhole(step(9)));
}

TEST_F(BackgroundCheckpoints, ThatAKillInterruptsLeaveTheOneBefore) {
  ASSERT_EQ(runCommand(eight_.command({"--steps", "40", "--save-weights", files_ / "whole.safetensors"})).status, 0);
  for (int i = 0; i < 4; ++i) {
    fs::remove_all(runs());
    {
      RunningCommand job(
          eight_.command(words("40", {"--checkpoint-every", "10", "--checkpoint-mode", "async", "--keep", "2"})),
          {{"HYC_IO_FAULT", std::to_string(i) + ":write:*:delay=60"}});
      while (!hasEnded(job.pid()) && !fs::exists(step(10))) usleep(1000);
      usleep(static_cast<useconds_t>(20000 * i));
      const std::vector<pid_t> ranks = job.children();
      if (i % 2 == 0) kill(job.pid(), SIGKILL);
      for (pid_t rank : ranks) kill(rank, SIGKILL);
      EXPECT_NE(job.finish().status, 0);
    }
    const CommandResult result =
        runCommand(eight_.command(words("40", {"--resume", "auto", "--save-weights", files_ / "resumed.safetensors"})));
    ASSERT_EQ(result.status, 0) << result.errors;
    EXPECT_FALSE(says(result.errors, "warning")) << result.errors;
    EXPECT_EQ(files_.read("whole.safetensors"), files_.read("resumed.safetensors"));
  }
}

TEST_F(BackgroundCheckpoints, NeedRoomThatIsDeclaredAndAFolder) {
  CommandResult result = runCommand(one_.command({"--steps", "1", "--checkpoint-mode", "sync"}));
  EXPECT_EQ(result.status, 64);
  EXPECT_TRUE(says(result.errors, "--checkpoint-mode is given without a folder")) << result.errors;
  result = runCommand(one_.command(words("1", {"--checkpoint-mode", "later"})));
  EXPECT_EQ(result.status, 64);
  EXPECT_TRUE(says(result.errors, "--checkpoint-mode")) << result.errors;
}

// --------------------------------------------------------------------------------------------------------- its parts

TEST(AvailableMemory, IsSomeOfWhatTheHostHas) {
  const int64_t all = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  EXPECT_GT(hycrt::availableMemory(), int64_t{1} << 20);
  EXPECT_LT(hycrt::availableMemory(), all);
}

TEST(BackgroundJob, SaysWhenItIsOverAndHowItEnded) {
  hycrt::BackgroundJob job;
  std::atomic<bool> goes{false};
  ASSERT_TRUE(job.start("a test",
                        [&] {
                          while (!goes) std::this_thread::yield();
                          return hycrt::ioError("full");
                        })
                  .ok());
  EXPECT_FALSE(job.isOver());
  goes = true;
  job.wait();
  EXPECT_TRUE(job.isOver());
  EXPECT_EQ(job.status().message(), "full");
  job.runNow([] { return hycrt::Status(); });
  EXPECT_TRUE(job.isOver() && job.status().ok());
}

TEST(BackgroundJob, IsAskedToGiveUpByItsOwnersEnd) {
  bool gaveUp = false;
  {
    hycrt::BackgroundJob job;
    ASSERT_TRUE(job.start("a test",
                          [&] {
                            while (!job.givesUp()) std::this_thread::yield();
                            gaveUp = true;
                            return hycrt::Status();
                          })
                    .ok());
  }
  EXPECT_TRUE(gaveUp);
}

// Steps after the states that were saved are lost with a restart, though the checkpoint is told after them.
TEST(RunAccount, CountsFromTheStatesThatWereSaved) {
  hycrt::RunAccount account;
  hycrt::StepRecord record;
  record.milliseconds = 1000;
  for (int i = 0; i < 5; ++i) account.add(record);
  hycrt::RunEvent event{hycrt::RunEvent::Kind::kCheckpoint, 2, "", 0.25, "runs/step-2"};
  event.written = 3.5;
  event.goneOn = 3;
  const hycrt::Result<hycrt::RunEvent> again = hycrt::parseRunEvent(hycrt::toJson(event));
  ASSERT_TRUE(again.ok());
  account.add(*again);
  account.add({hycrt::RunEvent::Kind::kVerify, 3, "", 0.5, ""});
  account.add({hycrt::RunEvent::Kind::kRestart, 2, "SIGKILL", 0, ""});
  const json report = json::parse(account.toJson(10));
  EXPECT_EQ(report["step_seconds"], 2.0);
  EXPECT_EQ(report["redone_seconds"], 3.0);
  EXPECT_EQ(report["checkpoint_seconds"], 0.25);
  EXPECT_EQ(report["verifications"], 1);
  EXPECT_EQ(report["verify_seconds"], 0.5);
  EXPECT_TRUE(says(account.toLine(10), "1 comparison of states 0.50 s")) << account.toLine(10);
}

TEST(RunAccount, TellsWhatCouldNotBeWrittenWhereNothingWas) {
  hycrt::RunAccount account;
  account.add({hycrt::RunEvent::Kind::kCheckpointFailed, 1, "the disk is full", 0.5, "runs/step-1"});
  account.add({hycrt::RunEvent::Kind::kCopyFailed, 1, "nobody is there", 0.25, ""});
  EXPECT_NE(
      account.toLine(2).find(", 0 checkpoints 0.50 s (and 1 could not be written), 0 copies in memory 0.25 s (and 1 "
                             "could not be made), the rest "),
      std::string::npos)
      << account.toLine(2);
}

// A checkpoint that was whole before anybody could tell of it costs no more than what was done after its step.
TEST(RunAccount, CountsFromACheckpointThatWasNotTold) {
  hycrt::RunAccount account;
  hycrt::StepRecord record;
  record.milliseconds = 1000;
  for (int64_t step = 1; step <= 7; ++step) {
    record.step = step;
    account.add(record);
    if (step == 2) account.add(hycrt::RunEvent{hycrt::RunEvent::Kind::kCheckpoint, 2, "", 0.25, "runs/step-2"});
  }
  account.add({hycrt::RunEvent::Kind::kRestart, 6, "SIGKILL", 0, "runs/step-6"});
  const json report = json::parse(account.toJson(10));
  EXPECT_EQ(report["step_seconds"], 6.0);
  EXPECT_EQ(report["redone_seconds"], 1.0);
}

// What was not read yet is not written over; what is elsewhere is.
TEST(HeldRanges, AreWrittenOnceTheyAreLetGo) {
  TemporaryFolder folder;
  hycrt::BlockFileOptions options;
  options.folder = folder.path();
  options.bytes = 4 * hycrt::kBlockBytes;
  hycrt::Result<std::unique_ptr<hycrt::BlockFile>> made = hycrt::BlockFile::create(options);
  ASSERT_TRUE(made.ok());
  hycrt::BlockFile& file = **made;
  alignas(hycrt::kBlockBytes) static std::byte block[hycrt::kBlockBytes];
  file.hold({{0, hycrt::kBlockBytes}, {hycrt::kBlockBytes, 10}});
  EXPECT_TRUE(file.wait(file.startWrite(block, hycrt::kBlockBytes, 2 * hycrt::kBlockBytes)).ok());
  EXPECT_EQ(file.secondsHeldUp(), 0);
  std::atomic<bool> isLetGo{false};
  std::thread reader([&] {
    EXPECT_TRUE(file.wait(file.startRead(block, hycrt::kBlockBytes, 0)).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    isLetGo = true;
    file.letGo(hycrt::kBlockBytes);
  });
  const hycrt::IoTicket ticket = file.startWrite(block, hycrt::kBlockBytes, hycrt::kBlockBytes);
  EXPECT_TRUE(isLetGo);
  EXPECT_TRUE(file.wait(ticket).ok());
  reader.join();
  EXPECT_GT(file.secondsHeldUp(), 0.04);
  file.letGoOfAll();
  EXPECT_TRUE(file.wait(file.startWrite(block, hycrt::kBlockBytes, 0)).ok());
}

}  // namespace
