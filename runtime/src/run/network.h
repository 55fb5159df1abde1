// What a run's options say of the network.
#ifndef HYCRT_SRC_RUN_NETWORK_H_
#define HYCRT_SRC_RUN_NETWORK_H_

#include "comm/network_options.h"
#include "hycrt/options.h"

namespace hycrt {

// --ports has been checked.
NetworkOptions networkOptions(const RunOptions& options);

}  // namespace hycrt

#endif  // HYCRT_SRC_RUN_NETWORK_H_
