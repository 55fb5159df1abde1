// Commands as a user would start them: with arguments and environment, output and status taken down.
#ifndef HYC_TEST_RUNTIME_RUN_COMMAND_H_
#define HYC_TEST_RUNTIME_RUN_COMMAND_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

using Environment = std::vector<std::pair<std::string, std::string>>;

struct CommandResult {
  int status = -1;  // exit status, or 128 + signal, or -1: it had to be killed
  std::string output;
  std::string errors;
  double seconds = 0;
};

// What takes a fraction of a second where nobody else works may take as long on a machine that is busy. Beyond it lies
// only what waits for a time-out of a minute, or for ever. In seconds.
constexpr double kSoon = 30;

// A command that has been started. Killed on destruction.
class RunningCommand {
 public:
  RunningCommand(const std::vector<std::string>& arguments, const Environment& environment = {});
  ~RunningCommand();
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;

  pid_t pid() const { return pid_; }
  std::vector<pid_t> children() const;

  // Waits for the end; seconds counts from this call.
  CommandResult finish(double patienceSeconds = 180);

 private:
  pid_t pid_ = -1;
  std::string folder_;
};

CommandResult runCommand(const std::vector<std::string>& arguments, const Environment& environment = {});

// Neither running nor a zombie.
bool isGone(pid_t pid);

// Gone, or a zombie that nobody has waited for yet.
bool hasEnded(pid_t pid);

#endif  // HYC_TEST_RUNTIME_RUN_COMMAND_H_
