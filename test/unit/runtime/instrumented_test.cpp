// Runs that are told of by CSV and TensorBoard: whole runs of the miniature model, that are resumed, started again, and
// started by other launchers; and outputs that are refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "claimed_port.h"
#include "compiled_folder.h"
#include "own_launch.h"
#include "run_command.h"
#include "temporary_folder.h"
#include "test/Places.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

constexpr Layout kOne{1, 1, 1}, kFour{1, 2, 2};

// By step and column; of evaluations the step has an "e".
using Table = std::map<std::string, std::map<std::string, std::string>>;
// By tag: step and value.
using Series = std::map<std::string, std::vector<std::pair<int64_t, double>>>;

std::vector<std::string> cellsOf(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char byte : line) {
    if (byte == ',') {
      cells.emplace_back();
    } else {
      cells.back().push_back(byte);
    }
  }
  return cells;
}

class Instrumented : public testing::Test {
 protected:
  std::vector<std::string> told(const std::string& steps, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all{"--steps", steps, "--log-file", log(), "--csv", csv(), "--tensorboard", events()};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  std::string log() const { return files_ / "log.jsonl"; }
  std::string csv() const { return files_ / "log.csv"; }
  std::string events() const { return files_ / "runs/a/events"; }

  // The log's records, the last of each step.
  std::map<int64_t, json> records() const {
    std::map<int64_t, json> found;
    std::ifstream file(log());
    for (std::string line; std::getline(file, line);) {
      const json record = json::parse(line);
      if (record.contains("loss")) found[record["step"]] = record;
    }
    return found;
  }

  Table table() const {
    Table found;
    std::ifstream file(csv());
    std::string line;
    std::getline(file, line);
    const std::vector<std::string> names = cellsOf(line);
    while (std::getline(file, line)) {
      const std::vector<std::string> cells = cellsOf(line);
      EXPECT_EQ(cells.size(), names.size()) << line;
      EXPECT_EQ(found.count(cells[0]), 0u) << "twice: " << line;
      for (size_t i = 0; i < std::min(names.size(), cells.size()); ++i) found[cells[0]][names[i]] = cells[i];
    }
    return found;
  }

  // CSV has the numbers of the log, in its spelling of doubles; each step once.
  void expectTableOfLog(int64_t steps) const {
    const std::map<int64_t, json> logged = records();
    const Table rows = table();
    ASSERT_EQ(rows.size(), static_cast<size_t>(steps));
    ASSERT_EQ(logged.size(), static_cast<size_t>(steps));
    for (const auto& [step, record] : logged) {
      const auto& row = rows.at(std::to_string(step));
      for (const auto& [key, value] : record.items()) {
        EXPECT_EQ(std::stod(row.at(key)), value.get<double>()) << key << " of step " << step;
      }
    }
  }

  // Empty, with a note, where no TensorBoard is there.
  Series series() const {
    const CommandResult result = runCommand(
        {"/usr/bin/env", hyc::places::python(), hyc::places::inTree("test/unit/runtime/read_events.py"), events()});
    if (result.status == 77 || result.status == 127) return {};
    EXPECT_EQ(result.status, 0) << result.errors;
    Series found;
    std::istringstream text(result.output);
    std::string tag, value;
    for (int64_t step = 0; text >> tag >> step >> value;)
      found[tag].emplace_back(step, std::strtod(value.c_str(), nullptr));
    return found;
  }

  void expectSeriesOfLog(const Series& found, int64_t steps) const {
    const std::map<int64_t, json> logged = records();
    const std::map<std::string, std::pair<std::string, double>> tags{
        {"loss_metrics/global_avg_loss", {"loss", 1}},
        {"memory/resident(bytes)", {"resident_bytes", 1}},
        {"time_metrics/exchange(s)", {"exchange_ms", 1e-3}},
        {"time_metrics/late(s)", {"late_ms", 1e-3}},
        {"grad_norm", {"grad_norm", 1}},
        {"lr", {"lr", 1}},
        {"time_metrics/end_to_end(s)", {"ms", 1e-3}},
        {"throughput(tps)", {"tokens_per_s", 1}}};
    EXPECT_EQ(found.size(), tags.size());
    for (const auto& [tag, metric] : tags) {
      ASSERT_EQ(found.count(tag), 1u) << tag;
      const auto& values = found.at(tag);
      ASSERT_EQ(values.size(), static_cast<size_t>(steps)) << tag;
      for (int64_t i = 0; i < steps; ++i) {
        EXPECT_EQ(values[static_cast<size_t>(i)].first, i + 1) << tag;
        const double expected = logged.at(i + 1)[metric.first].get<double>() * metric.second;
        EXPECT_EQ(values[static_cast<size_t>(i)].second, static_cast<double>(static_cast<float>(expected))) << tag;
      }
    }
  }

  CompiledFolder folder_{kFour};
  TemporaryFolder files_;
};

#define SKIP_WITHOUT_TENSORBOARD(found) \
  if ((found).empty()) GTEST_SKIP() << "this Python has no tensorboard: " << hyc::places::python()

TEST_F(Instrumented, ARunIsWhatItsLogSays) {
  const CommandResult result = runCommand(folder_.command(told("20")));
  ASSERT_EQ(result.status, 0) << result.errors;
  expectTableOfLog(20);
  const Series found = series();
  SKIP_WITHOUT_TENSORBOARD(found);
  expectSeriesOfLog(found, 20);
}

// Steps behind the checkpoint were told before, and are told again.
TEST_F(Instrumented, ARunThatIsResumedGoesOn) {
  const std::string runs = files_ / "runs";
  ASSERT_EQ(runCommand(folder_.command(told("12", {"--checkpoint", runs, "--checkpoint-every", "8"}))).status, 0);
  fs::remove_all(runs + "/step-12");
  const CommandResult result = runCommand(folder_.command(told("20", {"--resume", runs})));
  ASSERT_EQ(result.status, 0) << result.errors;
  expectTableOfLog(20);
  const Series found = series();
  SKIP_WITHOUT_TENSORBOARD(found);
  expectSeriesOfLog(found, 20);
}

// A folder may hold the events of a run before: what is seen are the new one's. CSV begins anew.
TEST_F(Instrumented, ARunReplacesTheOneBefore) {
  ASSERT_EQ(runCommand(folder_.command(told("9"))).status, 0);
  ASSERT_EQ(runCommand(folder_.command(told("6", {"--no-shuffle"}))).status, 0);
  expectTableOfLog(6);
  const Series found = series();
  SKIP_WITHOUT_TENSORBOARD(found);
  expectSeriesOfLog(found, 6);
}

TEST_F(Instrumented, ARestartTellsEachStepOnce) {
  RunningCommand job(
      folder_.command(told("40", {"--checkpoint", files_ / "runs", "--checkpoint-every", "10", "--max-restarts", "1"})),
      {{"MINIATURE_PAUSE", "20"}});
  for (int i = 0; i < 3000 && !fs::exists(files_ / "runs/step-10"); ++i) usleep(5000);
  usleep(100000);  // some steps further
  kill(job.children().at(2), SIGKILL);
  const CommandResult result = job.finish();
  ASSERT_EQ(result.status, 0) << result.errors;
  EXPECT_CONTAINS(result.errors, "restart 1 of 1");
  expectTableOfLog(40);
  const Series found = series();
  SKIP_WITHOUT_TENSORBOARD(found);
  expectSeriesOfLog(found, 40);
}

TEST_F(Instrumented, OtherLaunchersHaveRank0Tell) {
  OwnLaunch launch(folder_, kFour, claimPort(), {}, told("8"));
  for (const auto& rank : launch.ranks) {
    const CommandResult result = rank->finish();
    EXPECT_EQ(result.status, 0) << result.errors;
  }
  expectTableOfLog(8);
  EXPECT_EQ(std::distance(fs::directory_iterator(events()), fs::directory_iterator()), 1);
  const Series found = series();
  SKIP_WITHOUT_TENSORBOARD(found);
  expectSeriesOfLog(found, 8);
}

TEST_F(Instrumented, OutputsThatCannotBeMadeAreRefusedBeforeTraining) {
  const std::string foreign = files_.write("mine.csv", "my,own\ntable,1\n");
  const std::string foreignText = files_.write("mine.prom", "node_time_seconds 1\n");
  struct {
    std::vector<std::string> options;
    int status;
    std::string words;
  } const refused[] = {
      {{"--csv", foreign}, 65, "is there and is not the CSV file of a run: it begins with 'my,own'"},
      {{"--log-file", foreign},
       65,
       "is there and is not the log of a run: it begins with 'my,own', expected '{\"step\":…'"},
      {{"--log-file", files_ / "new.jsonl", "--csv", foreign}, 65, "is there and is not the CSV file of a run"},
      {{"--csv", files_ / "no/where.csv"}, 74, "cannot write the CSV file"},
      {{"--csv", files_.path()}, 74, "cannot write the CSV file"},
      {{"--csv", folder_ / "text"}, 64, "would overwrite"},
      {{"--csv", folder_ / "manifest.json"}, 64, "would overwrite"},
      {{"--csv", folder_ / "bin/stage0"}, 64, "would overwrite"},
      {{"--csv", files_ / "x", "--log-file", files_ / "x"}, 64, "would overwrite"},
      {{"--csv", files_ / "x", "--tensorboard", files_ / "x"}, 64, "would overwrite"},
      {{"--csv", "/dev/full"}, 74, "No space left on device"},
      {{"--tensorboard", foreign}, 74, "which is no folder"},
      {{"--tensorboard", foreign + "/events"}, 74, "Not a directory"},
      {{"--tensorboard", "/proc/no/where"}, 74, "cannot create the folder '/proc/no'"},
      {{"--tensorboard", "/proc/1"}, 74, "'/proc/1'"},
      {{"--prometheus", "80000"}, 64, "expected a port from 0 to 65535"},
      {{"--prometheus", "no such host:9400"}, 69, "(--prometheus)"},
      {{"--prometheus", "192.0.2.1:9400"}, 69, "Cannot assign requested address"},
      {{"--prometheus-textfile", foreign}, 64, "ends in .prom"},
      {{"--prometheus-textfile", foreignText}, 65, "does not hold the metrics of a run"},
      {{"--prometheus-textfile", files_ / "no/where.prom"}, 74, "cannot write into"},
  };
  for (const auto& row : refused) {
    const CommandResult result = runCommand(folder_.command([&] {
      std::vector<std::string> words{"--steps", "2"};
      words.insert(words.end(), row.options.begin(), row.options.end());
      return words;
    }()));
    EXPECT_EQ(result.status, row.status) << row.options[1] << ": " << result.errors;
    EXPECT_CONTAINS(result.errors, row.words);
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
  }
  EXPECT_EQ(files_.read("mine.csv"), "my,own\ntable,1\n");
  EXPECT_EQ(files_.read("mine.prom"), "node_time_seconds 1\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(files_.path()), fs::directory_iterator()), 2);
}

// What fails before its first step leaves what a run before has told.
TEST_F(Instrumented, ARunThatDoesNotBeginTakesNothingAway) {
  ASSERT_EQ(runCommand(folder_.command(told("3"))).status, 0);
  const std::string before = files_.read("log.csv");
  EXPECT_NE(runCommand(folder_.command({"--csv", csv(), "--tensorboard", events(), "--tf32"})).status, 0);
  EXPECT_EQ(files_.read("log.csv"), before);
  EXPECT_EQ(std::distance(fs::directory_iterator(events()), fs::directory_iterator()), 1);
}

}  // namespace
