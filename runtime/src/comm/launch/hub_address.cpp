// What rank 0 says of itself on a board, or in torch's store.
#include "comm/launch/hub_address.h"

#include <algorithm>
#include <sstream>

#include "base/clock.h"
#include "base/launchers.h"
#include "comm/launch/board.h"
#include "comm/launch/torch_store.h"
#include "comm/tcp/addresses.h"
#include "hycrt/token.h"

namespace hycrt {
namespace {

constexpr char kHubKey[] = "hyc-rank-0";
constexpr int64_t kStoreMs = 5000;  // for an agent to answer, which has started this process

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

std::string keyOf(int rank) { return "hyc-at-" + std::to_string(rank); }

// "10.0.0.1/24,192.168.1.1/16": of the network that is to be used, or of all that lead to other hosts.
Result<std::string> addressesHere(const NetworkOptions& options) {
  if (!options.interface.empty()) return localAddress(options, "");
  std::string list;
  for (const std::string& address : networkAddresses()) {
    if (list.size() + address.size() < kMostValueBytes) list += (list.empty() ? "" : ",") + address;
  }
  return list;
}

// A port that is free there now.
Result<int> freePort(const NetworkOptions& options, const std::string& address) {
  int port = 0;
  const Result<FileDescriptor> listener = listenOn(address, 0, options, &port);
  return listener.ok() ? Result<int>(port) : Result<int>(listener.status());
}

// "10.0.0.1@4711"
std::string wordOf(const std::string& address, int port) { return address + "@" + std::to_string(port); }

bool parseWord(const std::string& word, HostPort* hub) {
  const size_t at = word.rfind('@');
  if (at == std::string::npos) return false;
  hub->host = word.substr(0, at);
  hub->port = std::atoi(word.c_str() + at + 1);
  return !hub->host.empty() && hub->port >= 1 && hub->port <= 65535;
}

Result<std::string> chooseHub(Board& board, const NetworkOptions& options, int ranks) {
  std::vector<std::string> lists;
  for (int rank = 0; rank < ranks; ++rank) {
    Result<std::string> list = board.get(rank, keyOf(rank));
    if (!list.ok()) return list;
    if (std::find(lists.begin(), lists.end(), *list) == lists.end()) lists.push_back(*list);
  }
  const std::string address = chooseAddress(lists);
  if (address.empty()) {
    return unavailableError(
        "this host has no address that others could reach; set MASTER_ADDR and MASTER_PORT, or name "
        "its network by --interface");
  }
  const Result<int> port = freePort(options, address);
  return port.ok() ? Result<std::string>(wordOf(address, *port)) : Result<std::string>(port.status());
}

// On one host a name is enough.
Result<std::string> meetAtBoard(Board& board, const NetworkOptions& options, const Environment& environment) {
  if (environment.hosts > 1) {
    Result<std::string> here = addressesHere(options);
    if (!here.ok()) return here;
    HYCRT_RETURN_IF_ERROR(board.put(keyOf(environment.rank), *here));
    HYCRT_RETURN_IF_ERROR(board.fence());
  }
  if (environment.rank == 0) {
    Result<std::string> word =
        environment.hosts > 1 ? chooseHub(board, options, environment.worldSize) : Result<std::string>(makeName());
    if (!word.ok()) return word;
    HYCRT_RETURN_IF_ERROR(board.put(kHubKey, *word));
  }
  HYCRT_RETURN_IF_ERROR(board.fence());
  return board.get(0, kHubKey);
}

Status findByBoard(const NetworkOptions& options, int64_t timeoutMs, Environment* environment) {
  Result<std::unique_ptr<Board>> board = environment->hubIsTold == HubIsTold::kByPmi
                                             ? openPmi(environment->pmiDescriptor, timeoutMs)
                                             : openPmix(timeoutMs);
  if (!board.ok()) return board.status();
  const Result<std::string> word = meetAtBoard(**board, options, *environment);
  if (!word.ok()) return word.status();
  if (environment->hosts == 1) {
    environment->job += *word;
    Result<std::string> path = socketPath(*word);
    if (!path.ok()) return path.status();
    environment->socketName = *path;
    return {};
  }
  HostPort hub;
  if (!parseWord(*word, &hub)) return unavailableError("the launcher says that rank 0 is at '" + *word + "'");
  environment->masterAddress = hub.host;
  environment->port = hub.port;
  environment->job += *word;
  return {};
}

// Rank 0 keeps to the place that others expect where it can: then it is no matter whether they can read the store.
Result<std::string> placeBesideStore(const NetworkOptions& options, const Environment& environment,
                                     const TorchStore& store) {
  int port = 0;
  const Result<std::string> expected = localAddress(options, environment.masterAddress);
  if (expected.ok() && listenOn(*expected, environment.port, options, &port).ok()) return wordOf(*expected, port);
  Result<std::string> address = localAddress(options, store.ownAddress());
  if (!address.ok()) return address;
  const Result<int> taken = freePort(options, *address);
  return taken.ok() ? Result<std::string>(wordOf(*address, *taken)) : Result<std::string>(taken.status());
}

// Whether it gives back what it was given, at once.
bool isStore(TorchStore& store, const std::string& key) {
  const std::string value = "here";
  if (!store.set(key, value).ok()) return false;
  const Result<std::string> again = store.get(key, monotonicMs() + kStoreMs);
  return again.ok() && *again == value;
}

Status findByStore(const NetworkOptions& options, int64_t timeoutMs, Environment* environment) {
  const std::string key = "hyc/" + environment->job + "rank-0";
  Result<TorchStore> store =
      TorchStore::open(environment->masterAddress, environment->agentPort, monotonicMs() + kStoreMs);
  if (!store.ok() || !isStore(*store, key + "/" + std::to_string(environment->rank))) return {};
  if (environment->rank == 0) {
    const Result<std::string> place = placeBesideStore(options, *environment, *store);
    if (!place.ok()) return place.status();
    HYCRT_RETURN_IF_ERROR(store->set(key, *place));
  }
  const Result<std::string> word = store->get(key, monotonicMs() + timeoutMs);
  HostPort hub;
  if (!word.ok() || !parseWord(*word, &hub)) return {};
  environment->masterAddress = hub.host;
  environment->port = hub.port;
  return {};
}

}  // namespace

std::string chooseAddress(const std::vector<std::string>& lists) {
  std::string first;
  for (const std::string& candidate : lists.empty() ? std::vector<std::string>() : split(lists[0])) {
    const auto isShared = [&](const std::string& list) {
      const std::vector<std::string> others = split(list);
      return std::any_of(others.begin(), others.end(),
                         [&](const std::string& other) { return areOfOneNetwork(candidate, other); });
    };
    const std::string address = candidate.substr(0, candidate.find('/'));
    if (first.empty()) first = address;
    if (std::all_of(lists.begin(), lists.end(), isShared)) return address;
  }
  return first;
}

Status findHub(const NetworkOptions& options, int64_t timeoutMs, Environment* environment) {
  switch (environment->hubIsTold) {
    case HubIsTold::kByVariables:
      return {};
    case HubIsTold::kByPmi:
    case HubIsTold::kByPmix:
      return findByBoard(options, timeoutMs, environment);
    case HubIsTold::kByTorchStore:
      return findByStore(options, timeoutMs, environment);
  }
  return {};
}

}  // namespace hycrt
