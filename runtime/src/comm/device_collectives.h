// DeviceCollectives: exchanges that devices do among themselves (NCCL), in place of the communicator's.
#ifndef HYCRT_SRC_COMM_DEVICE_COLLECTIVES_H_
#define HYCRT_SRC_COMM_DEVICE_COLLECTIVES_H_

#include <cstddef>

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
  // Joins every group that this rank is in; all ranks call it. `communicator` outlives the calls below.
  virtual Status connect(const Program& program, Communicator& communicator, int rank) = 0;

  // As of Communicator, with tensors where the accelerator has them. A wait is one of the device's streams for another:
  // it returns at once.
  virtual Result<Ticket> start(Context& ctx, const CollectiveCall& call) = 0;
  virtual Status wait(Ticket ticket) = 0;
  virtual Status exchange(Context& ctx, const TransferUse* uses, int count) = 0;
  // Waits until `stream` is done, looking after the exchanges under way: an error of one of them, or one that takes too
  // long, ends the wait and names it.
  virtual Status watch(CUstream_st* stream) = 0;
};

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_DEVICE_COLLECTIVES_H_
