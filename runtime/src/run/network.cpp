// Options of a run as the transports take them.
#include "run/network.h"

namespace hycrt {

NetworkOptions networkOptions(const RunOptions& options) {
  NetworkOptions network;
  network.ranksTogether = options.transport == TransportChoice::kTcp ? 1 : 0;
  network.byUcx = options.transport == TransportChoice::kUcx;
  network.plaintext = options.plaintext;
  network.sockets = options.sockets;
  network.interface = options.interface;
  network.timeoutMs = options.exchangeTimeout * 1000;
  if (!options.ports.empty()) (void)parsePorts(options.ports, &network.lowPort, &network.highPort);
  return network;
}

}  // namespace hycrt
