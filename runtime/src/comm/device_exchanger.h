// DeviceExchanger: exchanges that devices do among themselves (NCCL). A wait is one of the device's streams for
// another, and returns at once. Hosts are what devices find each other by, and who tells which rank is gone.
#ifndef HYCRT_SRC_COMM_DEVICE_EXCHANGER_H_
#define HYCRT_SRC_COMM_DEVICE_EXCHANGER_H_

#include <cstddef>
#include <functional>

#include "comm/exchanger.h"
#include "comm/host_exchanger.h"
#include "hycrt/accelerator.h"
#include "hycrt/status.h"

namespace hycrt {

class DeviceExchanger : public Exchanger {
 public:
  // What the first member of a group tells the others by way of the hosts: fills kGreetingBytes.
  using Greeter = void (*)(std::byte*);
  virtual Greeter greeter() const = 0;
  // What is done where exchanges cannot go on while the run's own thread waits for the device, which may be for ever:
  // tells the error and ends the process. Called by another thread.
  using EndRun = std::function<void(const Status&)>;
  // Joins every group that this rank is in; all ranks call it. `host` and `device` outlive this object. From then on
  // until it leaves exchanges are watched: an error of one of them, a member that is gone, or one that takes too long
  // ends the run with a line that names it.
  virtual Status connect(const Program& program, HostExchanger& host, Accelerator& device, EndRun endRun) = 0;

  // A step that is recorded (Accelerator::beginRecording): joinRecording, before its end, lets `stream` wait for all
  // exchanges in it, and tells why there can be no such step where one of them has failed, which none does till then;
  // replay is called before each time that it runs.
  virtual void beginRecording() = 0;
  virtual Status joinRecording(CUstream_st* stream) = 0;
  virtual void endRecording(bool failed) = 0;
  virtual Status replay() = 0;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_DEVICE_EXCHANGER_H_
