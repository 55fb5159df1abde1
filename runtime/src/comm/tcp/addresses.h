// Addresses: where a rank listens, and how others are reached. IPv4 and IPv6; text is numeric but for names that a user
// gave.
#ifndef HYCRT_SRC_COMM_TCP_ADDRESSES_H_
#define HYCRT_SRC_COMM_TCP_ADDRESSES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "comm/network_options.h"
#include "hycrt/status.h"

namespace hycrt {

struct HostAddress {
  std::string text;  // numeric
  int port = 0;
};

// "[fe80::1]:4000", "10.0.0.1:4000"
std::string shown(const HostAddress& address);

// Of this host, what the options name; where they name nothing, `otherwise`.
Result<std::string> localAddress(const NetworkOptions& options, const std::string& otherwise);

// Those of this host that other hosts may reach, with the size of their networks: "10.0.0.1/24"; IPv4 first.
std::vector<std::string> networkAddresses();
// Whether two of these are in one network, as the first has it; so is one without a size, which a user has named.
bool areOfOneNetwork(const std::string& a, const std::string& b);

// Listens on this address alone; port 0 takes one of the options' range, or any. `port` gets the one taken.
Result<FileDescriptor> listenOn(const std::string& address, int port, const NetworkOptions& options, int* taken);

// A name or an address, until the deadline, as often as it takes. kUnavailable says what came of it last.
Result<FileDescriptor> reach(const std::string& host, int port, int64_t deadlineMs);

// Of a connection's own end, and of its other one.
std::string ownAddress(const FileDescriptor& connection);
std::string peerAddress(const FileDescriptor& connection);

// Nothing is held back, and a peer that acknowledges nothing is lost after the options' time.
void prepareConnection(const FileDescriptor& connection, const NetworkOptions& options);

// Whether a name or address can only mean this machine.
bool isLoopback(const std::string& host);

}  // namespace hycrt

#endif  // HYCRT_SRC_COMM_TCP_ADDRESSES_H_
