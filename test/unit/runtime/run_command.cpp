// Starting a command, feeding its pipes, and ending it with its group.
#include "run_command.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::string contentOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

// Output goes to files, so that a test never has to drain pipes.
RunningCommand::RunningCommand(const std::vector<std::string>& arguments, const Environment& environment) {
  std::string pattern = (std::filesystem::temp_directory_path() / "hyc-command-XXXXXX").string();
  folder_ = mkdtemp(pattern.data());
  std::vector<char*> words;
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  const std::string output = folder_ + "/output", errors = folder_ + "/errors";
  pid_ = fork();
  if (pid_ != 0) return;
  dup2(open(output.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
  dup2(open(errors.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
  // Tests may run in the background of a script, which ignores what a command is to be ended by.
  for (int signal : {SIGINT, SIGHUP, SIGQUIT, SIGPIPE}) std::signal(signal, SIG_DFL);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  execv(words[0], words.data());
  _exit(127);
}

RunningCommand::~RunningCommand() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::vector<pid_t> RunningCommand::children() const {
  const std::string process = std::to_string(pid_);
  std::istringstream text(contentOf("/proc/" + process + "/task/" + process + "/children"));
  std::vector<pid_t> pids;
  for (pid_t child; text >> child;) pids.push_back(child);
  return pids;
}

CommandResult RunningCommand::finish(double patienceSeconds) {
  CommandResult result;
  const double begin = now();
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) == 0 && now() - begin < patienceSeconds) usleep(2000);
  result.seconds = now() - begin;
  if (result.seconds < patienceSeconds) {
    pid_ = -1;
    result.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  result.output = contentOf(folder_ + "/output");
  result.errors = contentOf(folder_ + "/errors");
  return result;
}

CommandResult runCommand(const std::vector<std::string>& arguments, const Environment& environment) {
  return RunningCommand(arguments, environment).finish();
}

bool isGone(pid_t pid) { return kill(pid, 0) != 0; }

bool hasEnded(pid_t pid) {
  std::istringstream stat(contentOf("/proc/" + std::to_string(pid) + "/stat"));
  std::string number, name, state;
  stat >> number >> name >> state;
  return state.empty() || state == "Z";
}
