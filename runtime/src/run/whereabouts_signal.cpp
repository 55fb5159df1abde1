// Waiting for the signal.
#include "run/whereabouts_signal.h"

#include <csignal>
#include <utility>

#include "base/limits.h"
#include "base/whereabouts.h"

namespace hycrt {

WhereaboutsSignal::WhereaboutsSignal(std::function<void(const std::string&)> tell) : tell_(std::move(tell)) {
  sigset_t asked;
  sigemptyset(&asked);
  sigaddset(&asked, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &asked, nullptr);
  std::signal(SIGUSR1, SIG_DFL);  // hyc-run has it ignored so far
  (void)startThread("what answers SIGUSR1", [this] { run(); }, &thread_);
}

WhereaboutsSignal::~WhereaboutsSignal() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  pthread_kill(thread_.native_handle(), SIGUSR1);
  thread_.join();
}

void WhereaboutsSignal::run() {
  sigset_t all, asked;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  sigemptyset(&asked);
  sigaddset(&asked, SIGUSR1);
  for (int signal = 0; sigwait(&asked, &signal) == 0 && !stopping_.load();) tell_(Whereabouts::ofProcess().ask());
}

}  // namespace hycrt
