// Runs that are interrupted and go on: signals and time limits that write a checkpoint first, and failures after which
// hyc-run starts the ranks again. Each ends with the bits of an undisturbed run. HYC_RESTARTS says how many ranks are
// killed at random moments.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/crc32c.h"
#include "base/file.h"
#include "checkpoint/manifest.h"
#include "checkpoint/replica_check.h"
#include "compiled_folder.h"
#include "hycrt/resume.h"
#include "own_launch.h"
#include "run_command.h"
#include "temporary_folder.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr Layout kEight{2, 2, 2};

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class Lasting : public testing::Test {
 protected:
  // Every line has to be JSON.
  std::vector<json> logLines() const {
    std::vector<json> lines;
    std::ifstream file(log());
    for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
    return lines;
  }
  std::vector<json> events(const std::string& kind) const {
    std::vector<json> found;
    for (const json& line : logLines()) {
      if (line.value("event", "") == kind) found.push_back(line);
    }
    return found;
  }
  // Of the steps in the log, in its order.
  std::vector<std::pair<int64_t, double>> losses() const {
    std::vector<std::pair<int64_t, double>> all;
    for (const json& line : logLines()) {
      if (line.contains("loss")) all.emplace_back(line["step"], line["loss"]);
    }
    return all;
  }
  std::string log() const { return files_ / "log.jsonl"; }
  std::string runs() const { return files_ / "runs"; }
  std::vector<std::string> words(const std::string& steps, std::vector<std::string> more = {}) const {
    std::vector<std::string> all{"--steps", steps, "--checkpoint", runs(), "--log-file", log()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  // What a run that nothing happens to ends with.
  std::string undisturbed(const std::string& steps) {
    const std::string target = files_ / "whole.safetensors";
    EXPECT_EQ(runCommand(folder_.command({"--steps", steps, "--save-weights", target})).status, 0);
    return files_.read("whole.safetensors");
  }
  void awaitStep(int64_t step) const {
    for (int i = 0; i < 3000; ++i) {
      // The last line may be one that is being written.
      std::ifstream file(log());
      for (std::string line; std::getline(file, line);) {
        const json record = json::parse(line, nullptr, false);
        if (!record.is_discarded() && record.contains("loss") && record["step"] >= step) return;
      }
      usleep(5000);
    }
    ADD_FAILURE() << "step " << step << " does not come";
  }
  static std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  TemporaryFolder files_;
  CompiledFolder folder_{kEight};
};

TEST_F(Lasting, WriteACheckpointAtSIGUSR2AndGoOn) {
  const std::string expected = undisturbed("40");
  const std::vector<std::string> all = words("40", {"--save-weights", files_ / "weights.safetensors"});
  for (const bool toLauncher : {true, false}) {
    fs::remove_all(runs());
    fs::remove(log());
    RunningCommand job(folder_.command(all), {{"MINIATURE_PAUSE", "20"}});
    awaitStep(3);
    // To any one rank is enough.
    kill(toLauncher ? job.pid() : job.children().at(5), SIGUSR2);
    const CommandResult result = job.finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(files_.read("weights.safetensors"), expected);
    const std::vector<json> written = events("checkpoint");
    ASSERT_EQ(written.size(), 2u) << result.errors;
    EXPECT_EQ(written[0]["cause"], "SIGUSR2");
    EXPECT_GE(written[0]["step"], 3);
    EXPECT_LT(written[0]["step"], 40);
    EXPECT_EQ(written[1]["cause"], "the last step");
    EXPECT_TRUE(fs::exists(written[0]["path"].get<std::string>()));
  }
}

TEST_F(Lasting, SaveAndEndWith75AtSIGTERMAndGoOnWithTheSameBits) {
  const std::string expected = undisturbed("40");
  const std::vector<std::string> all =
      words("40", {"--resume", "auto", "--save-weights", files_ / "weights.safetensors"});
  RunningCommand job(folder_.command(all), {{"MINIATURE_PAUSE", "20"}});
  awaitStep(3);
  kill(job.pid(), SIGTERM);
  CommandResult result = job.finish();
  EXPECT_EQ(result.status, 75) << result.errors;
  EXPECT_TRUE(says(result.errors, "a checkpoint is written after this step, and the run ends")) << result.errors;
  EXPECT_FALSE(says(result.errors, "ended with status")) << result.errors;
  ASSERT_EQ(events("checkpoint").size(), 1u) << result.errors;
  const int64_t step = events("checkpoint")[0]["step"];
  ASSERT_EQ(events("end").size(), 1u) << "every rank tells, and the log has it once";
  EXPECT_EQ(events("end")[0]["step"], step);
  EXPECT_EQ(losses().back().first, step);
  EXPECT_FALSE(fs::exists(files_ / "weights.safetensors"));

  result = runCommand(folder_.command(all));
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(files_.read("weights.safetensors"), expected);
  // One log of both, without a gap.
  const std::vector<std::pair<int64_t, double>> told = losses();
  ASSERT_EQ(told.size(), 40u);
  for (size_t i = 0; i < told.size(); ++i) EXPECT_EQ(told[i].first, static_cast<int64_t>(i) + 1);
  ASSERT_EQ(events("resume").size(), 1u);
  EXPECT_EQ(events("resume")[0]["step"], step);
  EXPECT_EQ(events("report").size(), 2u);
  EXPECT_TRUE(says(result.output, "time: ")) << result.output;
}

TEST_F(Lasting, AgreeOnTheStepWithoutHycRun) {
  const std::string expected = undisturbed("40");
  for (const char* transport : {"auto", "tcp"}) {
    fs::remove_all(runs());
    fs::remove(log());
    const std::string token(40, 'k');
    OwnLaunch launch(folder_, kEight, claimPort(), {{"MINIATURE_PAUSE", "20"}, {"HYC_TOKEN", token}},
                     words("40", {"--transport", transport}));
    awaitStep(3);
    kill(launch.ranks[6]->pid(), SIGTERM);
    for (const auto& rank : launch.ranks) {
      const CommandResult result = rank->finish();
      EXPECT_EQ(result.status, 75) << result.errors;
      EXPECT_FALSE(says(result.errors, "error:")) << result.errors;
    }
    const CommandResult result = runCommand(
        folder_.command(words("40", {"--resume", "auto", "--save-weights", files_ / "weights.safetensors"})));
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(files_.read("weights.safetensors"), expected);
  }
}

// As a pager that waits for a key, or a terminal that was told to stop.
TEST_F(Lasting, SaveAndEndThoughNobodyReadsWhatTheySay) {
  const std::string words = files_ / "words";
  ASSERT_EQ(mkfifo(words.c_str(), 0600), 0);
  const hycrt::FileDescriptor reader(open(words.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  ASSERT_GE(fcntl(reader.get(), F_SETPIPE_SZ, 4096), 0);
  std::vector<std::string> command{"/bin/sh", "-c", "exec \"$@\" >" + words + " 2>&1", "sh"};
  for (std::string& word : folder_.command(this->words("1000000000"))) command.push_back(std::move(word));
  RunningCommand job(command);
  const auto isFull = [&] {
    pollfd item{reader.get(), POLLOUT, 0};
    return poll(&item, 1, 0) == 0;
  };
  // Where it stays so, hyc-run waits for a reader.
  for (int i = 0, full = 0; i < 3000 && full < 50; ++i, usleep(10000)) full = isFull() ? full + 1 : 0;
  ASSERT_TRUE(isFull());
  kill(job.pid(), SIGTERM);
  EXPECT_EQ(job.finish(kSoon).status, 75);
  ASSERT_EQ(events("checkpoint").size(), 1u);
  EXPECT_EQ(events("checkpoint")[0]["cause"], "SIGTERM");
}

// As the first process of a container, which no signal ends by itself.
TEST_F(Lasting, EndAtSIGTERMAsTheFirstProcess) {
  const CompiledFolder one{Layout{1, 1, 1}};
  RunningCommand container({"/usr/bin/unshare", "--pid", "--fork", "--kill-child", one / "bin/stage0", "--out",
                            one.path(), "--data", one / "text", "--threads", "1", "--steps", "1000000000", "--log-file",
                            log()});
  for (int i = 0; i < 1000 && losses().empty() && !hasEnded(container.pid()); ++i) usleep(10000);
  if (hasEnded(container.pid())) GTEST_SKIP() << container.finish().errors;
  ASSERT_EQ(container.children().size(), 1u);
  kill(container.children()[0], SIGTERM);
  EXPECT_EQ(container.finish(kSoon).status, 143);
}

// As systemd and Slurm end a job: every process of it is told, and hyc-run tells its ranks.
TEST_F(Lasting, SaveAndEndWhereAllProcessesAreAskedTo) {
  RunningCommand job(folder_.command(words("1000000000")), {{"MINIATURE_PAUSE", "300"}});
  awaitStep(2);
  const std::vector<pid_t> ranks = job.children();
  ASSERT_EQ(ranks.size(), 8u);
  kill(job.pid(), SIGTERM);
  usleep(50000);
  for (const pid_t rank : ranks) kill(rank, SIGTERM);
  const CommandResult result = job.finish();
  EXPECT_EQ(result.status, 75) << result.errors;
  ASSERT_EQ(events("checkpoint").size(), 1u) << result.errors;
  EXPECT_EQ(events("checkpoint")[0]["cause"], "SIGTERM");
}

TEST_F(Lasting, EndAtOnceAtASecondSIGTERM) {
  RunningCommand job(folder_.command(words("40")), {{"MINIATURE_FAULT", "3 4 hang"}});
  awaitStep(4);
  kill(job.pid(), SIGTERM);
  usleep(200000);
  EXPECT_FALSE(hasEnded(job.pid())) << "a rank hangs, so that there can be no checkpoint";
  kill(job.pid(), SIGTERM);
  const CommandResult result = job.finish();
  EXPECT_EQ(result.status, 143) << result.errors;
  EXPECT_LT(result.seconds, kSoon);
}

// Only SIGTERM asks for a checkpoint first.
TEST_F(Lasting, EndAtOnceAtTheSignalsOfATerminalAndLeaveNothing) {
  for (const int signal : {SIGINT, SIGHUP, SIGQUIT, SIGPIPE}) {
    fs::remove(log());
    RunningCommand job(folder_.command(words("1000000")), {{"MINIATURE_PAUSE", "5"}});
    awaitStep(3);
    const std::vector<pid_t> ranks = job.children();
    kill(job.pid(), signal);
    const CommandResult result = job.finish();
    EXPECT_EQ(result.status, 128 + signal) << result.errors;
    EXPECT_LT(result.seconds, kSoon);
    EXPECT_TRUE(events("checkpoint").empty()) << result.errors;
    for (const fs::directory_entry& entry : fs::directory_iterator(runs())) ADD_FAILURE() << entry.path();
    for (pid_t rank : ranks) EXPECT_TRUE(hasEnded(rank)) << rank;
  }
}

TEST_F(Lasting, WithoutAFolderForCheckpointsEndAndIgnoreAsBefore) {
  RunningCommand job(folder_.command({"--steps", "1000000000", "--log-file", log()}), {{"MINIATURE_PAUSE", "5"}});
  awaitStep(2);
  kill(job.pid(), SIGUSR2);
  const size_t before = losses().size();
  awaitStep(static_cast<int64_t>(before) + 20);
  kill(job.pid(), SIGTERM);
  const CommandResult result = job.finish();
  EXPECT_EQ(result.status, 143);
  EXPECT_TRUE(says(result.errors, "--checkpoint DIR")) << result.errors;
}

TEST_F(Lasting, SaveAndEndInTime) {
  const std::string expected = undisturbed("30");
  for (const bool bySlurm : {false, true}) {
    fs::remove_all(runs());
    fs::remove(log());
    Environment environment{{"MINIATURE_PAUSE", "200"}};
    if (bySlurm) environment.emplace_back("SLURM_JOB_END_TIME", std::to_string(std::time(nullptr) + 4));
    CommandResult result =
        runCommand(folder_.command(words(
                       "30", bySlurm ? std::vector<std::string>{} : std::vector<std::string>{"--time-limit", "4"})),
                   environment);
    EXPECT_EQ(result.status, 75) << result.errors;
    ASSERT_EQ(events("checkpoint").size(), 1u) << result.errors;
    EXPECT_EQ(events("checkpoint")[0]["cause"], "the time limit");
    EXPECT_LT(events("checkpoint")[0]["step"], 30) << "it is as long as all steps";
    result = runCommand(
        folder_.command({"--steps", "30", "--resume", runs(), "--save-weights", files_ / "weights.safetensors"}));
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(files_.read("weights.safetensors"), expected);
  }
  CommandResult result = runCommand(folder_.command(words("2")), {{"SLURM_JOB_END_TIME", "soon"}});
  EXPECT_EQ(result.status, 64);
  EXPECT_TRUE(says(result.errors, "SLURM_JOB_END_TIME is 'soon', expected the seconds since 1970")) << result.errors;
  EXPECT_EQ(runCommand(folder_.command({"--steps", "2"}), {{"SLURM_JOB_END_TIME", "soon"}}).status, 0);
  result = runCommand(folder_.command({"--steps", "2", "--time-limit", "5"}));
  EXPECT_EQ(result.status, 64);
  EXPECT_TRUE(says(result.errors, "--time-limit is given without a folder")) << result.errors;
}

// ------------------------------------------------------------------------------------------------------------ restarts

TEST_F(Lasting, AreStartedAgainAfterKillsAtAnyMoment) {
  const char* many = std::getenv("HYC_RESTARTS");
  const int kills = many ? std::atoi(many) : 4;
  const std::string expected = undisturbed("60");
  std::mt19937 random(11);
  RunningCommand job(
      folder_.command(words("60", {"--checkpoint-every", "3", "--keep", "2", "--max-restarts", std::to_string(kills),
                                   "--save-weights", files_ / "weights.safetensors"})),
      {{"MINIATURE_PAUSE", "20"}});
  int hits = 0;
  for (; hits < kills && !hasEnded(job.pid()); ++hits) {
    // The ranks are there, at whatever they do then.
    std::vector<pid_t> ranks;
    while (ranks.size() < 8 && !hasEnded(job.pid())) {
      usleep(2000);
      ranks = job.children();
    }
    usleep(static_cast<useconds_t>(random() % 400000));
    ranks = job.children();
    if (ranks.empty()) continue;
    const pid_t rank = ranks[random() % ranks.size()];
    kill(rank, SIGKILL);
    for (int i = 0; i < 5000 && !isGone(rank); ++i) usleep(1000);
    while (!hasEnded(job.pid()) && job.children().size() == 8 && job.children() == ranks) usleep(1000);
  }
  const CommandResult result = job.finish(120);
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(files_.read("weights.safetensors"), expected);
  const std::vector<json> restarts = events("restart");
  EXPECT_GE(restarts.size(), static_cast<size_t>(hits) / 2) << hits;
  for (const json& restart : restarts) {
    EXPECT_TRUE(says(restart["cause"], "was ended by SIGKILL")) << restart;
    EXPECT_EQ(restart["step"].get<int64_t>() % 3, 0);
    EXPECT_LT(restart["seconds"], kSoon) << restart;
  }
  ASSERT_EQ(events("report").size(), 1u);
  const json report = events("report")[0];
  EXPECT_EQ(report["restarts"], restarts.size());
  EXPECT_GT(report["useful"], 0.0);
  EXPECT_LT(report["useful"], 1.0);
  // What is in the log twice was done twice, with one result.
  std::map<int64_t, double> known;
  for (const auto& [step, loss] : losses()) EXPECT_EQ(known.try_emplace(step, loss).first->second, loss) << step;
  EXPECT_EQ(known.size(), 60u);
}

TEST_F(Lasting, AreNotStartedAgainForEver) {
  const CommandResult result = runCommand(
      folder_.command(words("40", {"--checkpoint-every", "2", "--checkpoint-mode", "sync", "--max-restarts", "2"})),
      {{"MINIATURE_FAULT", "2 5 exit"}});
  EXPECT_EQ(result.status, 3) << result.errors;
  EXPECT_TRUE(says(result.errors, "restart 2 of 2 (rank 2 ended with status 3), from '" + runs() + "/step-4'"))
      << result.errors;
  EXPECT_TRUE(says(result.errors, "not started again")) << result.errors;
  EXPECT_TRUE(says(result.output, "to 2 restarts (rank 2 ended with status 3: 2)")) << result.output;
  // The second time it got no further, and waited longer.
  ASSERT_EQ(events("restart").size(), 2u);
  EXPECT_GE(events("restart")[0]["seconds"], 0.5);
  EXPECT_GE(events("restart")[1]["seconds"], 1.0);
}

TEST_F(Lasting, AreNotStartedAgainWhereItWouldComeAgain) {
  std::string manifest = folder_.files().read("manifest.json");
  manifest.replace(manifest.find("\"base\": 0.5"), 11, "\"base\": 1e30");
  folder_.files().write("manifest.json", manifest);
  CommandResult result = runCommand(folder_.command(words("40", {"--max-restarts", "3"})));
  EXPECT_EQ(result.status, 65) << result.errors;
  EXPECT_FALSE(says(result.errors, "restart 1")) << result.errors;
  result = runCommand(folder_.command({"--max-restarts", "3"}));
  EXPECT_EQ(result.status, 64);
  EXPECT_TRUE(says(result.errors, "--max-restarts is given without a folder")) << result.errors;
}

TEST_F(Lasting, AreNotStartedAgainAfterSignals) {
  for (const int signal : {SIGINT, SIGTERM}) {
    fs::remove_all(runs());
    fs::remove(log());
    RunningCommand job(folder_.command(words("400", {"--max-restarts", "3"})), {{"MINIATURE_PAUSE", "20"}});
    awaitStep(2);
    kill(job.pid(), signal);
    const CommandResult result = job.finish();
    EXPECT_EQ(result.status, signal == SIGTERM ? 75 : 130) << result.errors;
    EXPECT_FALSE(says(result.errors, "restart 1")) << result.errors;
    fs::remove(log());
  }
}

// A checkpoint of zeros that nothing but its length tells from a whole one, before all of it is read; its file.
std::string plantLargeCheckpoint(const std::string& folder) {
  constexpr int64_t kBytes = int64_t{4} << 30;
  const std::string zeros(hycrt::kChunkBytes, '\0'), name = "part-00000-0.safetensors";
  hycrt::CheckpointManifest told;
  told.name = "miniature";
  told.mesh = "dp 1";
  told.step = 1000;
  hycrt::CheckpointFile& file = told.parts.files[name];
  file.sums.bytes = kBytes;
  file.sums.headerBytes = 8;
  file.sums.chunks.assign(kBytes / hycrt::kChunkBytes, hycrt::crc32c(0, zeros.data(), zeros.size()));
  fs::create_directories(folder);
  std::ofstream(folder + "/" + hycrt::kCheckpointManifest) << encodeCheckpointManifest(told);
  std::ofstream(folder + "/" + name).close();
  fs::resize_file(folder + "/" + name, kBytes);
  return fs::canonical(folder + "/" + name);
}

bool hasOpen(pid_t process, const std::string& file) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/" + std::to_string(process) + "/fd", ignored)) {
    if (fs::read_symlink(entry.path(), ignored) == file) return true;
  }
  return false;
}

TEST_F(Lasting, EndWhileACheckpointIsReadWhereTheyAreAskedTo) {
  for (const int signal : {SIGINT, SIGTERM}) {
    fs::remove_all(runs());
    fs::remove(log());
    RunningCommand job(folder_.command(words("400", {"--max-restarts", "3"})), {{"MINIATURE_PAUSE", "20"}});
    awaitStep(2);
    const std::string file = plantLargeCheckpoint(runs() + "/step-1000");
    kill(job.children().at(0), SIGKILL);
    for (int i = 0; i < 10000 && !hasOpen(job.pid(), file); ++i) usleep(1000);
    ASSERT_TRUE(hasOpen(job.pid(), file));
    kill(job.pid(), signal);
    const CommandResult result = job.finish();
    EXPECT_EQ(result.status, signal == SIGTERM ? 75 : 130) << result.errors;
    EXPECT_TRUE(says(result.errors, "; the ranks are not started again")) << result.errors;
    EXPECT_FALSE(says(result.errors, "restart 1")) << result.errors;
    EXPECT_FALSE(says(result.errors, "an earlier one is looked for")) << result.errors;
  }
}

// A folder may hold another training's, which restarts leave alone.
TEST_F(Lasting, GoOnFromTheirOwnCheckpointsOnly) {
  ASSERT_EQ(runCommand(folder_.command({"--steps", "20", "--no-shuffle", "--checkpoint", runs()})).status, 0);
  const std::string expected = undisturbed("8");
  const CommandResult result =
      runCommand(folder_.command(words("8", {"--checkpoint-every", "2", "--checkpoint-mode", "sync", "--max-restarts",
                                             "1", "--save-weights", files_ / "weights.safetensors"})),
                 {{"MINIATURE_FAULT", "2 5 exit"}});
  EXPECT_EQ(result.status, 3) << "the fault comes again, and again";
  EXPECT_TRUE(says(result.errors, "from '" + runs() + "/step-4'")) << result.errors;
  EXPECT_TRUE(fs::exists(runs() + "/step-20"));
}

// What a training goes on from is its own, and so is what that has been written after.
TEST_F(Lasting, TakeAnOlderCheckpointWhereTheOneTheyBeganWithIsDamaged) {
  ASSERT_EQ(runCommand(folder_.command({"--steps", "4", "--checkpoint", runs(), "--checkpoint-every", "2"})).status, 0);
  hycrt::RunOptions options;
  options.checkpoint = runs();
  options.resume = runs() + "/step-4";
  const hycrt::OwnCheckpoints own(options);
  const auto newest = [&] {
    const hycrt::Result<std::string> found = own.newest([](const std::string&) {});
    return found.ok() ? fs::path(*found).filename().string() : found.status().message();
  };
  EXPECT_EQ(newest(), "step-4");
  files_.write("runs/step-4/checkpoint.json", "{}");
  EXPECT_EQ(newest(), "step-2");
}

// --------------------------------------------------------------------------------------------------------------- sizes

// A folder as --ranks 8,4,2 leaves it.
class Sizes : public Lasting {
 protected:
  void SetUp() override {
    fs::create_directory(out());
    std::string rows;
    for (const CompiledFolder* folder : {&folder_, &four_, &two_}) {
      const std::string ranks = folder == &folder_ ? "8" : folder == &four_ ? "4" : "2";
      fs::create_directory_symlink(folder->path(), out() + "/ranks-" + ranks);
      rows += (rows.empty() ? "" : ", ") + ("{\"ranks\": " + ranks + ", \"folder\": \"ranks-" + ranks + "\"}");
    }
    files_.write("out/manifest.json", "{\"format_version\": 1, \"sizes\": [" + rows + "]}");
  }
  std::string out() const { return files_ / "out"; }
  std::vector<std::string> command(const std::vector<std::string>& more) const {
    return with({kHycRun, out(), "--data", folder_ / "text", "--seed", "3", "--threads", "1"}, more);
  }
  std::vector<std::pair<int64_t, double>> train(const std::vector<std::string>& more) {
    fs::remove(log());
    const CommandResult result = runCommand(command(with({"--log-file", log()}, more)));
    EXPECT_EQ(result.status, 0) << result.errors;
    return losses();
  }

  CompiledFolder four_{Layout{1, 2, 2}}, two_{Layout{2, 1, 1}};
};

// The same samples at every step, so that only the order of sums differs.
TEST_F(Sizes, AreTakenUpAsTheyAreThere) {
  const std::string other = files_ / "other";
  const auto expected = train({"--steps", "9", "--checkpoint", runs(), "--checkpoint-every", "3"});
  ASSERT_EQ(expected.size(), 9u);
  const auto fewer = train({"--steps", "9", "--ranks", "4", "--resume", runs() + "/step-3", "--checkpoint", other,
                            "--checkpoint-every", "3"});
  const auto again = train({"--steps", "9", "--resume", other + "/step-6"});
  ASSERT_EQ(fewer.size(), 6u);
  ASSERT_EQ(again.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(fewer[i].first, static_cast<int64_t>(i) + 4);
    EXPECT_NEAR(fewer[i].second / expected[i + 3].second, 1, 1e-5);
    EXPECT_NEAR(again[i].second / expected[i + 6].second, 1, 1e-5);
  }
}

TEST_F(Sizes, AreRanksOfOtherLaunchersToo) {
  const auto expected = train({"--steps", "5"});
  for (const int ranks : {2, 4}) {
    fs::remove(log());
    const std::string port = std::to_string(claimPort());
    std::vector<std::unique_ptr<RunningCommand>> started;
    for (int rank = 0; rank < ranks; ++rank) {
      started.push_back(std::make_unique<RunningCommand>(command({"--as-rank", "--steps", "5", "--log-file", log()}),
                                                         Environment{{"RANK", std::to_string(rank)},
                                                                     {"WORLD_SIZE", std::to_string(ranks)},
                                                                     {"LOCAL_RANK", std::to_string(rank)},
                                                                     {"MASTER_ADDR", "127.0.0.1"},
                                                                     {"MASTER_PORT", port}}));
    }
    for (const auto& rank : started) {
      const CommandResult result = rank->finish();
      EXPECT_EQ(result.status, 0) << result.errors;
    }
    ASSERT_EQ(losses().size(), 5u);
    for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(losses()[i].second / expected[i].second, 1, 1e-5);
  }
}

// What hyc-run would do for all ranks is not left out in silence by one that becomes a rank.
TEST_F(Sizes, OfALauncherTakeNothingThatIsHycRuns) {
  for (const std::string option : {"--hostfile=hosts", "--include=a", "--exclude=a", "--ssh-port=22", "--copy-out",
                                   "--copy=neighbour", "--max-restarts=3", "--ranks=2", "--replan-after=3"}) {
    const CommandResult result = runCommand(command({"--as-rank", option}));
    const std::string flag = option.substr(0, option.find('='));
    EXPECT_EQ(result.status, 64) << option << ": " << result.errors;
    EXPECT_TRUE(says(result.errors, "error: " + flag + " and --as-rank are given, and it is ")) << result.errors;
  }
}

TEST_F(Sizes, ThatAreNotThereAreRefused) {
  const auto expect = [&](const CommandResult& result, int status, const std::string& words) {
    EXPECT_EQ(result.status, status) << result.errors;
    EXPECT_TRUE(says(result.errors, words)) << result.errors;
  };
  expect(runCommand(command({"--ranks", "3"})), 64, "holds programs for 8, 4 and 2 ranks; take one of these");
  expect(runCommand(folder_.command({"--ranks", "3"})), 64, "was compiled for 8; compile with --ranks for several");
  const Environment three{{"RANK", "0"}, {"WORLD_SIZE", "3"}, {"LOCAL_RANK", "0"}};
  expect(runCommand(command({"--as-rank"}), three), 64, "the launcher has started 3 ranks, but '" + out() + "' holds");
  expect(runCommand(folder_.command({"--as-rank"}), three), 64, "was compiled for 8");
  expect(runCommand(command({"--as-rank"})), 64, "neither RANK nor WORLD_SIZE is set");
  const Environment one{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"MASTER_PORT", "20000"}};
  expect(runCommand({out() + "/ranks-2/bin/stage0", "--out", out()}, one), 64, "holds programs for 8, 4 and 2 ranks");
  files_.write("hosts", "localhost slots=1\n");
  expect(runCommand(command({"--hostfile", files_ / "hosts"})), 69, "the hosts have 1 slots, but");
  for (const auto& [text, words] : std::vector<std::pair<std::string, std::string>>{
           {"{\"format_version\": 1, \"sizes\": []}", "expected a list of sizes"},
           {"{\"format_version\": 2, \"sizes\": [1]}", "expected the keys format_version, which is 1, and sizes"},
           {"{\"format_version\": 1, \"sizes\": [8]}", "/sizes/0: expected the keys ranks and folder"},
           {"{\"format_version\": 1, \"sizes\": [{\"ranks\": -8, \"folder\": \"ranks-8\"}]}", "/sizes/0/ranks"},
           {"{\"format_version\": 1, \"sizes\": [{\"ranks\": 8, \"folder\": \"../ranks-8\"}]}", "expected ranks-8"}}) {
    files_.write("out/manifest.json", text);
    expect(runCommand(command({})), 65, words);
  }
}

// ----------------------------------------------------------------------------------------------------------- bit flips

TEST_F(Lasting, NameTheRanksWhoseStatesDiffer) {
  // Of ranks 1 and 3 one has changed: both hold the second half of a over tp, of the first stage.
  for (const char* fault : {"3 6 flip", "1 6 flip"}) {
    fs::remove_all(runs());
    CommandResult result =
        runCommand(folder_.command(words("20", {"--verify-states", "4"})), {{"MINIATURE_FAULT", fault}});
    EXPECT_EQ(result.status, 69) << result.errors;
    EXPECT_TRUE(says(result.errors,
                     "after step 8 ranks 1 (pp 0, dp 0, tp 1), 3 (pp 0, dp 1, tp 1) hold different "
                     "'first.weight' (parameter)"))
        << result.errors;
    // Before a checkpoint, too.
    result = runCommand(folder_.command(words("20", {"--verify-states", "1000", "--checkpoint-every", "7"})),
                        {{"MINIATURE_FAULT", fault}});
    EXPECT_EQ(result.status, 69) << result.errors;
    EXPECT_TRUE(says(result.errors, "after step 7 ranks 1")) << result.errors;
    EXPECT_FALSE(fs::exists(runs() + "/step-7"));
  }
  const std::string expected = undisturbed("20");
  const CommandResult result = runCommand(
      folder_.command(words("20", {"--verify-states", "1", "--save-weights", files_ / "weights.safetensors"})));
  EXPECT_EQ(result.status, 0) << result.errors;
  EXPECT_EQ(files_.read("weights.safetensors"), expected);
}

TEST(Outliers, AreThoseThatAreNotOfTheMajority) {
  const uint64_t hashes[] = {7, 7, 9, 7, 8};
  EXPECT_EQ(hycrt::outliers({0, 1, 3}, hashes), std::vector<int>{});
  EXPECT_EQ(hycrt::outliers({0, 1, 2, 3}, hashes), std::vector<int>{2});
  EXPECT_EQ(hycrt::outliers({0, 2}, hashes), (std::vector<int>{0, 2}));
  EXPECT_EQ(hycrt::outliers({0, 1, 2, 4}, hashes), (std::vector<int>{0, 1, 2, 4}));
  EXPECT_EQ(hycrt::outliers({4}, hashes), std::vector<int>{});
}

}  // namespace
