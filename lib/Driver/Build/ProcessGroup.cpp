// The leader, and children by posix_spawn.
#include "Build/ProcessGroup.h"

#include "llvm/ADT/SmallVector.h"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace llvm;
using namespace hyc;

extern char **environ;

/// Only what is allowed between fork and exec of a process that has threads.
[[noreturn]] static void lead(int parentEnd, int otherEnd) {
  setpgid(0, 0);
  close(otherEnd);
  // It is asked for nothing: Ctrl-C and the like go to whom it waits for.
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE})
    std::signal(signal, SIG_IGN);
  char byte;
  while (read(parentEnd, &byte, 1) < 0 && errno == EINTR)
    ;
  kill(0, SIGKILL);
  _exit(1);
}

ProcessGroup::ProcessGroup() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return;
  leader = fork();
  if (leader == 0)
    lead(ends[0], ends[1]);
  close(ends[0]);
  if (leader < 0) {
    close(ends[1]);
    return;
  }
  setpgid(leader, leader); // whichever of the two is first
  pipeEnd = ends[1];
}

ProcessGroup::~ProcessGroup() {
  if (leader < 0)
    return;
  close(pipeEnd);
  while (waitpid(leader, nullptr, 0) < 0 && errno == EINTR)
    ;
}

Expected<pid_t> ProcessGroup::start(ArrayRef<std::string> command, const std::string &logPath) const {
  SmallVector<char *> arguments;
  for (const std::string &word : command)
    arguments.push_back(const_cast<char *>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, logPath.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  if (leader > 0) {
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, leader);
  }
  pid_t pid = -1;
  int error = posix_spawn(&pid, arguments.front(), &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error)
    return errorCodeToError(std::error_code(error, std::generic_category()));
  return pid;
}
