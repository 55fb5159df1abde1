// Child processes without a shell, and the files that they leave.
#include "CompiledRun.h"

#include "test/Places.h"

#include "nlohmann/json.hpp"
#include <algorithm>
#include <cctype>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace hyc_e2e;

static const std::string kScratch = hyc::places::inBuild("test/e2e/out");

static std::vector<char *> asArgv(const std::vector<std::string> &arguments) {
  std::vector<char *> argv;
  for (const std::string &argument : arguments)
    argv.push_back(const_cast<char *>(argument.c_str()));
  argv.push_back(nullptr);
  return argv;
}

static int statusOf(int raw) { return WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw); }

pid_t hyc_e2e::start(const std::vector<std::string> &arguments, const std::string &outputFile) {
  std::vector<char *> argv = asArgv(arguments);
  pid_t pid = fork();
  if (pid != 0)
    return pid;
  setsid();
  // Tests may run in the background of a script, which ignores what a run is to be ended by.
  for (int signal : {SIGINT, SIGHUP, SIGQUIT, SIGPIPE})
    std::signal(signal, SIG_DFL);
  int file = open(outputFile.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  dup2(file, STDOUT_FILENO);
  dup2(file, STDERR_FILENO);
  execv(argv[0], argv.data());
  _exit(127);
}

int hyc_e2e::waitFor(pid_t pid, double seconds) {
  auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int raw = 0;
  while (waitpid(pid, &raw, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end)
      return -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return statusOf(raw);
}

Outcome hyc_e2e::execute(const std::vector<std::string> &arguments) {
  std::string file = kScratch + "/output." + std::to_string(getpid());
  std::filesystem::create_directories(kScratch);
  pid_t pid = start(arguments, file);
  int raw = 0;
  waitpid(pid, &raw, 0);
  std::ifstream stream(file);
  std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  std::filesystem::remove(file);
  return {statusOf(raw), text};
}

Outcome hyc_e2e::executePython(const std::string &program, const std::vector<std::string> &arguments) {
  const char *chosen = std::getenv("HYC_TEST_PYTHON");
  std::vector<std::string> command = {"/usr/bin/env", chosen ? chosen : "python3", "-c", program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return execute(command);
}

std::string hyc_e2e::tool(const std::string &name) { return hyc::places::program(name); }
std::string hyc_e2e::model(const std::string &name) { return hyc::places::model(name); }

std::string hyc_e2e::scratch(const std::string &name) {
  std::string folder = kScratch + "/" + name + "." + std::to_string(getpid());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(std::filesystem::path(folder).parent_path());
  return folder;
}

std::string Layout::name() const {
  std::string name = "tp" + std::to_string(tp) + "pp" + std::to_string(pp) + "dp" + std::to_string(dp) + "_" +
                     schedule + "_" + optimizer;
  if (precision != "f32")
    name += "_" + precision;
  for (const std::string &argument : further)
    for (char c : argument)
      if (std::isalnum(static_cast<unsigned char>(c)))
        name += c;
  return name;
}

std::vector<std::string> hyc_e2e::trainingOnly(std::vector<std::string> arguments) {
  if (std::find(arguments.begin(), arguments.end(), "--entry") == arguments.end())
    arguments.insert(arguments.end(), {"--entry", "train"});
  return arguments;
}

std::vector<std::string> hyc_e2e::compileArguments(const Layout &layout, const std::string &folder) {
  // 16 = micro-batch × grad-accum × dp, with at least two micro-batches for the pipeline to have something to do.
  int accumulation = layout.dp == 8 ? 2 : 4, microBatch = 16 / (accumulation * layout.dp);
  std::vector<std::string> arguments = {tool("hyc-compile"),
                                        model("gpt2-tiny.onnx"),
                                        "--loss",
                                        "cross_entropy",
                                        "--logits",
                                        "logits",
                                        "--labels",
                                        "labels",
                                        "--tp",
                                        std::to_string(layout.tp),
                                        "--pp",
                                        std::to_string(layout.pp),
                                        "--dp",
                                        std::to_string(layout.dp),
                                        "--micro-batch",
                                        std::to_string(microBatch),
                                        "--grad-accum",
                                        std::to_string(accumulation),
                                        "--optimizer",
                                        layout.optimizer,
                                        "--schedule",
                                        layout.schedule,
                                        "-o",
                                        folder};
  // As in test/models/export_gpt2.py.
  static const std::map<std::string, std::vector<std::string>> kHyperparameters = {
      {"sgd", {"--lr", "0.1", "--weight-decay", "0"}},
      {"adamw", {"--lr", "1e-3", "--weight-decay", "0.01"}},
      {"adam", {"--lr", "1e-3", "--weight-decay", "0.01"}},
      {"lamb", {"--lr", "0.02", "--weight-decay", "0.01"}},
      {"lion", {"--lr", "2e-4", "--weight-decay", "0.1"}}};
  const std::vector<std::string> &chosen = kHyperparameters.at(layout.optimizer);
  arguments.insert(arguments.end(), chosen.begin(), chosen.end());
  if (layout.precision != "f32")
    arguments.insert(arguments.end(), {"--precision", layout.precision});
  arguments.insert(arguments.end(), layout.further.begin(), layout.further.end());
  return trainingOnly(std::move(arguments));
}

std::string hyc_e2e::compiledTinyGpt2(const std::string &name, const std::vector<std::string> &further) {
  std::string folder = scratch(name);
  std::vector<std::string> arguments = {tool("hyc-compile"), model("gpt2-tiny.onnx")};
  for (const char *argument :
       {"--loss", "cross_entropy", "--logits", "logits", "--labels", "labels", "--optimizer", "adamw", "--lr", "1e-3"})
    arguments.push_back(argument);
  arguments.insert(arguments.end(), {"-o", folder});
  arguments.insert(arguments.end(), further.begin(), further.end());
  Outcome outcome = execute(trainingOnly(arguments));
  if (outcome.status != 0)
    throw std::runtime_error("hyc-compile ended with " + std::to_string(outcome.status) + ":\n" + outcome.output);
  return folder;
}

std::string hyc_e2e::compiled(const Layout &layout) {
  static std::map<std::string, std::string> folders;
  auto [entry, inserted] = folders.try_emplace(layout.name());
  if (!inserted)
    return entry->second;
  std::string folder = scratch(layout.name());
  Outcome outcome = execute(compileArguments(layout, folder));
  if (outcome.status != 0)
    throw std::runtime_error("hyc-compile ended with " + std::to_string(outcome.status) + ":\n" + outcome.output);
  return entry->second = folder;
}

Log hyc_e2e::readLog(const std::string &path) {
  std::ifstream file(path);
  Log log;
  for (std::string line; std::getline(file, line);) {
    auto step = nlohmann::json::parse(line);
    if (step.contains("event"))
      continue;
    if (step.contains("evaluate_loss")) {
      log.evaluations.push_back({step["step"], step["evaluate_loss"], step.value("evaluate_accuracy", -1.0)});
      continue;
    }
    log.losses.push_back(step["loss"]);
    log.norms.push_back(step["grad_norm"].is_null() ? std::nan("") : step["grad_norm"].get<double>());
    log.rates.push_back(step["lr"]);
    if (!step.contains("loss_scale"))
      continue;
    log.scales.push_back(step["loss_scale"]);
    log.skipped.push_back(step["skipped"]);
  }
  return log;
}

std::string hyc_e2e::lastLine(const std::string &path) {
  std::ifstream file(path);
  std::string last;
  for (std::string line; std::getline(file, line);)
    last = line;
  return last;
}

Log hyc_e2e::train(const std::string &folder, int steps, const std::vector<std::string> &extra) {
  std::string logFile = folder + "/log.jsonl";
  std::filesystem::remove(logFile);
  std::vector<std::string> arguments = {tool("hyc-run"),       folder,         "--data",
                                        model("text.bin"),     "--no-shuffle", "--steps",
                                        std::to_string(steps), "--log-file",   logFile};
  arguments.insert(arguments.end(), extra.begin(), extra.end());
  Outcome outcome = execute(arguments);
  if (outcome.status != 0)
    throw std::runtime_error("hyc-run ended with " + std::to_string(outcome.status) + ":\n" + outcome.output);
  return readLog(logFile);
}
