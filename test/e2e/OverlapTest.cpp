// Exchanges that progress while ranks compute: a trace in which both happen at once, and not a bit changed.
#include "CompiledRun.h"

#include "gtest/gtest.h"
#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

using namespace hyc_e2e;

namespace {

constexpr int kSteps = 6;

struct Interval {
  double begin, end;
};

/// By category ("computation", "wait", "communication"), of one rank.
std::map<std::string, std::vector<Interval>> readTrace(const std::string &path, int rank) {
  std::ifstream file(path);
  std::map<std::string, std::vector<Interval>> intervals;
  for (const auto &event : nlohmann::json::parse(file))
    if (event["ph"] == "X" && event["pid"] == rank)
      intervals[event["cat"]].push_back({event["ts"], event["ts"].get<double>() + event["dur"].get<double>()});
  return intervals;
}

/// Time that lies both in one of `a` and in one of `b`; neither overlaps itself.
double intersection(const std::vector<Interval> &a, const std::vector<Interval> &b) {
  double time = 0;
  for (const Interval &x : a)
    for (const Interval &y : b)
      time += std::max(0.0, std::min(x.end, y.end) - std::max(x.begin, y.begin));
  return time;
}

/// ZeRO 3 with parameters asked for two uses ahead, so that there is something to hide, and something to hide it
/// behind.
const std::string &compiledZero3() {
  static const std::string folder = [] {
    std::string path = scratch("overlap");
    std::vector<std::string> arguments = compileArguments({1, 1, 2, "1f1b", "adamw"}, path);
    arguments.insert(arguments.end(),
                     {"--zero", "3", "--stage3-param-persistence-threshold", "0", "--stage3-prefetch", "2"});
    Outcome outcome = execute(arguments);
    if (outcome.status != 0)
      throw std::runtime_error(outcome.output);
    return path;
  }();
  return folder;
}

TEST(Overlap, ExchangesProgressWhileRanksCompute) {
  const std::string &folder = compiledZero3(), trace = folder + "/trace.json";
  Log plain = train(folder, kSteps, {"--communication-thread", "off"});
  Log threaded = train(folder, kSteps, {"--communication-thread", "on", "--trace", trace});
  EXPECT_EQ(threaded.losses, plain.losses);
  EXPECT_EQ(threaded.norms, plain.norms);

  double hidden = 0;
  for (int rank : {0, 1}) {
    auto intervals = readTrace(trace, rank);
    EXPECT_EQ(intervals["computation"].size(), (kSteps - 1) * 10u)
        << "4 micro-batches forward and backward, reduce, apply";
    EXPECT_GT(intervals["communication"].size(), (kSteps - 1) * 100u);
    // Waits lie inside computation, and hide nothing.
    hidden += intersection(intervals["computation"], intervals["communication"]) -
              intersection(intervals["wait"], intervals["communication"]);
  }
  EXPECT_GT(hidden, 0);
}

/// Without the thread, ranks work on exchanges while they wait for them and at no other time.
TEST(Overlap, WithoutAThreadWaitsHoldAllCommunication) {
  const std::string &folder = compiledZero3(), trace = folder + "/plain-trace.json";
  train(folder, kSteps, {"--communication-thread", "off", "--trace", trace});
  auto intervals = readTrace(trace, 0);
  double whole = 0;
  for (const Interval &one : intervals["communication"])
    whole += one.end - one.begin;
  EXPECT_NEAR(intersection(intervals["wait"], intervals["communication"]), whole, 1e-6 * whole);
}

} // namespace
