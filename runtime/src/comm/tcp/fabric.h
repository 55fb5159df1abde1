// Fabric: another way for frames to the ranks of other hosts than their connections, where the network has one that is
// faster. Connections remain, for who a peer is and whether it lives.
#ifndef HYCRT_SRC_COMM_TCP_FABRIC_H_
#define HYCRT_SRC_COMM_TCP_FABRIC_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "comm/tcp/link.h"
#include "hycrt/status.h"

namespace hycrt {

class Fabric {
 public:
  virtual ~Fabric() = default;

  // What a peer calls this rank by. Addresses pass over the connections, which are proven.
  virtual const std::string& address() const = 0;
  virtual Status connect(int rank, const std::string& address) = 0;

  // As Link's, on any thread. Frames to one rank arrive in order.
  virtual void send(int rank, FrameHead head, std::string_view bytes) = 0;
  virtual void sendLong(int rank, FrameHead head, const std::byte* bytes, int64_t count,
                        std::atomic<uint64_t>* sent) = 0;

  // Receives and sends on, on one thread at a time; whether there was anything.
  virtual bool progress() = 0;
  // Readable when progress() would do something, if arm() has said so: false, and there is something already.
  virtual int descriptor() const = 0;
  virtual bool arm() = 0;
  // A frame that makes no sense has come from this rank, or none reaches it any more.
  virtual bool hasFailed(int rank) const = 0;
  // Whether all that was sent has gone; begins to see to it.
  virtual bool hasSentAll() = 0;

  virtual int64_t bufferBytes() const = 0;
};

// By UCX, which is loaded then; kUnavailable where this runtime was built without, or it is not installed. `taker`
// outlives it.
Result<std::unique_ptr<Fabric>> openUcx(int rank, int ranks, FrameTaker& taker);
bool canUseUcx();

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_TCP_FABRIC_H_
