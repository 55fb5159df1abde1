// The handler only writes the signal's number into a pipe; a thread that reads it may do what a handler may not.
#include "hyc/Driver/Interruption.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace hyc;

namespace {
constexpr std::array<int, 5> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};

struct Registry {
  std::mutex mutex;
  std::set<std::string> paths;
  std::vector<std::string> folders;
  std::set<pid_t> children;
  std::array<struct sigaction, kSignals.size()> previous;
};
} // namespace

static int wakeUp[2] = {-1, -1};

static Registry &registry() {
  static Registry instance;
  return instance;
}

extern "C" void hycOnSignal(int signal) {
  auto number = static_cast<unsigned char>(signal);
  // Nothing can be done where the pipe does not take one byte.
  [[maybe_unused]] ssize_t written = write(wakeUp[1], &number, 1);
}

/// Ends the children and returns when they are gone (each is waited for by the thread that started it): until then they
/// could write into what is about to be removed.
static void endChildren(const std::set<pid_t> &children) {
  constexpr std::chrono::milliseconds kPatience(2000), kNap(5);
  for (int signal : {SIGTERM, SIGKILL}) {
    for (pid_t child : children)
      kill(child, signal);
    auto isGone = [](pid_t child) { return kill(child, 0) != 0 && errno == ESRCH; };
    for (std::chrono::milliseconds waited = kNap; waited < kPatience; waited += kNap) {
      if (std::all_of(children.begin(), children.end(), isGone))
        return;
      std::this_thread::sleep_for(kNap);
    }
  }
}

/// A compiler's own child may outlive it for a moment, and finish its file.
static void removeForGood(const std::string &path) {
  std::error_code ignored;
  for (int attempt = 0; attempt < 40; ++attempt) {
    std::filesystem::remove_all(path, ignored);
    if (!std::filesystem::exists(path, ignored))
      return;
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
}

static void watch() {
  unsigned char signal = 0;
  while (read(wakeUp[0], &signal, 1) < 0 && errno == EINTR)
    ;
  if (signal == 0)
    return;
  // The lock is never given back: no other thread may start or create anything from here on.
  registry().mutex.lock();
  endChildren(registry().children);
  std::error_code ignored;
  for (const std::string &path : registry().paths)
    removeForGood(path);
  for (auto folder = registry().folders.rbegin(); folder != registry().folders.rend(); ++folder)
    std::filesystem::remove(*folder, ignored);
  _exit(128 + signal);
}

IgnoredSignals::IgnoredSignals() {
  for (int signal : kSignals) {
    struct sigaction action = {};
    if (signal != SIGTERM && sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
      signals.push_back(signal);
  }
}

void IgnoredSignals::restore() const {
  for (int signal : signals)
    std::signal(signal, SIG_IGN);
}

Interruption::Interruption() {
  if (pipe2(wakeUp, O_CLOEXEC) != 0)
    return;
  watcher = std::thread(watch);
  struct sigaction action = {};
  action.sa_handler = hycOnSignal;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction &previous = registry().previous[i];
    sigaction(kSignals[i], &action, &previous);
    if (previous.sa_handler == SIG_IGN && kSignals[i] != SIGTERM)
      sigaction(kSignals[i], &previous, nullptr);
  }
}

Interruption::~Interruption() {
  if (!watcher.joinable())
    return;
  for (size_t i = 0; i < kSignals.size(); ++i)
    sigaction(kSignals[i], &registry().previous[i], nullptr);
  const unsigned char done = 0;
  [[maybe_unused]] ssize_t written = write(wakeUp[1], &done, 1);
  watcher.join();
  close(wakeUp[0]);
  close(wakeUp[1]);
}

void Interruption::addPath(const std::string &path) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  registry().paths.insert(path);
}

void Interruption::forgetPath(const std::string &path) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  registry().paths.erase(path);
}

void Interruption::addFolder(const std::string &path) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  registry().folders.push_back(path);
}

void Interruption::forgetFolder(const std::string &path) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  auto &folders = registry().folders;
  folders.erase(std::remove(folders.begin(), folders.end(), path), folders.end());
}

void Interruption::addChild(pid_t child) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  registry().children.insert(child);
}

void Interruption::forgetChild(pid_t child) {
  std::lock_guard<std::mutex> lock(registry().mutex);
  registry().children.erase(child);
}
