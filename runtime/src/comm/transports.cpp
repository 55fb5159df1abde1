// The transports that there are, the fastest first.
#include "comm/shm/rendezvous.h"
#include "comm/shm/shared_memory.h"
#include "comm/transport.h"

namespace hycrt {

static const TransportKind kTransports[] = {
    {"shared memory", [](const Surroundings& surroundings) { return surroundings.hosts == 1; }, sharedMemoryHeadBytes,
     tellOfFailure, connectSharedMemory},
};

Result<const TransportKind*> transportFor(const Surroundings& surroundings) {
  for (const TransportKind& kind : kTransports) {
    if (kind.carries(surroundings)) return &kind;
  }
  return unavailableError("the job spans " + std::to_string(surroundings.hosts) +
                          " machines, which no transport of this runtime connects");
}

std::vector<const char*> publicationNames(const Program& program) {
  std::vector<const char*> names;
  for (const CollectiveDesc& collective : program.collectives) names.push_back(collective.name);
  for (const TransferDesc& transfer : program.transfers) names.push_back(transfer.name);
  names.push_back("the end of a phase of the run");
  return names;
}

}  // namespace hycrt
