// The task as lines of text.
#include "agent.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>

extern char** environ;

namespace hycrun {
namespace {

constexpr char kGreeting[] = "hyc-run agent 1";
constexpr size_t kMostBytes = 60000;  // of what a pipe takes at once

// What their names begin with.
constexpr const char* kPassed[] = {"NCCL_", "UCX_", "OMP_", "GOMP_", "KMP_", "HYC_LOG=", "SLURM_JOB_END_TIME="};

bool isPassed(const std::string& assignment) {
  return std::any_of(std::begin(kPassed), std::end(kPassed),
                     [&](const std::string& begin) { return assignment.compare(0, begin.size(), begin) == 0; });
}

}  // namespace

std::vector<std::string> passedVariables() {
  std::vector<std::string> passed;
  for (char** variable = environ; *variable; ++variable) {
    if (isPassed(*variable)) passed.emplace_back(*variable);
  }
  return passed;
}

hycrt::Result<std::string> encodeTask(const AgentTask& task) {
  std::string text = std::string(kGreeting) + "\n";
  hycrt::Status status;
  const auto add = [&](const char* name, const std::string& value) {
    if (value.find_first_of(std::string("\n\0", 2)) != std::string::npos) {
      status = hycrt::usageError("'" + value + "' has a line's end in it, and cannot be told to other hosts");
    }
    text += std::string(name) + " " + value + "\n";
  };
  add("folder", task.folder);
  add("directory", task.directory);
  add("token", task.token);
  add("run", task.runName);
  add("master", task.masterAddress);
  add("port", std::to_string(task.masterPort));
  add("first", std::to_string(task.first));
  add("count", std::to_string(task.count));
  add("copies", task.copies.socket);
  add("resume", task.copies.resume);
  add("start", std::to_string(task.copies.start));
  for (const std::string& argument : task.arguments) add("argument", argument);
  for (const std::string& variable : task.variables) add("variable", variable);
  text += "go\n";
  if (!status.ok()) return status;
  if (text.size() > kMostBytes) return hycrt::usageError("the command line is too long to be told to other hosts");
  return text;
}

hycrt::Result<AgentTask> receiveTask(int input) {
  AgentTask task;
  std::string line;
  bool greeted = false;
  size_t total = 0;
  for (char byte; ++total <= kMostBytes;) {
    const ssize_t count = read(input, &byte, 1);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    if (byte != '\n') {
      line.push_back(byte);
      continue;
    }
    if (!greeted && line != kGreeting) break;
    if (line == "go") return task;
    const size_t space = line.find(' ');
    const std::string name = line.substr(0, space), value = space == std::string::npos ? "" : line.substr(space + 1);
    if (name == "folder") task.folder = value;
    if (name == "directory") task.directory = value;
    if (name == "token") task.token = value;
    if (name == "run") task.runName = value;
    if (name == "master") task.masterAddress = value;
    if (name == "port") task.masterPort = std::atoi(value.c_str());
    if (name == "first") task.first = std::atoi(value.c_str());
    if (name == "count") task.count = std::atoi(value.c_str());
    if (name == "copies") task.copies.socket = value;
    if (name == "resume") task.copies.resume = value;
    if (name == "start") task.copies.start = std::atoll(value.c_str());
    if (name == "argument") task.arguments.push_back(value);
    if (name == "variable" && isPassed(value)) task.variables.push_back(value);
    greeted = true;
    line.clear();
  }
  return hycrt::usageError("--agent is for hyc-run itself, which starts it on other hosts; this is none of its tasks");
}

}  // namespace hycrun
