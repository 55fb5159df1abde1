// hyc-run --profile: what ranks of the miniature model measure of their statements, what becomes of that in the file,
// on the terminal and in the page, and descriptions of statements (ops.json) that are not those of the programs.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "compiled_folder.h"
#include "run_command.h"

namespace {

using nlohmann::json;

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// Two statements that end with one mark are told apart by their time at the roof.
constexpr char kOps[] = R"({"format_version": 1, "plan_hash": "0000000000001234", "machine": "here", "stages": [
  {"stage": 0, "calls": [
    {"kind": "kernel", "what": "scale", "op": "layers.0.first", "layer": "layers.0", "operations": 32, "bytes": 256,
     "roof_seconds": 1e-6, "bound": "memory"},
    {"kind": "kernel", "what": "product", "op": "layers.0.first.grad", "layer": "layers.0", "operations": 64, "bytes": 512,
     "roof_seconds": 2e-6, "bound": "products"}],
   "functions": {"forward": [0], "backward": [1], "reduce": [], "apply": []}},
  {"stage": 1, "calls": [
    {"kind": "kernel", "what": "product", "op": "layers.1.second", "layer": "layers.1", "operations": 64, "bytes": 512,
     "roof_seconds": 2e-6, "bound": "products"},
    {"kind": "exchange", "what": "all_reduce", "op": "layers.1.second", "layer": "layers.1", "operations": 0, "bytes": 64,
     "roof_seconds": 5e-6, "bound": "latency", "cause": "layers.1.second", "because": "partial {tp}", "axes": ["tp"],
     "stages": [], "members": 2, "message_bytes": 64},
    {"kind": "kernel", "what": "error", "op": "loss", "layer": "loss", "operations": 16, "bytes": 128,
     "roof_seconds": 3e-6, "bound": "memory"},
    {"kind": "kernel", "what": "count", "op": "loss", "layer": "loss", "operations": 1, "bytes": 8, "roof_seconds": 1e-6,
     "bound": "memory"},
    {"kind": "kernel", "what": "product", "op": "layers.1.second.grad", "layer": "layers.1", "operations": 128,
     "bytes": 512, "roof_seconds": 2e-6, "bound": "products"}],
   "functions": {"forward": [0, 1, -2, 2, 3], "backward": [4], "reduce": [], "apply": []}}]})";

class Profiled : public testing::Test {
 protected:
  void writeOps(const std::string& text) { folder_.files().write("ops.json", text); }
  CommandResult run(std::vector<std::string> more, const std::string& slow = "0 0") {
    std::vector<std::string> words{"/usr/bin/env", "MINIATURE_SLOW=" + slow};
    more.insert(more.begin(), {"--profile", folder_ / "profile.json"});
    for (const std::string& word : folder_.command(more)) words.push_back(word);
    return runCommand(words);
  }
  json profile() const { return json::parse(folder_.files().read("profile.json")); }

  CompiledFolder folder_{Layout{2, 2, 2}};
};

double sumOfParts(const json& step) {
  double sum = 0;
  for (const char* part : {"compute", "update", "exchange", "late", "disk", "data", "other"})
    sum += step[part].get<double>();
  return sum;
}

TEST_F(Profiled, HasEveryMomentOfAStepOnce) {
  writeOps(kOps);
  const CommandResult result = run({"--steps", "6", "--log-file", folder_ / "log.jsonl"});
  ASSERT_EQ(result.status, 0) << result.errors;
  const json told = profile();
  EXPECT_EQ(told["steps"], 5);
  EXPECT_EQ(told["machine"], "here");
  EXPECT_EQ(told["mesh"], json::parse(R"({"tp": 2, "dp": 2, "pp": 2})"));
  ASSERT_EQ(told["ranks"].size(), 8u);
  for (const json& rank : told["ranks"]) {
    EXPECT_NEAR(rank["step"]["total"], sumOfParts(rank["step"]), 1e-12);
    EXPECT_EQ(rank["stage"], rank["rank"].get<int>() / 4);
  }
  // A step as rank 0 tells of it is longer by what stands around the schedule.
  std::istringstream log(folder_.files().read("log.jsonl"));
  double milliseconds = 0;
  for (std::string line; std::getline(log, line);) {
    const json record = json::parse(line);
    if (record["step"] > 1) milliseconds += record["ms"].get<double>() / 5;
  }
  EXPECT_LE(told["step_seconds"].get<double>() * 1e3, milliseconds);
  EXPECT_EQ(told["step_seconds"], told["ranks"][0]["step"]["total"]);
  for (const json& stage : told["stages"]) {
    double mean = 0;
    for (const json& rank : told["ranks"]) {
      if (rank["stage"] == stage["stage"]) mean += rank["step"]["total"].get<double>() / 4;
    }
    EXPECT_NEAR(stage["step"]["total"], mean, 1e-12);
  }
}

// Two micro-batches a step.
TEST_F(Profiled, CountsCallsOperationsAndBytesOfAStep) {
  writeOps(kOps);
  ASSERT_EQ(run({"--steps", "4"}).status, 0);
  const json told = profile();
  const json& first = told["stages"][0];
  ASSERT_EQ(first["ops"].size(), 2u);
  const json& forward = first["ops"][0];
  EXPECT_EQ(forward["op"], "layers.0.first");
  EXPECT_EQ(forward["function"], "forward");
  EXPECT_EQ(forward["times"], 2);
  EXPECT_EQ(forward["operations"], 64);
  EXPECT_EQ(forward["bytes"], 512);
  EXPECT_GE(forward["slowest_seconds"], forward["seconds"]);
  EXPECT_EQ(first["layers"].size(), 1u);
  EXPECT_EQ(first["layers"][0]["backward"], first["ops"][1]["seconds"]);
  const json& second = told["stages"][1];
  ASSERT_EQ(second["exchanges"].size(), 1u);
  const json& exchange = second["exchanges"][0];
  EXPECT_EQ(exchange["cause"], "layers.1.second");
  EXPECT_EQ(exchange["axes"], json::parse(R"(["tp"])"));
  EXPECT_EQ(exchange["times"], 2);
  EXPECT_EQ(exchange["sent_bytes"], 128);
  EXPECT_GE(exchange["seconds"], exchange["late_seconds"]);
  double error = 0, count = 0;
  for (const json& op : second["ops"]) {
    if (op["kernel"] == "error") error = op["seconds"];
    if (op["kernel"] == "count") count = op["seconds"];
  }
  EXPECT_NEAR(error, 3 * count, 1e-9 + error * 1e-3);
  // What stages pass to one another.
  const json sent =
      json::parse(R"({"direction": "send", "backward": false, "peer_stage": 1, "times": 2, "bytes": 256})");
  EXPECT_EQ(first["transfers"].size(), 2u);
  EXPECT_TRUE(first["transfers"][0] == sent || first["transfers"][1] == sent) << first["transfers"];
}

TEST_F(Profiled, NamesTheRankThatOthersWaitFor) {
  writeOps(kOps);
  const CommandResult result = run({"--steps", "4", "--log-file", folder_ / "log.jsonl"}, "5 30");
  ASSERT_EQ(result.status, 0) << result.errors;
  const json told = profile();
  for (int rank : {4, 7}) {  // 4 shares a tensor with it, 7 its gradients
    const json& late = told["ranks"][static_cast<size_t>(rank)]["late_for"];
    ASSERT_FALSE(late.empty()) << rank;
    EXPECT_EQ(late[0]["rank"], 5) << rank;
  }
  // Twice in a step.
  EXPECT_GT(told["ranks"][4]["late_for"][0]["seconds"], 0.05);
  EXPECT_CONTAINS(result.errors, "waited for: rank 5");
  std::istringstream log(folder_.files().read("log.jsonl"));
  for (std::string line; std::getline(log, line);) {
    const json record = json::parse(line);
    EXPECT_GE(record["exchange_ms"], record["late_ms"]);
    EXPECT_GT(record["late_ms"], 25);  // rank 0 waits for the next stage, which waits for it
  }
}

TEST_F(Profiled, IsShownOnTheTerminalAndAsAPage) {
  writeOps(kOps);
  const CommandResult result = run({"--steps", "4"});
  ASSERT_EQ(result.status, 0) << result.errors;
  for (const char* part :
       {"profile of 3 steps", "stage 0", "stage 1", "product", "layers.*", "all_reduce {tp} layers.*.second"}) {
    EXPECT_CONTAINS(result.errors, part);
  }
  const std::string page = folder_.files().read("profile.html");
  EXPECT_CONTAINS(page, "<title>profile</title>");
  EXPECT_CONTAINS(page, "\"layers.1.second.grad\"");
  EXPECT_EQ(page.find("http"), page.find("http-equiv")) << "asks for something";
}

TEST_F(Profiled, WantsTheDescriptionOfItsPrograms) {
  const CommandResult missing = run({"--steps", "4"});
  EXPECT_EQ(missing.status, 65);
  EXPECT_CONTAINS(missing.errors, "ops.json', which tells what is measured");
  std::string text = kOps;
  writeOps(text.replace(text.find("1234"), 4, "1235"));
  const CommandResult other = run({"--steps", "4"});
  EXPECT_EQ(other.status, 65);
  EXPECT_CONTAINS(other.errors,
                  "/plan_hash is '0000000000001235', that of the programs 0000000000001234; compile again");
  for (const char* damage :
       {"{", "[]", R"({"plan_hash": "0000000000001234", "stages": [1]})",
        R"({"plan_hash": "0000000000001234", "stages": []})",
        R"({"plan_hash": "0000000000001234", "stages": [{"calls": [], "functions": {"forward": [0]}}]})",
        R"({"plan_hash": "0000000000001234", "stages": [{"calls": [3], "functions": {}}]})"}) {
    writeOps(damage);
    const CommandResult damaged = run({"--steps", "4"});
    EXPECT_EQ(damaged.status, 65) << damage;
    EXPECT_CONTAINS(damaged.errors, "ops.json");
    EXPECT_EQ(std::ifstream(folder_ / "profile.json").good(), false) << damage;
  }
}

TEST_F(Profiled, HasAStepToMeasure) {
  writeOps(kOps);
  const CommandResult one = run({"--steps", "1"});
  EXPECT_EQ(one.status, 64);
  EXPECT_CONTAINS(one.errors, "--profile measures the steps after the first");
  const CommandResult evaluates = run({"--evaluate"});
  EXPECT_EQ(evaluates.status, 64);
  EXPECT_CONTAINS(evaluates.errors, "--profile");
}

}  // namespace
