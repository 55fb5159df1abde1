// DeviceCollectives: exchanges that devices do among themselves (NCCL), in place of the communicator's.
#ifndef HYCRT_SRC_COMM_DEVICE_COLLECTIVES_H_
#define HYCRT_SRC_COMM_DEVICE_COLLECTIVES_H_

#include <cstddef>
#include <functional>

#include "comm/communicator.h"
#include "hycrt/collectives.h"
#include "hycrt/context.h"
#include "hycrt/status.h"

namespace hycrt {

class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;

  // What the first member of a group tells the others by way of the shared block: fills kGreetingBytes.
  using Greeter = void (*)(std::byte*);
  virtual Greeter greeter() const = 0;
  // What is done where exchanges cannot go on while the run's own thread waits for the device, which may be for ever:
  // tells the error and ends the process. Called by another thread.
  using EndRun = std::function<void(const Status&)>;
  // Joins every group that this rank is in; all ranks call it. `communicator` outlives this object. From then on
  // exchanges are watched: an error of one of them, a member that is gone, or one that takes too long ends the run with
  // a line that names it.
  virtual Status connect(const Program& program, Communicator& communicator, int rank, EndRun endRun) = 0;

  // The device has done all exchanges; from here on none is watched.
  virtual void endWatch() = 0;

  // As of Communicator, with tensors where the accelerator has them. A wait is one of the device's streams for another:
  // it returns at once.
  virtual Result<Ticket> start(Context& ctx, const CollectiveCall& call) = 0;
  virtual Status wait(Ticket ticket) = 0;
  virtual Status exchange(Context& ctx, const TransferUse* uses, int count) = 0;
  // A step that is recorded (Accelerator::beginRecording): joinRecording, before its end, lets `stream` wait for all
  // exchanges in it; replay is called before each time that it runs.
  virtual void beginRecording() = 0;
  virtual Status joinRecording(CUstream_st* stream) = 0;
  virtual void endRecording(bool failed) = 0;
  virtual void replay() = 0;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_DEVICE_COLLECTIVES_H_
