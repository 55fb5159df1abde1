// The thread of a job, and how it is waited for.
#include "base/background_job.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/threads.h"

namespace hycrt {

BackgroundJob::~BackgroundJob() {
  givesUp_ = true;
  wait();
}

Status BackgroundJob::start(const std::string& purpose, std::function<Status()> work) {
  wait();
  isOver_ = false;
  Status started = startThread(
      purpose,
      [this, work = std::move(work)] {
        leaveThreadPlan();
        run(work);
      },
      &thread_);
  if (!started.ok()) isOver_ = true;
  return started;
}

void BackgroundJob::runNow(const std::function<Status()>& work) {
  wait();
  run(work);
}

void BackgroundJob::run(const std::function<Status()>& work) {
  status_ = work();
  endNs_ = monotonicNs();
  isOver_ = true;
}

void BackgroundJob::wait() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace hycrt
