// Meeting: the ranks of a job on several hosts find each other. Rank 0 listens at MASTER_ADDR; every other rank calls
// there, both prove to know the job's token (comm/shm/handshake.h), and from then on they talk by TLS
// (secure_stream.h). Each tells who it is, on which machine, and where it listens for the others; once all have come,
// each is told all. Strangers at rank 0's port delay nobody (comm/shm/doorkeeper.h).
#ifndef HYCRT_SRC_COMM_TCP_MEETING_H_
#define HYCRT_SRC_COMM_TCP_MEETING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/file.h"
#include "comm/admission.h"
#include "comm/network_options.h"
#include "comm/shm/handshake.h"
#include "comm/tcp/addresses.h"
#include "hycrt/status.h"

namespace hycrt {

struct HostHello : RankHello {
  std::string machine;  // ranks that say the same share a kernel and its abstract sockets (to be proven)
  HostAddress address;  // where it listens for others
};

struct Met {
  std::vector<HostHello> ranks;  // by rank, this one's own among them
  std::string name;              // of this meeting; no other has it
  FileDescriptor listener;       // at this rank's address
};

// What is claimed for a purpose.
Claim claimFor(const Environment& environment, const std::string& purpose, const std::string& agreement);

// `own` without its address.
Result<Met> meetOverTcp(const Environment& environment, const NetworkOptions& options, HostHello own,
                        int64_t timeoutMs);

// Of a rank that has failed before it met the others.
void tellOfFailureOverTcp(const Environment& environment, const NetworkOptions& options, const std::string& program,
                          const Status& failure);

// This machine as its kernel and its network namespace tell it apart from others, and what it is called.
std::string machineIdentity();
std::string machineName();

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_TCP_MEETING_H_
