// The child. It may call only what is allowed between fork and exec of a process that has threads, so rm does the work.
#include "Folder/Caretaker.h"

#include "llvm/ADT/SmallVector.h"

#include <cerrno>
#include <csignal>
#include <ctime>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace llvm;
using namespace hyc;

static constexpr int kAttempts = 20;          // files of compilers that are about to end may still appear
static constexpr long kNapNs = 100 * 1000000; // before each of them

/// Holds nothing of the parent's open: its readers see the end of its output, and its locks go.
static void leaveParent(int pipeEnd) {
  setpgid(0, 0);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE})
    std::signal(signal, SIG_IGN);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    dup2(nothing, standard);
  dup2(pipeEnd, STDERR_FILENO + 1);
  close_range(STDERR_FILENO + 2, ~0U, 0);
}

static void removeOnce(char *const *command) {
  const pid_t remover = fork();
  if (remover == 0) {
    execv(command[0], command);
    _exit(127);
  }
  while (remover > 0 && waitpid(remover, nullptr, 0) < 0 && errno == EINTR)
    ;
}

[[noreturn]] static void takeCare(int pipeEnd, char *const *command, const char *staging,
                                  ArrayRef<const char *> folders) {
  leaveParent(pipeEnd);
  char byte;
  ssize_t count;
  while ((count = read(STDERR_FILENO + 1, &byte, 1)) < 0 && errno == EINTR)
    ;
  if (count != 0)
    _exit(0);
  struct stat info;
  for (int attempt = 0; attempt < kAttempts && lstat(staging, &info) == 0; ++attempt) {
    const timespec nap{0, kNapNs};
    nanosleep(&nap, nullptr);
    removeOnce(command);
  }
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder)
    rmdir(*folder);
  _exit(0);
}

Caretaker::Caretaker(const std::string &staging, ArrayRef<std::string> created) {
  // Made before the fork, since nothing can be made after it.
  std::string words[] = {"/bin/rm", "-rf", "--", staging};
  SmallVector<char *> command;
  for (std::string &word : words)
    command.push_back(word.data());
  command.push_back(nullptr);
  SmallVector<const char *> folders;
  for (const std::string &folder : created)
    folders.push_back(folder.c_str());
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return;
  child = fork();
  if (child == 0)
    takeCare(ends[0], command.data(), staging.c_str(), folders);
  close(ends[0]);
  if (child < 0)
    close(ends[1]);
  else
    pipeEnd = ends[1];
}

Caretaker::~Caretaker() {
  if (child < 0)
    return;
  const char done = 0;
  [[maybe_unused]] const ssize_t written = write(pipeEnd, &done, 1);
  close(pipeEnd);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR)
    ;
}
