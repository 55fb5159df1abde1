// RankProcess: one rank as its launcher sees it: a child in a process group of its own, whose output comes line by
// line.
#ifndef HYC_RUN_RANK_PROCESS_H_
#define HYC_RUN_RANK_PROCESS_H_

#include <sys/types.h>

#include <csignal>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hycrt/status.h"

namespace hycrun {

// The exit status of a process that has only lost another one, and how long the other's own end is waited for, which
// says more.
inline constexpr int kPeerLost = static_cast<int>(hycrt::StatusCode::kPeerLost);
inline constexpr int64_t kOtherCauseMs = 1000;

// The signals that are blocked here.
sigset_t currentSignals();

// A descriptor that is closed once, by whoever is done with it.
void closeAndForget(int* fd);

// Cuts what comes out of a pipe into lines.
class LineReader {
 public:
  // Reads what is there; whole lines go to `lines`, an unfinished one too where the pipe has ended. False: it ended.
  bool read(int fd, std::vector<std::string>* lines);

 private:
  std::string pending_;
};

struct RankCommand {
  std::vector<std::string> arguments;    // [0] is the executable's path
  std::vector<std::string> environment;  // NAME=value
  int recordFd = -1;                     // stays open in the child; -1: none
  sigset_t signals;                      // the mask that the child gets back
  int niceness = 0;                      // beside this process's
  bool ignoresEnd = false;               // SIGTERM, of one that ends with its input
  std::string input = {};  // what it reads first; its input stays open until inputFd is closed; empty: none
};

// How a rank ended: an exit status, or the signal that ended it.
struct RankEnd {
  int exitStatus = 0;
  int signal = 0;

  bool failed() const { return exitStatus != 0 || signal != 0; }
  int asExitStatus() const { return signal != 0 ? 128 + signal : exitStatus; }
};

class RankProcess {
 public:
  RankProcess() = default;
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;
  RankProcess(RankProcess&& other) noexcept;
  ~RankProcess();

  // Neither shell nor search path are involved. The child dies with this process.
  static hycrt::Result<RankProcess> start(const RankCommand& command);

  bool isRunning() const { return pid_ > 0; }

  // Whether it has ended; reaps it then, together with whatever is left of its process group.
  bool pollEnd(RankEnd* end);

  // To its whole process group, if it runs.
  void send(int signal) const;

  // SIGKILL to its whole process group. Does not wait: a process that the kernel holds may not end for hours.
  void sendKill() const;
  // Whether it is over; reaps it then.
  bool reap();
  // Leaves it to whoever inherits it, and says which it was: "process 4711, state D".
  std::string abandon();

  int inputFd = -1;  // of one that was given an input
  int outputFd = -1;
  int errorFd = -1;
  LineReader output;
  LineReader errors;

 private:
  pid_t pid_ = -1;
};

// Until areOver() is true, and for so many milliseconds at most.
void waitForEnds(int milliseconds, const std::function<bool()>& areOver);

// SIGKILL to all of them, and their ends, as far as they come within a few seconds; the indices of the others.
std::vector<size_t> endAll(std::vector<RankProcess>& ranks);

}  // namespace hycrun

#endif  // HYC_RUN_RANK_PROCESS_H_
