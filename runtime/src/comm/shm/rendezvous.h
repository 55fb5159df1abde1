// Rendezvous: the ranks of one machine find each other and hand around the memfds of their arenas. Rank 0 is the hub:
// every rank sends it a hello, and gets back everyone else's once all have come. Nothing is kept afterwards but the
// mappings; training needs no socket. Memory is handed to nobody before both sides have shown that they are of one
// user, and, where the job has a token, that they know it (handshake.h).
#ifndef HYCRT_SRC_COMM_SHM_RENDEZVOUS_H_
#define HYCRT_SRC_COMM_SHM_RENDEZVOUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/environment.h"
#include "base/file.h"
#include "comm/admission.h"
#include "hycrt/status.h"

namespace hycrt {

struct PeerHello : RankHello {
  int64_t blockBytes = 0;
  FileDescriptor memfd;
};

inline constexpr int64_t kRendezvousMs = 60000;

// All other ranks, indexed by rank (the own entry has rank -1). `own.memfd` is only borrowed. Ranks with another plan
// hash, another world size, another agreement or a rank that has come before end the job, each with an error that names
// both.
Result<std::vector<PeerHello>> rendezvous(const Environment& environment, const PeerHello& own,
                                          int64_t timeoutMs = kRendezvousMs);

// Of a rank that has failed before it met the others: tells them, so that they need not wait for it. Rank 0 does so by
// being the hub for a moment; where it is not there, nobody is told.
void tellOfFailure(const Environment& environment, const std::string& program, const Status& failure);

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_SHM_RENDEZVOUS_H_
