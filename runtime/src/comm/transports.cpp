// The transports that there are, the fastest first.
#include "comm/shm/rendezvous.h"
#include "comm/shm/shared_memory.h"
#include "comm/tcp/hosts.h"
#include "comm/tcp/meeting.h"
#include "comm/transport.h"

namespace hycrt {

static const TransportKind kTransports[] = {
    {"shared memory",
     [](const Surroundings& surroundings, const NetworkOptions& network) {
       return surroundings.hosts == 1 && network.ranksTogether == 0 && !network.byUcx;
     },
     sharedMemoryHeadBytes,
     [](const Environment& environment, const NetworkOptions&, const std::string& program, const Status& failure) {
       tellOfFailure(environment, program, failure);
     },
     connectSharedMemory},
    {"ucx",
     [](const Surroundings& surroundings, const NetworkOptions& network) {
       return surroundings.worldSize > 1 && network.byUcx;
     },
     sharedMemoryHeadBytes, tellOfFailureOverTcp, connectHosts},
    {"tcp", [](const Surroundings& surroundings, const NetworkOptions&) { return surroundings.worldSize > 1; },
     sharedMemoryHeadBytes, tellOfFailureOverTcp, connectHosts},
};

Result<const TransportKind*> transportFor(const Surroundings& surroundings, const NetworkOptions& network) {
  for (const TransportKind& kind : kTransports) {
    if (kind.carries(surroundings, network)) return &kind;
  }
  return &kTransports[0];  // a rank alone
}

std::vector<const char*> publicationNames(const Program& program) {
  std::vector<const char*> names;
  for (const CollectiveDesc& collective : program.collectives) names.push_back(collective.name);
  for (const TransferDesc& transfer : program.transfers) names.push_back(transfer.name);
  names.push_back("the end of a phase of the run");
  return names;
}

}  // namespace hycrt
