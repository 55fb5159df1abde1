// ssh's command line.
#include "ssh.h"

#include <climits>
#include <cstdlib>

extern char** environ;

namespace hycrun {
namespace {

constexpr char kSsh[] = "/usr/bin/ssh";
constexpr int kLowPort = 10000, kPorts = 20000;

// For the shell of a user on another host.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

}  // namespace

RankCommand commandOn(const std::string& host, int port, const char* flag, const std::string& input,
                      const sigset_t& signals) {
  RankCommand command;
  command.arguments = {kSsh, "-T",
                       "-o", "BatchMode=yes",
                       "-o", "ConnectTimeout=20",
                       "-o", "ServerAliveInterval=5",
                       "-o", "ServerAliveCountMax=3"};
  if (port != 0) command.arguments.insert(command.arguments.end(), {"-p", std::to_string(port)});
  command.arguments.insert(command.arguments.end(), {"--", host, quoted(absolutePath("/proc/self/exe")) + " " + flag});
  for (char** variable = environ; *variable; ++variable) command.environment.push_back(*variable);
  command.signals = signals;
  command.input = input;
  command.ignoresEnd = true;  // who ends all processes of a job would cut off the ranks that are to save
  return command;
}

std::string absolutePath(const std::string& path) {
  char text[PATH_MAX];
  return realpath(path.c_str(), text) ? text : path;
}

int portFor(const std::string& runName) {
  unsigned sum = 0;
  for (unsigned char c : runName) sum = sum * 31 + c;
  return kLowPort + static_cast<int>(sum % kPorts);
}

}  // namespace hycrun
