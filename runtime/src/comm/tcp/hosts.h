// Hosts: the ranks of a job that stand on several machines. Those of one machine share memory, as if they were alone;
// the others are reached by TCP.
//
// Ranks are of one machine where they name the same boot of a kernel and the same network namespace, and then manage to
// hand each other their memory over an abstract socket there.
#ifndef HYCRT_SRC_COMM_TCP_HOSTS_H_
#define HYCRT_SRC_COMM_TCP_HOSTS_H_

#include <memory>

#include "comm/transport.h"

namespace hycrt {

Result<std::unique_ptr<Transport>> connectHosts(const TransportSetup& setup, const RankMemory& memory);

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_TCP_HOSTS_H_
