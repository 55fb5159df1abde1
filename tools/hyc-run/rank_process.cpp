// Forking one rank into a group of its own and reading its output by lines.
#include "rank_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "hycrt/limits.h"
#include "hycrt/run.h"

namespace hycrun {
namespace {

using hycrt::Result;
using hycrt::Status;

constexpr size_t kMaxLineBytes = 1 << 16;  // longer lines are passed on in pieces
constexpr int kCannotExecute = 69;
constexpr int kEndMs = 5000;  // from SIGKILL to an end
constexpr int kEndPollMs = 2;

std::vector<char*> pointersTo(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

struct Pipe {
  int read = -1;
  int write = -1;
};

Result<Pipe> makePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return hycrt::errnoError("cannot make a pipe", errno);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return Pipe{ends[0], ends[1]};
}

// What happens in the child. Only calls that are allowed between fork and exec of a threaded process.
struct Child {
  char* const* arguments;
  char* const* environment;
  const char* complaint;  // printed where the program cannot be executed
  int input, output, errors, records;
  pid_t parent;
  const sigset_t* signals;
  int niceness;
  bool ignoresEnd;

  [[noreturn]] void run() const {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kCannotExecute);  // the parent died before the line above
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(input >= 0 ? input : nothing, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    if (records >= 0) fcntl(records, F_SETFD, 0);
    for (int signal : {SIGUSR1, SIGUSR2}) std::signal(signal, SIG_IGN);  // until the rank takes them
    std::signal(hycrt::relayoutSignal(), SIG_IGN);
    std::signal(SIGINT, SIG_DFL);  // by which it is ended, even where hyc-run is to outlive a Ctrl-C
    if (ignoresEnd) std::signal(SIGTERM, SIG_IGN);
    if (niceness != 0) setpriority(PRIO_PROCESS, 0, niceness);
    sigprocmask(SIG_SETMASK, signals, nullptr);
    execve(arguments[0], arguments, environment);
    const ssize_t written = write(STDERR_FILENO, complaint, strlen(complaint));
    (void)written;
    _exit(kCannotExecute);
  }
};

}  // namespace

sigset_t currentSignals() {
  sigset_t signals;
  sigprocmask(SIG_SETMASK, nullptr, &signals);
  return signals;
}

void closeAndForget(int* fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

bool LineReader::read(int fd, std::vector<std::string>* lines) {
  bool ended = false;
  for (;;) {
    char chunk[4096];
    const ssize_t count = ::read(fd, chunk, sizeof chunk);
    if (count < 0 && errno == EINTR) continue;
    ended = count == 0 || (count < 0 && errno != EAGAIN);
    if (count <= 0) break;
    pending_.append(chunk, static_cast<size_t>(count));
  }
  size_t begin = 0;
  for (size_t end; (end = pending_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const bool isOfTerminal = end > begin && pending_[end - 1] == '\r';  // as ssh ends its own
    lines->push_back(pending_.substr(begin, end - begin - isOfTerminal));
  }
  pending_.erase(0, begin);
  if (!pending_.empty() && (ended || pending_.size() > kMaxLineBytes)) {
    lines->push_back(pending_);
    pending_.clear();
  }
  return !ended;
}

RankProcess::RankProcess(RankProcess&& other) noexcept
    : inputFd(std::exchange(other.inputFd, -1)),
      outputFd(std::exchange(other.outputFd, -1)),
      errorFd(std::exchange(other.errorFd, -1)),
      output(std::move(other.output)),
      errors(std::move(other.errors)),
      pid_(std::exchange(other.pid_, -1)) {}

RankProcess::~RankProcess() {
  sendKill();
  waitForEnds(kEndMs, [this] { return reap(); });
  closeAndForget(&inputFd);
  closeAndForget(&outputFd);
  closeAndForget(&errorFd);
}

Result<RankProcess> RankProcess::start(const RankCommand& command) {
  Result<Pipe> output = makePipe();
  if (!output.ok()) return output.status();
  Result<Pipe> errors = makePipe();
  if (!errors.ok()) {
    close(output->read);
    close(output->write);
    return errors.status();
  }
  Pipe input;
  if (!command.input.empty()) {
    Result<Pipe> made = makePipe();
    if (!made.ok()) {
      for (int fd : {output->read, output->write, errors->read, errors->write}) close(fd);
      return made.status();
    }
    input = *made;
    fcntl(input.read, F_SETFL, 0);
    // A pipe takes that much at once.
    if (write(input.write, command.input.data(), command.input.size()) < 0) closeAndForget(&input.write);
  }
  const std::vector<char*> arguments = pointersTo(command.arguments);
  const std::vector<char*> environment = pointersTo(command.environment);
  const std::string complaint = "error: cannot execute '" + command.arguments[0] + "'; compile the model again\n";
  const Child child{arguments.data(), environment.data(), complaint.c_str(), input.read,
                    output->write,    errors->write,      command.recordFd,  getpid(),
                    &command.signals, command.niceness,   command.ignoresEnd};
  RankProcess process;
  process.inputFd = input.write;
  process.outputFd = output->read;
  process.errorFd = errors->read;
  process.pid_ = fork();
  if (process.pid_ == 0) child.run();
  const int error = errno;
  close(output->write);
  close(errors->write);
  closeAndForget(&input.read);
  if (process.pid_ < 0) return hycrt::startError("cannot start a rank", error);
  setpgid(process.pid_, process.pid_);  // whichever of the two is first; the other fails harmlessly
  return process;
}

bool RankProcess::pollEnd(RankEnd* end) {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return false;
  if (info.si_code == CLD_EXITED) {
    end->exitStatus = info.si_status;
  } else {
    end->signal = info.si_status;
  }
  sendKill();  // what it started
  reap();
  return true;
}

void RankProcess::send(int signal) const {
  if (pid_ > 0) ::kill(-pid_, signal);
}

void RankProcess::sendKill() const {
  if (pid_ <= 0) return;
  // Before it is reaped the number cannot belong to anyone else.
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);  // in the instant before it has a group of its own
}

bool RankProcess::reap() {
  if (pid_ <= 0) return true;
  const pid_t reaped = waitpid(pid_, nullptr, WNOHANG);
  if (reaped == 0 || (reaped < 0 && errno == EINTR)) return false;
  pid_ = -1;
  return true;
}

std::string RankProcess::abandon() {
  const std::string process = std::to_string(std::exchange(pid_, -1));
  std::ifstream stat("/proc/" + process + "/stat");
  std::string line;
  std::getline(stat, line);
  const size_t name = line.rfind(") ");  // which may hold anything
  return "process " + process + (name == std::string::npos ? "" : ", state " + line.substr(name + 2, 1));
}

void waitForEnds(int milliseconds, const std::function<bool()>& areOver) {
  for (int waited = 0; !areOver() && waited < milliseconds; waited += kEndPollMs) poll(nullptr, 0, kEndPollMs);
}

std::vector<size_t> endAll(std::vector<RankProcess>& ranks) {
  for (const RankProcess& rank : ranks) rank.sendKill();
  std::vector<size_t> left;
  waitForEnds(kEndMs, [&] {
    left.clear();
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (!ranks[i].reap()) left.push_back(i);
    }
    return left.empty();
  });
  return left;
}

}  // namespace hycrun
