// Moving tensors between arenas as generated code calls it: start, then wait with the ticket.
//
//   hycrt::MoveTicket t = hycrt::fetchStart(ctx, {kNvme, 8192}, {kHost, 0}, 4096);      nvme to host: read ahead
//   ...
//   hycrt::wait(ctx, t);
//   ...
//   t = hycrt::evictStart(ctx, {kHost, 0}, {kNvme, 8192}, 4096);                        host to nvme: written behind
//
// Fetch goes towards the device (nvme, host, device), evict away from it. Between start and wait both ranges belong to
// the runtime. Where one side is a file, offsets and sizes are multiples of 4,096 bytes and the other side is memory;
// the disk works while the caller computes. On the CPU target host and device are one memory: such a move is done when
// start returns, by all threads of the rank.
//
// A failed transfer is kept by the Context as any other error (see context.h); its message names the file, the offset,
// the rank and the state that lies there.
#ifndef HYCRT_OFFLOAD_H_
#define HYCRT_OFFLOAD_H_

#include <cstdint>

#include "hycrt/context.h"
#include "hycrt/types.h"

namespace hycrt {

// What wait needs; a default ticket is complete.
struct MoveTicket {
  uint64_t sequence = 0;
};

// `zeros` bytes after those that are copied become zero, between memories only.
MoveTicket fetchStart(Context& ctx, BufferRef source, BufferRef destination, int64_t bytes, int64_t zeros = 0);
MoveTicket evictStart(Context& ctx, BufferRef source, BufferRef destination, int64_t bytes);
void wait(Context& ctx, MoveTicket ticket);

}  // namespace hycrt

#endif  // HYCRT_OFFLOAD_H_
