// Runs that look for another layout by what they have measured (hyc-run --replan-after): losses are those of one rank
// before and after it.
#include "CompiledRun.h"

#include "gtest/gtest.h"
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

using namespace hyc_e2e;

namespace {

constexpr double kTolerance = 1e-4; // of sums in another order, over hundreds of steps
constexpr double kMostSeconds = 240;

std::string compiledFor(const std::string &name, const std::vector<std::string> &layout,
                        const std::string &input = model("gpt2-tiny.onnx")) {
  std::string folder = scratch("replan-" + name);
  std::vector<std::string> arguments = {tool("hyc-compile"), input,    "--loss", "cross_entropy", "--logits", "logits",
                                        "--labels",          "labels", "--lr",   "1e-4",          "-o",       folder,
                                        "--optimizer",       "sgd"};
  arguments.insert(arguments.end(), layout.begin(), layout.end());
  Outcome outcome = execute(trainingOnly(arguments));
  EXPECT_EQ(outcome.status, 0) << outcome.output;
  return folder;
}

/// Two stages and one micro-batch: one of the ranks waits at any time.
std::string badLayout(const std::string &name) { return compiledFor(name, {"--pp", "2", "--micro-batch", "4"}); }
std::string goodLayout(const std::string &name) { return compiledFor(name, {"--dp", "2", "--micro-batch", "2"}); }

std::vector<std::string> runArguments(const std::string &folder, const std::vector<std::string> &further) {
  std::vector<std::string> arguments = {
      tool("hyc-run"), folder, "--data",     model("text.bin"),    "--no-shuffle", "--seed", "1",
      "--threads",     "1",    "--log-file", folder + "/log.jsonl"};
  arguments.insert(arguments.end(), further.begin(), further.end());
  return arguments;
}

struct Moved {
  int64_t at = -1, last = 0; ///< steps
  std::string folder;
};

/// What a log tells so far.
Moved readMoves(const std::string &log) {
  Moved moved;
  std::ifstream file(log);
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (record.is_discarded())
      break;
    if (record.value("event", "") == "relayout")
      moved.at = record["step"], moved.folder = record["path"];
    if (!record.contains("event"))
      moved.last = record["step"];
  }
  return moved;
}

std::string textOf(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Whether all micro-batches of a step are one, and it passes through stages.
bool isBad(const std::string &folder) {
  const nlohmann::json manifest = nlohmann::json::parse(textOf(folder + "/manifest.json"));
  return manifest["mesh"]["pp"] == 2 && manifest["batch"]["grad_accum"] == 1;
}

/// Trains until the layout has changed and some steps more, then ends the run with a checkpoint.
Moved trainUntilMoved(const std::string &folder, const std::vector<std::string> &further) {
  std::vector<std::string> arguments = {"--steps",         "1000000", "--replan-after", "5",
                                        "--replan",        "auto",    "--checkpoint",   folder + "/checkpoints",
                                        "--replan-margin", "3"};
  arguments.insert(arguments.end(), further.begin(), further.end());
  const pid_t run = start(runArguments(folder, arguments), folder + "/output.txt");
  Moved moved;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(kMostSeconds);
  while (std::chrono::steady_clock::now() < end && (moved.at < 0 || moved.last < moved.at + 5)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    moved = readMoves(folder + "/log.jsonl");
  }
  kill(run, SIGTERM);
  EXPECT_EQ(waitFor(run, 60), 75) << textOf(folder + "/output.txt");
  EXPECT_GE(moved.at, 5) << textOf(folder + "/output.txt");
  return moved;
}

void expectLossesOfOneRank(const std::string &name, const std::string &folder) {
  const Log log = readLog(folder + "/log.jsonl");
  const std::string one = compiledFor(name + "-one", {"--micro-batch", "4"});
  Outcome run = execute(runArguments(one, {"--steps", std::to_string(log.losses.size())}));
  ASSERT_EQ(run.status, 0) << run.output;
  const Log expected = readLog(one + "/log.jsonl");
  ASSERT_EQ(log.losses.size(), expected.losses.size());
  for (size_t step = 0; step < expected.losses.size(); ++step)
    ASSERT_NEAR(log.losses[step] / expected.losses[step], 1.0, kTolerance) << "step " << step + 1;
}

TEST(Replan, ABadLayoutIsLeftForOneThatIsCompiledMeanwhile) {
  const std::string folder = badLayout("compiled");
  const Moved moved = trainUntilMoved(folder, {});
  EXPECT_EQ(moved.folder, folder + ".replan");
  EXPECT_FALSE(isBad(moved.folder));
  expectLossesOfOneRank("compiled", folder);
}

TEST(Replan, ABadLayoutIsLeftForTheBestOfThoseCompiledBefore) {
  const std::string folder = badLayout("before"),
                    good = compiledFor("before-good", {"--pp", "2", "--micro-batch", "1", "--grad-accum", "4"}),
                    other = compiledFor("before-other", {"--pp", "2", "--micro-batch", "4", "--recompute", "layer"});
  const Moved moved = trainUntilMoved(folder, {"--replan-with", other + "," + good});
  EXPECT_EQ(moved.folder, good);
  expectLossesOfOneRank("before", folder);
  // Gone on from in the layout that it was left in.
  Outcome rest = execute(runArguments(good, {"--steps", std::to_string(moved.last + 1000), "--time-limit", "4",
                                             "--checkpoint", folder + "/checkpoints", "--resume", "auto"}));
  EXPECT_EQ(rest.status, 75) << rest.output;
}

/// Ranks that share cores with others wait long for exchanges, so that a pipeline may look much better: the margin is
/// wide.
TEST(Replan, WhatIsNoBetterByTheMarginStays) {
  const std::string folder = goodLayout("stays");
  Outcome run = execute(runArguments(folder, {"--steps", "6", "--replan-after", "3", "--replan-margin", "99",
                                              "--replan", "auto", "--checkpoint", folder + "/checkpoints"}));
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_NE(run.output.find("nothing is better by 99 %"), std::string::npos) << run.output;
  EXPECT_EQ(readMoves(folder + "/log.jsonl").at, -1);
  EXPECT_FALSE(std::filesystem::exists(folder + ".replan"));
}

/// The command of a proposal, as it is printed.
std::string commandIn(const std::string &output) {
  const size_t at = output.find("hyc-compile ", output.find("compile it with:"));
  return at == std::string::npos ? "" : output.substr(at, output.find('\n', at) - at);
}

TEST(Replan, AProposalIsACommandThatCompiles) {
  const std::string folder = badLayout("proposed");
  Outcome run = execute(runArguments(folder, {"--steps", "8", "--replan-after", "4", "--replan-margin", "3"}));
  ASSERT_EQ(run.status, 0) << run.output;
  EXPECT_EQ(readLog(folder + "/log.jsonl").losses.size(), 8u);
  const std::string command = commandIn(run.output);
  ASSERT_FALSE(command.empty()) << run.output;
  Outcome compiled =
      execute({"/bin/sh", "-c", tool("hyc-compile").substr(0, tool("hyc-compile").rfind('/') + 1) + command});
  EXPECT_EQ(compiled.status, 0) << compiled.output;
  EXPECT_FALSE(isBad(folder + ".replan"));
  // By hand the same.
  Outcome asked = execute(
      {tool("hyc-compile"), "--replan", folder, "--measured", folder + ".profile.json", "--replan-margin", "3"});
  EXPECT_EQ(asked.status, 0) << asked.output;
  EXPECT_EQ(commandIn(asked.output), command) << asked.output;
}

TEST(Replan, ASearchThatFailsLeavesTheRunAsItIs) {
  const std::string place = scratch("replan-model"), copied = place + "/gpt2-tiny.onnx";
  std::filesystem::create_directories(place);
  std::filesystem::copy_file(model("gpt2-tiny.onnx"), copied);
  const std::string folder =
      compiledFor("fails", {"--dp", "2", "--micro-batch", "2", "--weights", "initialise"}, copied);
  std::filesystem::remove(copied);
  Outcome run = execute(runArguments(folder, {"--steps", "6", "--replan-after", "3"}));
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_NE(run.output.find("the layout stays what it is: "), std::string::npos) << run.output;
  EXPECT_NE(run.output.find(copied), std::string::npos) << run.output;
  EXPECT_EQ(readLog(folder + "/log.jsonl").losses.size(), 6u);
}

TEST(Replan, WhatCannotBeIsRefused) {
  const std::string folder = goodLayout("refused"), hosts = folder + "/hosts";
  std::ofstream(hosts) << "127.0.0.1 slots=2\n";
  const auto expectRefusal = [&](std::vector<std::string> further, const std::string &message) {
    further.insert(further.end(), {"--steps", "6"});
    Outcome run = execute(runArguments(folder, further));
    EXPECT_EQ(run.status, 64) << run.output;
    EXPECT_NE(run.output.find(message), std::string::npos) << run.output;
  };
  expectRefusal({"--replan", "auto"}, "--replan auto is given, but no steps to measure; give --replan-after N");
  expectRefusal({"--replan-margin", "20"}, "--replan-margin is given, but no steps to measure");
  expectRefusal({"--replan-with", "x"}, "--replan-with is given, but no steps to measure");
  expectRefusal({"--replan-after", "1"}, "--replan-after is 1, and the first step is not measured; give 2 or more");
  expectRefusal({"--replan-after", "6"}, "--replan-after is 6, but the run ends after 6 steps (--steps); give less");
  expectRefusal({"--replan-after", "3", "--replan", "auto"}, "name a folder for it with --checkpoint DIR");
  expectRefusal({"--replan-after", "3", "--batch-shares", "1,1"}, "--replan-after and --batch-shares are given");
  expectRefusal({"--replan-after", "3", "--as-rank"}, "--replan-after and --as-rank are given");
  expectRefusal({"--replan-after", "3", "--hostfile", hosts}, "name one that all of them see with --profile FILE");
  expectRefusal({"--replan-after", "3", "--hostfile", hosts, "--profile", folder + "/p.json", "--replan", "auto",
                 "--checkpoint", folder + "/c"},
                "--replan auto changes the layout of ranks on one host");
  expectRefusal({"--replan-after", "3", "--evaluate"}, "--evaluate");
}

} // namespace
