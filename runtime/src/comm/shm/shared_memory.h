// The transport between ranks of one machine: each maps the memory of all others, with what they say and their shared
// arenas. There is no server, and after the rendezvous no socket; a rank that waits sleeps on its own doorbell.
#ifndef HYCRT_SRC_COMM_SHM_SHARED_MEMORY_H_
#define HYCRT_SRC_COMM_SHM_SHARED_MEMORY_H_

#include <memory>

#include "comm/transport.h"

namespace hycrt {

int64_t sharedMemoryHeadBytes(const TransportSetup& setup);
Result<std::unique_ptr<Transport>> connectSharedMemory(const TransportSetup& setup, const RankMemory& memory);

// The same among some ranks of the job, ascending, which meet as `meeting` says, where each has the number of its place
// in the list. Of the others this transport knows nothing, and must not be asked.
Result<std::unique_ptr<Transport>> connectSharedMemoryOf(const TransportSetup& setup, const RankMemory& memory,
                                                         const Environment& meeting, const std::vector<int>& ranks);

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_SHM_SHARED_MEMORY_H_
