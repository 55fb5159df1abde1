// Heartbeat: a thread that does nothing but tell the other ranks that this process runs, and how far it has come. It
// beats while the rank computes, reads a slow disk or waits, and not while the process is stopped.
#ifndef HYCRT_SRC_COMM_HEARTBEAT_H_
#define HYCRT_SRC_COMM_HEARTBEAT_H_

#include <atomic>
#include <cstdint>
#include <thread>

#include "comm/transport.h"
#include "hycrt/status.h"

namespace hycrt {

class Heartbeat {
 public:
  Heartbeat() = default;
  ~Heartbeat() { stop(); }
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // `signs` are this rank's, and outlive the beats.
  Status start(RankSigns& signs);
  void stop();

 private:
  void run(RankSigns& signs);

  std::atomic<uint32_t> stopping_{0};  // a futex word
  std::thread thread_;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_HEARTBEAT_H_
