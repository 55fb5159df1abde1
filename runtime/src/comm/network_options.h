// What a user may say of the network between the hosts of a job.
#ifndef HYCRT_SRC_COMM_NETWORK_OPTIONS_H_
#define HYCRT_SRC_COMM_NETWORK_OPTIONS_H_

#include <cstdint>
#include <string>

namespace hycrt {

struct NetworkOptions {
  int ranksTogether = 0;          // neighbours that are taken for one host's, whatever stands beside; 0: as they stand
  bool byUcx = false;             // what is exchanged with other hosts goes by UCX, which authenticates nobody
  bool plaintext = false;         // ranks prove that they know the token, and what they say then can be read on the way
  int sockets = 1;                // connections between two ranks
  std::string interface;          // a name, or a network as in 10.0.0.0/8; empty: the one that leads to rank 0
  int lowPort = 0, highPort = 0;  // of each rank's listening port; 0: any
  int64_t timeoutMs = 0;          // after which a peer that acknowledges nothing is lost; 0: as the system has it
};

// "4000-4100", "4000"; false where it is neither.
bool parsePorts(const std::string& text, int* low, int* high);

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_NETWORK_OPTIONS_H_
