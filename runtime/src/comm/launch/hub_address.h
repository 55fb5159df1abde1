// Where ranks of several hosts meet, where that is not said by MASTER_ADDR and MASTER_PORT alone: rank 0 takes a port
// and leaves word of it where the launcher lets ranks read each other's.
#ifndef HYCRT_SRC_COMM_LAUNCH_HUB_ADDRESS_H_
#define HYCRT_SRC_COMM_LAUNCH_HUB_ADDRESS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/environment.h"
#include "comm/network_options.h"
#include "hycrt/status.h"

namespace hycrt {

// Fills in the master's address and port, or the socket's name where all ranks stand on one host, if they are not
// known. All ranks call it.
Status findHub(const NetworkOptions& options, int64_t timeoutMs, Environment* environment);

// Of the addresses of rank 0's host ("10.0.0.1/24", as they are tried) the first that is in a network of each of the
// others, by their lists; the first of all where none is. Empty: there is none.
std::string chooseAddress(const std::vector<std::string>& lists);

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_LAUNCH_HUB_ADDRESS_H_
