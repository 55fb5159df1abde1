// BackgroundJob: one thing at a time that a thread of its own does, while the owner goes on and asks now and then
// whether it is over.
//
// Threading: all members but `givesUp` belong to the owner's thread. What the work touches is the work's until isOver()
// has been seen to be true, or wait() has returned.
#ifndef HYCRT_SRC_BASE_BACKGROUND_JOB_H_
#define HYCRT_SRC_BASE_BACKGROUND_JOB_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "hycrt/status.h"

namespace hycrt {

class BackgroundJob {
 public:
  BackgroundJob() = default;
  BackgroundJob(const BackgroundJob&) = delete;
  BackgroundJob& operator=(const BackgroundJob&) = delete;
  // Asks the work to give up, and waits for it.
  ~BackgroundJob();

  // None may be under way. An error: there is no thread, and the work was not begun.
  Status start(const std::string& purpose, std::function<Status()> work);
  // The same on the calling thread.
  void runNow(const std::function<Status()>& work);

  bool isOver() const { return isOver_; }
  void wait();
  // What the work returned, and when (monotonicNs); of one that is over.
  const Status& status() const { return status_; }
  int64_t endNs() const { return endNs_; }

  // What the work may look at.
  const std::atomic<bool>& givesUp() const { return givesUp_; }

 private:
  void run(const std::function<Status()>& work);

  std::thread thread_;
  std::atomic<bool> isOver_{true}, givesUp_{false};
  Status status_;
  int64_t endNs_ = 0;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_BASE_BACKGROUND_JOB_H_
