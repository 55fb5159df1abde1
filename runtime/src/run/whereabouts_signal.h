// SIGUSR1: a rank says where it is, and goes on. A thread of its own waits for the signal, so that nothing is
// interrupted.
#ifndef HYCRT_SRC_RUN_WHEREABOUTS_SIGNAL_H_
#define HYCRT_SRC_RUN_WHEREABOUTS_SIGNAL_H_

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace hycrt {

class WhereaboutsSignal {
 public:
  // Before any other thread is started, which then leave the signal to this one. `tell` is called on its thread. Where
  // there can be no thread the signal is ignored.
  explicit WhereaboutsSignal(std::function<void(const std::string&)> tell);
  ~WhereaboutsSignal();
  WhereaboutsSignal(const WhereaboutsSignal&) = delete;
  WhereaboutsSignal& operator=(const WhereaboutsSignal&) = delete;

 private:
  void run();

  const std::function<void(const std::string&)> tell_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_WHEREABOUTS_SIGNAL_H_
